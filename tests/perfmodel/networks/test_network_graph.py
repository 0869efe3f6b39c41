"""Networks as graphs: order, critical path, what is refused."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.networks.graph import Layer, Network, assemble


def layer(name: str) -> Layer:
    return Layer(name=name, operation="example", uncovered="example")


def network(*edges: tuple[str, tuple[str, ...]]) -> Network:
    return assemble("example", "example", 1, [(layer(name), after) for name, after in edges])


def test_the_longer_branch_decides() -> None:
    block = network(
        ("in", ()), ("main1", ("in",)), ("main2", ("main1",)), ("shortcut", ("in",)), ("out", ("main2", "shortcut"))
    )
    assert block.critical_path({"in": 1, "main1": 2, "main2": 2, "shortcut": 3, "out": 1}) == (
        "in",
        "main1",
        "main2",
        "out",
    )
    assert block.critical_path({"in": 1, "main1": 2, "main2": 2, "shortcut": 5, "out": 1}) == ("in", "shortcut", "out")


def test_layers_come_behind_what_they_depend_on_and_else_as_given() -> None:
    given_order = network(("c", ("a",)), ("a", ()), ("b", ()))
    assert [layer.name for layer in given_order.layers] == ["a", "c", "b"]


@given(st.integers(1, 7), st.data())
def test_critical_path_equals_the_longest_of_all_paths(size: int, data: st.DataObject) -> None:
    names = [str(i) for i in range(size)]
    after = {n: data.draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else [] for i, n in enumerate(names)}
    times = {name: float(data.draw(st.integers(0, 9))) for name in names}

    def longest_to(name: str) -> float:
        return times[name] + max((longest_to(before) for before in after[name]), default=0.0)

    path = network(*((name, tuple(after[name])) for name in names)).critical_path(times)
    assert sum(times[name] for name in path) == max(longest_to(name) for name in names)
    assert all(first in after[second] for first, second in itertools.pairwise(path))


@pytest.mark.parametrize(
    ("edges", "named"),
    [
        ([("a", ()), ("a", ())], "layer 'a' stands twice"),
        ([("a", ("ghost",))], "layer 'a' comes after 'ghost', which does not exist"),
        ([("a", ("b",)), ("b", ("a",))], "depend on one another in a cycle"),
        ([], "has no layers"),
    ],
)
def test_wrong_graphs_are_refused(edges: list[tuple[str, tuple[str, ...]]], named: str) -> None:
    with pytest.raises(InputError, match=named):
        network(*edges)


def test_a_layer_has_a_problem_or_a_reason() -> None:
    with pytest.raises(ValueError, match="either a problem or the reason"):
        Layer(name="x", operation="x")
