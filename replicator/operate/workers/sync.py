"""Commands for everything but messages: plan, apply, readiness, failover."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from replicator.command_output import Output, Shown, show
from replicator.errors import ConfigError
from replicator.exit_codes import ExitCode
from replicator.observe.counted import counted
from replicator.observe.moment import moment
from replicator.observe.pending_lines import pending_lines, released_lines
from replicator.operate.show import reasons, table, topic_name
from replicator.operate.workers.rest import HERE, Refused, Rest, Url, path
from replicator.operate.workers.steps import steps_shown

__all__ = ["Drain", "apply", "fail_over", "failed_over", "failover", "plan", "readiness", "report_of"]

#: A command in a worker's hint.
_COMMAND: Final = re.compile(r"`(replicator [^`]+)`")
#: How a problem begins that keeps it from being known what groups have.
_UNASKED: Final = re.compile(r"(topics|groups|offsets)( at [^:]+)?: ")
#: Queues that a report names of each topic.
_FEW: Final = 8
#: Seconds that a drain may take at most, as on the page for people.
_DRAIN_MOST: Final = 86_400


def _waitable(seconds: float) -> float:
    if not 0 <= seconds <= _DRAIN_MOST:  # nor is what is not a number
        raise ConfigError(
            f"--drain-timeout = {seconds:g} is not between 0 and {_DRAIN_MOST}", hint="give a number of seconds"
        )
    return seconds


#: `--drain-timeout`.
Drain = Annotated[
    float,
    typer.Option(
        "--drain-timeout", callback=_waitable, help="How long to wait for messages that are not copied yet."
    ),
]
Of = Annotated[str, typer.Option("--connector", help="The connector's name.")]


def plan(connector: Of = "route", url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Show what `apply` would change in the target's topics, groups and offsets.

    Exit code 5: some of it is not known.
    """
    found = Rest(url, timeout=90).get(path("connectors", connector, "plan"))
    show(found, output, _actions(found, "blocked", empty="the target is in sync"))
    if any(action["action"] == "unknown" for action in found):
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


def apply(
    force: Annotated[
        list[str] | None,
        typer.Option(
            "--force-group",
            help="A group whose offsets to write even if it has consumers at the target, and even backwards.",
        ),
    ] = None,
    connector: Of = "route",
    url: Url = HERE,
    output: Shown = Output.TABLE,
) -> None:
    """Apply what `plan` shows now, except what is blocked."""
    found = Rest(url, timeout=90).ask("POST", path("connectors", connector, "apply"), {"force": force or []})
    show(found, output, _actions(found, "error", empty="there was nothing to do"))
    if any(action["error"] for action in found):
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


