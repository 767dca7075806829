"""Documents that are made from the code are what the code would make now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from replicator.cli import app
from tools import cli_page, cli_schemas, config_page, metrics_page, openapi


def test_every_setting_is_on_the_page() -> None:
    """`python -m tools.config_page` writes it."""
    assert config_page.PAGE.read_text() == config_page.page()


def test_every_command_is_on_the_page() -> None:
    """`python -m tools.cli_page` writes it."""
    assert cli_page.PAGE.read_text() == cli_page.page()


def test_rest_is_as_the_document_says() -> None:
    """`python -m tools.openapi` writes it, so that no change of REST goes unseen."""
    assert openapi.PAGE.read_text() == openapi.page()
    paths = openapi.document()["paths"]
    assert {"get", "put", "post", "delete"} == {method for path in paths.values() for method in path}


def test_commands_print_what_the_document_says() -> None:
    """`python -m tools.cli_schemas` writes it. All commands that have `-o`, and no others, are in it."""
    assert cli_schemas.PAGE.read_text() == cli_schemas.page()
    assert {*printing("", get_command(app))} == cli_schemas.PRINTED.keys()


def printing(name: str, command: Any) -> Iterator[str]:
    """The names of a command and its subcommands that have `-o`."""
    if any("-o" in parameter.opts for parameter in command.params):
        yield name
    for each in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from printing(f"{name} {each}".strip(), command.get_command(None, each))


def test_every_metric_is_on_the_page() -> None:
    """`python -m tools.metrics_page` writes it."""
    assert metrics_page.PAGE.read_text() == metrics_page.page()


@pytest.mark.parametrize(("page", "least"), [("GUARANTEES.md", 30), ("DISASTERS.md", 10)])
def test_all_tests_that_a_page_names_are_there(page: str, least: int) -> None:
    """Files by their path, or by their name alone where the directory has been named or is the route's."""
    root = Path(__file__).parent.parent
    there = {path.name for path in (root / "tests").rglob("test_*.py")}
    named = re.findall(r"`([\w/]*(?:test_\w+\.py|tests/\w+/))`", (root / "docs" / page).read_text())
    assert len(named) > least
    assert [name for name in named if not ((root / name).exists() if "/" in name else name in there)] == []


def test_promises_are_in_order_and_every_reference_is_one_of_them() -> None:
    """Numbers stay what they are: tests and pages refer to them."""
    root = Path(__file__).parent.parent
    page = (root / "docs" / "GUARANTEES.md").read_text()
    promised = [int(number) for number in re.findall(r"^\| G(\d+) ", page, re.MULTILINE)]
    assert promised == list(range(1, len(promised) + 1))
    for file in [*(root / "docs").glob("*.md"), root / "README.md", root / "conf" / "docker" / "compose.yml"]:
        referred = {int(number) for number in re.findall(r"\bG(\d+)\b", file.read_text())}
        assert referred <= set(promised), file
