"""Where the data that do not ship are, and the mark of a test that reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("STREAMGP_DATA") or ROOT.parent / "shared" / "data")
SHIPPED = ROOT / "producers" / "datasets"


def needs(*files: str) -> pytest.MarkDecorator:
    """Skip, saying so, where one of these files is not in ``STREAMGP_DATA`` (default ../shared/data)."""
    absent = [file for file in files if not (DATA / file).is_file()]
    return pytest.mark.skipif(bool(absent), reason=f"{', '.join(absent)} not in {DATA}; set STREAMGP_DATA")