def readiness(connector: Of = "route", url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Show whether applications can switch to the target now, and what they would miss. Exit code 5: not ready.

    Of a route that was failed over: whether the target lacks anything that came to the source since.
    """
    found = Rest(url, timeout=90).get(path("connectors", connector, "readiness"))
    show(
        found,
        output,
        Group(
            *_verdict(found),
            *(Text(f"- {reason}") for reason in found["reasons"]),
            *_pending(found["pending"], runs=found.get("state", "RUNNING") == "RUNNING"),
            Text(),
            _topics(found),
            Text(),
            *_groups(found, found["reasons"]),
            *_held(found["groups"]),
        ),
    )
    if not found["ready"]:
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


def _verdict(found: dict[str, Any]) -> list[Text]:
    ready, at = found["ready"], found.get("failed_over_at")
    style = f"bold {'green' if ready else 'red'}"
    if not at:
        return [Text("ready to switch" if ready else "not ready", style=style)]
    return [
        Text(f"failed over, and {'everything' if ready else 'not everything'} is at the target", style=style),
        Text(
            f"the route was failed over at {moment(at)} and is stopped: what comes to the source now is not copied;"
            " whether applications can switch back, ask the opposite route"
        ),
    ]


def failover(
    drain_timeout: Drain = 60.0,
    source_dead: Annotated[
        bool, typer.Option("--source-dead", help="The source is lost: do not wait for it.")
    ] = False,
    open_all: Annotated[
        bool,
        typer.Option(
            "--open-all",
            help="Make the copied topics readable and writable at the target, whatever their perm at the source.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, and show what a failover now would do.")
    ] = False,
    topics: Annotated[
        str | None,
        typer.Option(
            "--topics", help="Fail over only these topics (comma-separated); the others continue to be copied."
        ),
    ] = None,
    connector: Of = "route",
    url: Url = HERE,
    output: Shown = Output.TABLE,
) -> None:
    """Switch applications to the target: copy the rest, sync the last offsets, make topics writable."""
    wanted = {
        "drain_timeout": drain_timeout,
        "source_dead": source_dead,
        "open_all": open_all,
        "dry_run": dry_run,
        "topics": [] if topics is None else _named(topics),
    }
    found = fail_over(Rest(url, timeout=drain_timeout + 180), connector, wanted, output)
    show(found, output, report_of(found))
    if not found["drained"] or found["problems"] or not (found["stopped"] or dry_run):
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


def _named(topics: str) -> list[str]:
    named = [topic.strip() for topic in topics.split(",") if topic.strip()]
    if not named:
        raise ConfigError(
            f"--topics = {topics!r} names no topic",
            hint="name one; or leave --topics out to switch the whole connector",
        )
    return named


def fail_over(rest: Rest, connector: str, wanted: dict[str, Any], output: Output) -> dict[str, Any]:
    """Has a connector failed over, and returns the report; errors as of `Rest.ask`. People see its steps meanwhile.

    What a refusal says to type goes to the same worker: there may be two groups, and a worker does not know how
    it is reached.
    """
    try:
        with steps_shown(rest, connector) if output is Output.TABLE else nullcontext():
            report: dict[str, Any] = rest.ask("POST", path("connectors", connector, "failover"), wanted)
    except Refused as error:
        raise type(error)(error.message, hint=_COMMAND.sub(rf"`\1 --url {rest.url}`", error.hint)) from None
    return report


def failed_over(found: dict[str, Any]) -> bool:
    """Whether a report says that all is done and nothing is missing."""
    return bool(found["stopped"] and found["drained"] and not found["problems"])


def report_of(found: dict[str, Any], *, source: str = "the source", target: str = "the target") -> Group:
    """A failover's report for people.

    Args:
        source: what it calls the cluster that was copied from; a name, where `source` means now this one, now that.
        target: and the other.
    """
    dry_run = found["dry_run"]
    stopped = "the route has stopped" if found["stopped"] else "some tasks have not stopped"
    drained = f"all that {source} had is at {target}" if found["drained"] else f"not all is at {target}:"
    missing = [
        Text(f"- {topic_name(each['topic'], quiet=False)}: {line}", style="red")
        for each in found["missing"]
        for line in _missing(each, source)
    ]
    lines = [
        Text("dry run: nothing was changed" if dry_run else stopped, style="bold"),
        Text(drained),
        *missing,
        Text(_changes(found)),
        *_synced(found, target),
        *(Text(f"- {problem}", style="red") for problem in found["problems"]),
        *_pending(found["pending"], source, runs=dry_run or bool(found["topics"]) or not found["stopped"]),
        *_released(found["released"]),
        Text(),
        *_groups(found, found["problems"], source, known=not found.get("synced")),
        *_held(found["groups"]),
        *([] if dry_run else [_next(found, target)]),
    ]
    return Group(*lines)


def _changes(found: dict[str, Any]) -> str:
    """What was written; of a dead source nobody could expect that an offset is."""
    dry_run, offsets = found["dry_run"], found["offsets"]
    topics = f"{counted(len(found['topics_opened']), 'topic')} {'to change' if dry_run else 'changed'}"
    if found.get("synced") and not offsets:
        return topics
    return f"{counted(offsets, 'offset')} {'to write' if dry_run else 'written'}, {topics}"


def _synced(found: dict[str, Any], target: str) -> list[Text]:
    """As of when groups are at the target, where the source is dead; older workers do not say it."""
    synced = found.get("synced")
    if not synced:
        return []
    if not synced["groups"]:
        return [Text(f"no group that is synced has an offset at {target}")]
    at = synced["at"]
    since = "the last sync, whose time is not known" if at is None else moment(at)
    lines = [f"{each['group']}: as of {since}, {counted(each['queues'], 'queue')}" for each in synced["groups"]]
    return _listed(f"offsets of groups at {target} are those of the last sync:", lines)


def _next(found: dict[str, Any], target: str) -> Text:
    if failed_over(found):
        return Text(f"Now let producers and consumers use {target}.")
    return Text(f"Look at the above before you let producers and consumers use {target}.", style="bold red")


def _pending(found: dict[str, Any], source: str = "the source", *, runs: bool = True) -> list[Text]:
    """What waits at the source, which a switch leaves there; and what of it is lost.

    Args:
        runs: whether the route copies it at once when it is delivered.
    """
    later = "" if runs else ", when the route runs again"
    waiting = _listed(f"held back by {source}, and copied once it delivers them{later}:", pending_lines(found))
    return [*waiting, *_listed(f"lost with {source}:", found.get("lost", []))]


def _released(found: dict[str, Any] | None) -> list[Text]:
    """What became of parked messages."""
    return _listed("parked messages:", released_lines(found))


def _listed(head: str, lines: list[str]) -> list[Text]:
    return [Text(head), *(Text(f"- {line}") for line in lines)] if lines else []


def _missing(topic: dict[str, Any], source: str = "the source") -> list[str]:
    """What is missing of a topic at the target, and what is not known of it."""
    lines = []
    if topic["messages"]:
        up_to = "" if topic["counted"] else "up to "
        lines.append(f"{up_to}{counted(topic['messages'], 'message is')} only at {source}")
    if topic["problem"]:
        lines.append(topic["problem"])
    known = _last_known(topic["unknown_queues"])
    more = len(known) - _FEW
    return lines + known[:_FEW] + ([f"and {more:,} more queues: -o json names them"] if more > 0 else [])


def _last_known(queues: list[dict[str, Any]]) -> list[str]:
    """A line for each queue; those of a broker of which nothing was copied have one line."""
    lines, empty = list[str](), Counter[str]()
    for queue in queues:
        if not queue["position"]:
            empty[queue["broker"]] += 1
            continue
        until = queue["copied_until"]
        stored = "" if until is None else f", stored {moment(until)}"
        copied = f"copied up to offset {queue['position'] - 1}{stored}; the rest is not known"
        lines.append(f"queue {queue['broker']}/{queue['queue']}: {copied}")
    return lines + [
        f"nothing was copied of {counted(count, 'queue')} of {broker}, which may be empty"
        for broker, count in empty.items()
    ]


def _actions(found: list[dict[str, Any]], why: str, *, empty: str) -> Any:
    rows = [
        [
            action["kind"],
            action["action"],
            action["broker"],
            action["name"],
            _short(action["before"]),
            _short(action["after"]),
            action[why] or action["note"],
        ]
        for action in found
    ]
    return table(("kind", "what", "broker", "name", "before", "after", why), rows, empty=empty)


def _short(settings: dict[str, Any] | None) -> str:
    if settings is None:
        return ""
    return ", ".join(
        f"{name}={json.dumps(value) if isinstance(value, dict) else value}" for name, value in settings.items()
    )


def _topics(found: dict[str, Any]) -> RenderableType:
    audits = {audit["topic"]: audit for audit in found["verified"]}
    rows, why = list[list[Any]](), list[tuple[str, str]]()
    for topic in found["topics"]:
        known = topic["counted"] and topic["seconds_known"]
        quiet = known and not (topic["messages"] or topic["problem"])
        if name := topic_name(topic["topic"], quiet=quiet):
            rows.append(
                [
                    name,
                    topic_name(topic["target"], quiet=False),
                    topic["messages"] if topic["counted"] else f"up to {topic['messages']}",
                    float(topic["seconds"]) if topic["seconds_known"] else "not known",
                    *_verified(audits.get(topic["topic"])),
                ]
            )
            why.append((name, topic["problem"]))
    heads = ("topic", "at the target", "missing", "seconds", "not verified", "differ")
    return Group(table(heads, rows, empty="no topic"), *reasons(why))


def _verified(audit: dict[str, Any] | None) -> tuple[object, object]:
    """Messages that are not verified, and differences; copies of waiting messages are in no audit."""
    return ("", "") if audit is None else (audit["not_verified"], sum(audit["differences"].values()))


def _held(groups: Iterable[dict[str, Any]]) -> list[Text]:
    """What becomes of messages that POP consumers hold; older workers do not say it."""
    lines = []
    for group in groups:
        if not group.get("in_flight"):
            continue
        name, put = f"{group['group']} in {group['topic']}", group.get("to_retry_topic", 0)
        if put:
            lines.append(f"{name}: {counted(put, 'message')} into its retry topic at the target")
        if put < group["in_flight"] and (again := group.get("acknowledged_after", 0)):
            why = "".join(f": {each}" for each in group.get("held_back_by", ()))
            lines.append(
                f"{name}: {counted(again, 'message')} that it has acknowledged, behind those in flight{why}"
            )
    return _listed("held by POP consumers, and delivered to them again:", lines)


def _groups(
    found: dict[str, Any], problems: Iterable[str], source: str = "the source", *, known: bool = True
) -> list[RenderableType]:
    """What each group would read again and miss; of none nothing is said where offsets could not be asked for.

    Args:
        known: whether somebody expects that an offset is known.
    """
    if not found["groups"] and (not known or any(map(_UNASKED.match, problems))):
        return []
    names = ("group", "topic", "redelivered", "missed", "without_offset", "not_copied", "before_start", "in_flight")
    heads = (
        *("group", "topic", "redelivered", "missed", "no offset", "not copied yet", "before the copy"),
        "in flight",
    )
    rows = [[group[name] for name in names] for group in found["groups"]]
    return [table(heads, rows, empty=f"no offset of a group is known at {source}"), Text()]
