"""Where the published measurements lie."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def published_folder() -> Path:
    """The folder that ``PERFMODEL_DATA`` names; without a name the program ends with one line."""
    data = os.environ.get("PERFMODEL_DATA")
    if not data:
        sys.exit("PERFMODEL_DATA must name the folder with the published measurements")
    return Path(data)
