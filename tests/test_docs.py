"""Documents that are made from the code are what the code would make now."""

from __future__ import annotations

from tools import config_page, metrics_page


def test_every_setting_is_on_the_page() -> None:
    """`python -m tools.config_page` writes it."""
    assert config_page.PAGE.read_text() == config_page.page()


def test_every_metric_is_on_the_page() -> None:
    """`python -m tools.metrics_page` writes it."""
    assert metrics_page.PAGE.read_text() == metrics_page.page()
