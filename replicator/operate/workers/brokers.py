"""`replicator brokers list | forget`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, show
from replicator.errors import ConfigError
from replicator.exit_codes import ExitCode
from replicator.observe.moment import moment
from replicator.operate.show import table
from replicator.operate.workers.rest import HERE, Rest, Url, path

__all__ = ["brokers"]

#: Seconds that a worker may take: it stops all tasks first.
_TIMEOUT: Final = 120
#: Queues that are shown.
_MANY: Final = 40

brokers = CommandApp(no_args_is_help=True, help="List brokers, and forget permanently removed ones.")


@brokers.command("list")
def list_brokers(url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """List the brokers of both clusters, including AWAY and FORGOTTEN ones."""
    found = Rest(url).get("/brokers")
    names = ("side", "broker", "state", "master", "queues")
    rows = [[*(each[name] for name in names), _time(each["forgotten_at"])] for each in found]
    show(found, output, table((*names, "forgotten"), rows, empty="no broker is known"))


@brokers.command()
def forget(
    name: Annotated[str, typer.Argument(help="The broker's name.")],
    side: Annotated[
        Literal["source", "target"] | None,
        typer.Option(
            help="Cluster it belonged to; required if both clusters miss a broker of that name.",
            show_default=False,
        ),
    ] = None,
    queues_to: Annotated[
        str, typer.Option(help="The target broker that takes the queues of a target broker.", show_default=False)
    ] = "",
    lost: Annotated[
        Literal["resend", "skip"] | None,
        typer.Option(
            help="Copies that were only there: copy again what the source still has, or count them as lost.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: Url = HERE,
    output: Shown = Output.TABLE,
) -> None:
    """Treat a broker that was taken away for good as gone, until it is seen again.

    Shows what that means and asks; without a terminal it changes nothing and exits with 5. --yes skips that.
    """
    rest = Rest(url, timeout=_TIMEOUT)
    where = path("brokers", side or _side(rest, name, queues_to), name, "forget")
    wanted = {"queues_to": queues_to, "lost": lost}
    if not yes:
        found = rest.ask("POST", where, wanted | {"dry_run": True})
        show(found, output, _drawn(found))
        asked = output is Output.TABLE and sys.stdin.isatty()
        if not (asked and _agrees()):
            typer.echo(f"Nothing was changed{'' if asked else ': give --yes'}.", err=True)
            raise typer.Exit(ExitCode.NOT_AS_EXPECTED)
    found = rest.ask("POST", where, wanted | {"dry_run": False})
    show(found, output, _drawn(found))


def _side(rest: Rest, name: str, queues_to: str) -> str:
    """The cluster that misses such a broker."""
    if queues_to:
        return "target"
    sides = {each["side"]: each["state"] for each in rest.get("/brokers") if each["broker"] == name}
    missing = [side for side, state in sides.items() if state in ("AWAY", "FORGOTTEN")]
    if len(missing) > 1:
        raise ConfigError(f"both clusters miss a broker {name}", hint="say which one with --side")
    if len(sides) > 1 and not missing:
        raise ConfigError(f"no cluster misses broker {name}", hint="`replicator brokers list` shows what is there")
    return missing[0] if missing else next(iter(sides), "source")


def _agrees() -> bool:
    """Asks; whoever ends the command instead of answering declines."""
    try:
        return typer.confirm("Forget this broker?")
    except typer.Abort:
        return False


def _drawn(found: dict[str, Any]) -> RenderableType:
    done = "would be forgotten" if found["dry_run"] else "is forgotten"
    lines = [Text(f"{found['side']} broker {found['broker']} {done}", style="bold")]
    if found["queues_to"]:
        verb = "copied again" if found["lost"] == "resend" else "counted as lost"
        lines.append(
            Text(f"its queues go to {found['queues_to']}; {found['copies']:,} copies that were there are {verb}")
        )
    if found["topics_gone"]:
        lines.append(Text(f"topics that no other broker has: {', '.join(found['topics_gone'])}"))
    rows = [
        [
            each["topic"],
            *(f"{each[end]['broker']}/{each[end]['queue']}" for end in ("source", "target")),
            "" if each["moved_to"] is None else f"{each['moved_to']['broker']}/{each['moved_to']['queue']}",
            "" if each["position"] is None else str(each["position"]),
            _time(each["copied_until"]),
        ]
        for each in found["queues"][:_MANY]
    ]
    if len(found["queues"]) > _MANY:
        lines.append(Text(f"{len(found['queues']):,} queues, the first {_MANY} of them (-o json shows all):"))
    columns = ("topic", "queue", "copied to", "goes to", "copied up to offset", "stored")
    return Group(*lines, table(columns, rows, empty="no queue was copied from or to it"))


def _time(seconds: float | None) -> str:
    return "" if seconds is None else moment(seconds)
