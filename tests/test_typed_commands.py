"""Every command of the program in the documentation is taken by its own parser, as in a user's shell."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from replicator.cli import app
from tests.support.guide import commands_of

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "zh").glob("*.md")])
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: What a reader puts something of his own in the place of: `NAME`, `URL-OF-A-WORKER`, `<host>`, `…`, `反向组的URL`.
PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_:-]*|<.*>|.*…|.*[^\x00-\x7f].*")
#: The whole program: the types are click's, since typer has no public ones.
PROGRAM: Any = get_command(app)


def inline(text: str) -> Iterator[str]:
    """What stands between backticks and begins with the program; a line break there is a blank."""
    for span in re.findall(r"`([^`]+)`", BLOCK.sub("", text)):
        if re.match(r"replicator(\s|$)", span):
            yield span.replace("\n", " ").replace("\\|", "|")


def in_blocks(text: str) -> Iterator[str]:
    """Lines of blocks that begin with the program, up to what the shell does with its output."""
    lines = (line for line in commands_of(text) if re.match(r"replicator( |$)", line))
    yield from (re.split(r" [|>&] ", line)[0] for line in lines)


def alternatives(line: str) -> Iterator[list[str]]:
    """The words of each command that one with `this|that` stands for."""
    words = shlex.split(re.sub(r"(?<=\w) \| (?=\w)", "|", line))
    named = [word.split("|") if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", word) else [word] for word in words]
    yield from (list(each) for each in itertools.product(*named))


def refusal(words: list[str]) -> str:
    """Why the program does not take `words`; empty: it does, once the placeholders are filled in."""
    command, info = PROGRAM, words[0]
    words = words[1:]
    while True:
        context = command.make_context(info, [], resilient_parsing=True)
        context.resilient_parsing = False
        try:
            given, rest, order = command.make_parser(context).parse_args(list(words))
            for param in {id(each): each for each in order}.values():
                value = given.get(param.name)
                if param.name == "help":
                    return ""
                if value is not None and not any(map(PLACEHOLDER.fullmatch, map(str, flat(value)))):
                    param.process_value(context, value)
        except Exception as error:
            if not hasattr(error, "format_message"):  # as all have by which click refuses what was typed
                raise
            return str(error.format_message())
        if not hasattr(command, "commands"):
            return f"too many arguments: {rest}" if rest else ""
        if not rest:
            return ""
        following = command.get_command(context, rest[0])
        if following is None:
            return f"there is no command {rest[0]!r}"
        command, info, words = following, rest[0], rest[1:]


def flat(value: object) -> list[object]:
    return [*value] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_is_taken(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = {
        line: why
        for line in (*inline(text), *in_blocks(text))
        for words in alternatives(line)
        # It stands for a value, or for any further words.
        if (why := refusal([word for word in words if word != "…"])) and refusal(words)
    }
    assert wrong == {}


def test_something_was_looked_at() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert len({line for text in texts for line in inline(text)}) > 80
    assert len({line for text in texts for line in in_blocks(text)}) > 80


@pytest.mark.parametrize(
    "line",
    [
        "replicator halt",
        "replicator connectors halt route",
        "replicator acl plan|aply",
        "replicator failover --no-wait",
        "replicator sandbox topic orders payments",
        "replicator sandbox produce orders --count many",
        "replicator sandbox topic orders --queues 0",
        "replicator --sources A --target B",
        "replicator readiness --url",
    ],
)
def test_what_the_program_does_not_take_is_found(line: str) -> None:
    assert any(map(refusal, alternatives(line)))


@pytest.mark.parametrize(
    "line",
    [
        "replicator",
        "replicator … --sync topics,groups",
        "replicator acl plan | apply | status",
        "replicator sandbox produce orders --count N",
        "replicator reverse --back-url 反向组的URL",
        "replicator where TOPIC BROKER QUEUE <offset>",
    ],
)
def test_placeholders_are_filled_in_by_the_reader(line: str) -> None:
    assert not any(refusal([word for word in words if word != "…"]) for words in alternatives(line))
