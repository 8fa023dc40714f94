"""The page of settings says what the program reads."""

from __future__ import annotations

from tests.docs.settings_page import PAGE, page


def test_the_page_is_what_the_program_says() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tests.docs.settings_page"
