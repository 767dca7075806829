"""What guides tell their readers to type or to look at exists, in English and in Chinese."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replicator.cli import app
from replicator.errors import ConfigError
from tests.support.guide import commands_of
from tools import site

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
#: All that are written by hand for users, and those that stand in Chinese too.
GUIDES = sorted(
    [ROOT / "README.md", ROOT / "README.zh-CN.md"]
    + [
        DOCS / f"{name}.md"
        for name in (
            *(
                "ACL",
                "COMPATIBILITY",
                "CONCEPTS",
                "DISASTERS",
                "FAQ",
                "FIRST_STEPS",
                "INCIDENTS",
                "INSTALL",
                "METADATA",
                "MIGRATION",
                "MONITORING",
            ),
            *(
                "PAGE",
                "PLUGINS",
                "REST",
                "RUNBOOK",
                "SCALING",
                "SECURING",
                "SIZING",
                "TRANSFORMS",
                "TWO_WAY",
                "UPGRADE",
            ),
            *("WAN", "WORKERS"),
        )
    ]
    + [*(DOCS / "zh").glob("*.md")]
)
TRANSLATED = {"DISASTERS.md": "disasters.md", "FIRST_STEPS.md": "first-steps.md", "MIGRATION.md": "migration.md"}
#: Options of every command, and of other programs.
OTHERS = {"--help", "--config.file", "--storage.tsdb.path", "--web.listen-address"}
OTHERS |= {"--only", "--queues", "--workers"}  # of the benchmark and the simulation
#: What the commands that ask a worker read, which is not a setting of one.
ASKING = {"REPLICATOR_URL", "REPLICATOR_BACK_URL", "REPLICATOR_MAVEN_REPOSITORY"}


def commands() -> dict[str, set[str]]:
    """Each command of CLI.md, without the program's name, and its options."""
    page = (DOCS / "CLI.md").read_text(encoding="utf-8")
    sections = re.split(r"^## `replicator ?(.*)`$", page, flags=re.MULTILINE)[1:]
    return {
        name: set(re.findall(r"`(--[\w-]+)`", text))
        for name, text in zip(sections[::2], sections[1::2], strict=True)
    }


