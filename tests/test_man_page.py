"""The man page is what the code would make now."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tools import man_page


def test_every_command_is_on_the_page() -> None:
    """`python -m tools.man_page` writes it."""
    assert man_page.PAGE.read_text(encoding="utf-8") == man_page.page()


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_troff_has_nothing_to_say_against_it() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(man_page.PAGE)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


def test_options_that_only_have_the_name_of_a_setting_are_on_the_page() -> None:
    """They mean something else there than in the settings."""
    (failover,) = (part for part in man_page.page().split('.SS "') if part.startswith('failover"'))
    assert [flag for flag in ("topics", r"drain\-timeout") if rf"\-\-{flag}\fR" not in failover] == []
