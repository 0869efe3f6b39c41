import pytest

from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.gpu import Gpu


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    return load_gpu("a100-sxm-80gb")
