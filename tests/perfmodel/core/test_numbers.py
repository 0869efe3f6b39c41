"""Numbers of data files: the hash is that of the data which they were taken from."""

import hashlib
from pathlib import Path

import pytest

from perfmodel.core.numbers import Number, read_numbers

ROOT = Path(__file__).parents[3]
NUMBERS = {
    name: one
    for file in ("caches", "code_estimates", "matrix_products", "warp_latencies")
    for name, one in read_numbers(file).items()
}
HASHED = [*NUMBERS.values(), *(one for one in read_numbers("sm_model").values() if one.sha256)]
OWN = {one.data: one.sha256 for one in HASHED if one.data and one.data.startswith("validation/")}
PUBLISHED = {one.data: one.sha256 for one in NUMBERS.values() if one.data and one.data not in OWN}


@pytest.mark.parametrize("one", NUMBERS.values(), ids=NUMBERS)
def test_a_number_names_data_with_its_hash_or_says_that_it_was_not_taken_from_any(one: Number) -> None:
    assert (one.data is None) == (one.sha256 is None)
    assert one.data or one.source.startswith(("derived: ", "micro-benchmark "))


def test_hashes_of_own_data() -> None:
    assert {path: hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path in OWN} == OWN


@pytest.mark.data
def test_hashes_of_published_data(published_data: Path) -> None:
    assert {path: hashlib.sha256((published_data / path).read_bytes()).hexdigest() for path in PUBLISHED} == PUBLISHED
