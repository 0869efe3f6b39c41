import pytest

from perfmodel.gpu import Gpu
from perfmodel.gpus import load_gpu


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    return load_gpu("a100-sxm-80gb")
