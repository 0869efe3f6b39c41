"""Tests of the service need what confines it."""

from __future__ import annotations

import pytest

from perfmodel.errors import PerfmodelError
from perfmodel.service.confinement import require_confinement


def _has_landlock() -> bool:
    try:
        require_confinement()
    except PerfmodelError:
        return False
    return True


needs_landlock = pytest.mark.skipif(not _has_landlock(), reason="needs Landlock: Linux 5.13 or newer")
