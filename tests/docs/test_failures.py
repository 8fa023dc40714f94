"""docs/failures.md names tests; they exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "failures.md").read_text()


def test_every_test_that_the_page_names_is_there() -> None:
    sources = "\n".join(p.read_text() for p in (ROOT / "tests").rglob("*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 25
    assert {name for name in named if f"def {name}(" not in sources} == set()
    paths = set(re.findall(r"`([\w/.]+\.py)`", PAGE))
    assert {p for p in paths if not (ROOT / p).is_file()} == set()


def test_every_row_says_what_shows_it() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) > 40
    assert all(len(row.strip("| ").split(" | ")) == 4 for row in rows)
