"""Names that were replaced are found nowhere: not in code, tests, pages, dashboards, alerts or configuration."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def of_code(names: str) -> str:
    """Where they are names: of a class, an alias or a type, or called; some are words of sentences, too."""
    return rf"(?:\bclass |\bimport |-> |\w: |\| )(?:{names})\b|^(?:{names}) = |\b(?:{names})\("


#: Each as a regular expression, with what took its place. Plain English words stand with what makes them names.
RETIRED = {
    # Settings and flags.
    r"--group-members|group_members\b(?<!worker_group_members)": "worker_group_members",
    r"\bstall_seconds\b": "stall_timeout",
    r"\bsettle_seconds\b": "settle_timeout",
    r"(?<!state_)\bpublish_interval\b": "state_publish_interval",
    r"\bsnapshot_interval\b": "state_republish_interval",
    r"\bsave_interval\b": "state_flush_interval",
    r"(?<!metadata_)\brefresh_interval\b": "metadata_refresh_interval",
    r"\bbackfill_messages\b": "backfill_min_lag",
    r"\brest_(host|port|token|token_file|tls)\b": "[rest]",
    r"\bacl_(accounts|exclude_accounts|admins|adopt|source_dir)\b": "[acl]",
    r"`--master`|replicator [a-z]+ [^|`\n]*--master\b": "--spark-master",  # Spark's own commands have it
    r"failover --to\b|failover\", \"--to\"": "failover",
    r"\bdrain[_-]seconds\b": "drain_timeout",
    # Metrics, labels, rules.
    r"\bgroups_(read_again_messages|skipped_messages|queues_without_offset)\b": "consumer_group_…",
    r"\bcheckpoint_last_success\w*": "state_save_last_success_timestamp_seconds",
    r"\bmemory_used_bytes\b": "buffer_used_bytes",
    r"\bsync_drift\b(?!ed)": "sync_drifted_items",
    r"\brebalance_seconds\w*": "rebalance_duration_seconds",
    r"\brepeated_messages\w*": "duplicate_messages",
    r"replicator:hindrances|\b_?hindrances?\b": "replicator:failover_blockers",
    r"ReplicatorLag(Old|VeryOld)\b|ReplicatorNobodyMaySend": "…LagHigh, …LagCritical, …NoActiveLease",
    # JSON.
    r"[\"'](waitingFor|workerId|takesTasks|targetTopic)[\"']": "snake_case",
    r"\[\"(again|anywhere|unread|opened)\"\]": "redelivered, without_offset, before_start, topics_opened",
    # Rooms.
    r"replicator[./]runtime\b": "admin, worker, connector, group, state",
    r"replicator\.spark\.(access|rates|copies|pairing|patience)\b": "replicator.ranges",
    r"replicator\.spark\.(reading|copying|comparing|awake)\b": "replicator.ranges",
    # Inside.
    of_code("Deeds|World|Reach|Pulse|Seldom|Silence|Sinking|Rated|Copied|Auditor|Alike|Waits"): "a noun",
    of_code("Dispatch|Places|Standing|Speech|Survey|Edge|Repeats|LeftOut"): "a noun that says what it is",
    r"\bclass Said\b": "a noun",
    # Words.
    r"\b(changed|stopped|promoted|ahead|again|read-only|election or) by hand\b|\ba hand at\b": "manually",
    r"(?<![Tt]here )\b(?:is|was) no (?!(?:longer|more|limit|faster|higher|worse)\b)[a-z]": "is not a …, invalid …",
    r"(?<![Tt]here )\b(?:is|was) none of\b": "is not one of, is not among",
    r"\b(made|begins?|began|starts?|started|read|written|compiled) anew\b": "recreated, restarted, again",
    r"\b(mend|mends|mended|seldomer)\b": "fix, more rarely",
    r"\b[Tt]asks are changing hands\b|\bno replicator answers\b": "a rebalance is in progress, no worker answers",
    r"\bnone of its kind is\b": "no … are installed",
    r"\bby a second a second\b|\bcopies stand at the target twice\b": "one second per second, duplicate copies",
    r"\bput right by itself\b|\bspeaks to systemd\b|\btopics more\b": "corrected, notifies, more topics",
    r"\bbelieved unchecked\b|\bsomebody who is none\b": "not verified, outside the group",
}


#: Where they may stand: here, in what is generated or locked, and in what tells of earlier versions.
ELSEWHERE = (":!tests/test_retired_names.py", ":!*.lock", ":!*.json", ":!*.so", ":!CHANGELOG.md")


def test_no_retired_name_is_left() -> None:
    """The error says where each is, and what to write instead."""
    lines = [*found("--", ".", *ELSEWHERE), *found("--", "dashboards")]
    told = [
        f"{line}; now {new}"
        for line in lines
        for old, new in RETIRED.items()
        if re.search(old, line.split(":", 2)[2])
    ]
    assert not lines, "\n".join(told)


def found(*paths: str) -> list[str]:
    """Lines with any of them: git searches twenty times as fast as Python."""
    pattern = "|".join(f"(?:{old})" for old in RETIRED)
    ended = subprocess.run(
        ["git", "grep", "--line-number", "--perl-regexp", "-I", pattern, *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stderr
    return ended.stdout.splitlines()


def test_a_retired_name_is_found() -> None:
    """Here is what must not be elsewhere."""
    assert len(found("--", "tests/test_retired_names.py")) > 3


@pytest.mark.parametrize(
    ("line", "retired"),
    [
        ("class Waits(Protocol):", True),
        ("Waits = TimerA | TimerB", True),
        ("from replicator.x import Waits", True),
        ("def wait(self, on: Waits) -> None:", True),
        ("    return Waits(3)", True),
        ('    """Waits until it is there."""', False),
        ('<dt>Waits</dt> {{ m.figure("Waits", 3) }}', False),
        ("def _hindrance(self) -> str:", True),
        ("the offset was set ahead by hand", True),
        ("A frame put together by hand.", False),
        ('    raise ConfigError(f"{text!r} is no time")', True),
        ('    raise ConfigError(f"{text!r} is no longer valid")', False),
        ("ValueError: one of them is no list", True),
        ("Unreadable: it is none of ours.", True),
        ("There is no list, and there is no other.", False),
    ],
)
def test_words_of_sentences_are_not_names(line: str, retired: bool) -> None:
    assert any(re.search(old, line) for old in RETIRED) is retired
