"""Documents that are made from the code are what the code would make now."""

from __future__ import annotations

from tools.config_page import PAGE, page


def test_every_setting_is_on_the_page() -> None:
    """`python -m tools.config_page` writes it."""
    assert PAGE.read_text() == page()