COMMANDS = commands()
SETTINGS = (DOCS / "CONFIG.md").read_text(encoding="utf-8")
FLAGS = {*re.findall(r"`(--[\w-]+)`", SETTINGS), *(flag for flags in COMMANDS.values() for flag in flags)}
KEYS = set(re.findall(r"^\| (?:`--[\w-]+`|none) \| `([\w.]+)`", SETTINGS, re.MULTILINE))
VARIABLES = {*re.findall(r"`(REPLICATOR_\w+)`", SETTINGS), *ASKING}
METRICS = set(re.findall(r"`(rocketmq_replicator_\w+)", (DOCS / "METRICS.md").read_text(encoding="utf-8")))
ALERTS = set(re.findall(r"^\| (Replicator\w+) ", (DOCS / "ALERTS.md").read_text(encoding="utf-8"), re.MULTILINE))
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def code(text: str) -> Iterator[str]:
    """Lines of blocks, without comments, and what stands between backticks; a line break there is a blank."""
    yield from commands_of(text)
    yield from (span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", BLOCK.sub("", text)))


def calls(text: str) -> Iterator[tuple[str, str]]:
    """Each call of the program: the words behind its name, and all that follows them."""
    for line in code(text):
        for found in re.finditer(r"(?:^|[\s/])replicator(?= |$)((?: [a-z][a-z|-]*(?![\w=.]))*)(.*)", line):
            yield found[1].strip(), found[2]


def named(words: str) -> list[str]:
    """The commands that `words` begin with: `connectors pause|stop route` are two."""
    first, *rest = words.split(" ") if words else [""]
    if any(name.startswith(f"{first} ") for name in COMMANDS if first) and rest:
        return [f"{first} {second}" for second in rest[0].split("|")]
    return first.split("|")


def without(flags: Iterable[str], known: set[str]) -> list[str]:
    """Those that are not known; a switch may be given as `--no-…` too."""
    return [flag for flag in flags if flag not in OTHERS and re.sub("^--no-", "--", flag) not in known]


def wrong_calls(text: str) -> list[str]:
    """Commands, their options and the settings given to them that do not exist."""
    wrong = []
    for words, rest in calls(text):
        for name in named(words):
            if name not in COMMANDS:
                wrong.append(f"replicator {name}")
            elif missing := without(re.findall(r"(?<![\w-])(--[a-z][\w.-]*)", rest), COMMANDS[name]):
                wrong += [f"replicator {name} {flag}" for flag in missing]
            if name == "connectors update" and "?" not in rest:
                wrong += [key for key in re.findall(r"\b([\w.]+)=", rest) if key not in KEYS]
    return wrong


def wrong_names(text: str) -> list[str]:
    """Flags, environment variables, metrics and alerts that do not exist."""
    spans = " ".join(code(text))
    return [
        *without(re.findall(r"(?<![\w-])(--[a-z][\w.-]*)", spans), FLAGS),
        *(name for name in re.findall(r"\b(REPLICATOR_[A-Z_]+)", spans) if name not in VARIABLES),
        *(name for name in re.findall(r"\brocketmq_replicator_\w+", text) if name not in METRICS),
        *(name for name in re.findall(r"\bReplicator[A-Z][a-zA-Z]+", text) if name not in ALERTS),
    ]


def anchors(page: Path) -> set[str]:
    """Those that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def wrong_links(page: Path) -> list[str]:
    """Relative links to what is not there."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_all_that_a_guide_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert wrong_calls(text) == []
    assert wrong_names(text) == []
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert {name for name in re.findall(r"\btest_\w+\.py", text) if name not in there} == set()


@pytest.mark.parametrize("name", site.pages())
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    """GitHub shows a broken one as any other; `make site` finds it too, and is run less often."""
    assert wrong_links(ROOT / name) == []


def test_something_was_looked_at() -> None:
    texts = [page.read_text(encoding="utf-8") for page in GUIDES]
    used = {name for text in texts for words, _ in calls(text) for name in named(words)}
    assert len(GUIDES) >= 25
    assert len(used) > 25
    assert len(ALERTS) > 20
    assert len(METRICS) > 40
    assert len(KEYS) > 60


@pytest.mark.parametrize(
    "broken",
    [
        "`replicator switch`",
        "`replicator connectors halt route`",
        "`replicator failover --no-wait`",
        "```\nreplicator --source A --target B --protect\n```",
        "`replicator connectors update route on_errors=skip`",
        "`--protects-target`",
        "`REPLICATOR_SOURCE__PASSWORD`",
        "`rocketmq_replicator_lag`",
        "ReplicatorLag",
    ],
)
def test_what_does_not_exist_is_found(broken: str) -> None:
    assert wrong_calls(broken) + wrong_names(broken) != []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Über 5.x 遗留消息\n[a](other.md) [b](#über-5x-遗留消息) [c](#nothing) [d](https://a.b/c)",
        encoding="utf-8",
    )
    assert wrong_links(page) == ["other.md", "#nothing"]


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_translation_says_to_type_the_same(page: str) -> None:
    """The same commands in the same order, and the same alerts."""
    ours = (DOCS / page).read_text(encoding="utf-8")
    theirs = (DOCS / "zh" / TRANSLATED[page]).read_text(encoding="utf-8")

    assert commands_of(theirs) == commands_of(ours)
    assert set(re.findall(r"\bReplicator[A-Z]\w+", theirs)) == set(re.findall(r"\bReplicator[A-Z]\w+", ours))


def test_every_alert_is_explained_in_chinese() -> None:
    page = (DOCS / "zh" / "troubleshooting.md").read_text(encoding="utf-8")
    assert {alert for alert in ALERTS if alert not in page} == set()


def worker_lines(text: str) -> list[str]:
    """What starts a worker with flags, or checks its settings, in the blocks of a guide."""
    lines = (line.partition("replicator ")[2] for line in commands_of(text))
    return [
        line.removeprefix("config check ")
        for line in lines
        if line.removeprefix("config check ").startswith("--source") and "--transforms" not in line
    ]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_workers_take_the_settings_that_a_guide_starts_them_with(page: Path, tmp_path: Path) -> None:
    """`replicator config check` with the same flags, with addresses for names and secrets for files."""
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    for line in worker_lines(page.read_text(encoding="utf-8")):
        line = re.sub(r"(--(?:source|target)) \S+", r"\1 10.0.0.1:9876", line)
        line = re.sub(r"(--[\w-]+-file) \S+", rf"\1 {secret}", line)
        ended = CliRunner().invoke(app, ["config", "check", *shlex.split(line)])
        assert ended.exit_code == 0, (line, ended.output)


def test_a_setting_that_a_worker_does_not_take_is_found() -> None:
    assert worker_lines("```\nreplicator --source A --target B --on-error ignore\n```") != []
    ended = CliRunner().invoke(
        app, ["config", "check", "--source", "a:1", "--target", "b:1", "--on-error", "ignore"]
    )
    assert isinstance(ended.exception, ConfigError)
