"""The switch between two opposite routes as one command each way: fail over by one, then let the other run."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from replicator.command_output import Output, Shown, show
from replicator.errors import ConfigError
from replicator.exit_codes import ExitCode
from replicator.operate.workers.rest import HERE, Refused, Rest, Url, path
from replicator.operate.workers.sync import Drain, fail_over, failed_over, report_of

__all__ = ["failback", "reverse"]

_BackUrl = Annotated[
    str,
    typer.Option(
        "--back-url",
        envvar="REPLICATOR_BACK_URL",
        help="REST address of any worker of the opposite route's group: it copies from the target to the source.",
    ),
]
_Of = Annotated[str, typer.Option("--connector", help="The connector's name.")]
_BackOf = Annotated[str, typer.Option("--back-connector", help="The name of the opposite connector.")]


def reverse(
    back_url: _BackUrl,
    url: Url = HERE,
    connector: _Of = "route",
    back_connector: _BackOf = "route",
    drain_timeout: Drain = 60.0,
    output: Shown = Output.TABLE,
) -> None:
    """Switch applications to the target, and copy back to the source from then on.

    A failover, then the opposite connector is resumed. May be repeated, wherever it was interrupted.
    """
    _switch((url, connector), (back_url, back_connector), drain_timeout, output)


def failback(
    back_url: _BackUrl,
    url: Url = HERE,
    connector: _Of = "route",
    back_connector: _BackOf = "route",
    drain_timeout: Drain = 60.0,
    output: Shown = Output.TABLE,
) -> None:
    """Switch applications back to the source, and copy to the target again from then on.

    A failover of the opposite connector, which has copied back; then this one is resumed. May be repeated.
    """
    _refuse_unsynced((back_url, back_connector), (url, connector))
    _switch((back_url, back_connector), (url, connector), drain_timeout, output)


def _switch(of: tuple[str, str], then: tuple[str, str], drain_timeout: float, output: Output) -> None:
    """Fails over by the connector `of`, at a worker's URL, and resumes the opposite one.

    Raises:
        ConfigError: they are not opposite.
    """
    (url, name), (then_url, then_name) = of, then
    ahead, back = Rest(url, timeout=drain_timeout + 180), Rest(then_url)
    cluster = ahead.get("/getClusterInfo")
    _refuse_others(cluster, back.get("/getClusterInfo"))
    source, target = cluster["source"], cluster["target"]
    back.get(path("connectors", then_name, "status"))  # it must be there before anything is changed
    found = fail_over(ahead, name, {"drain_timeout": drain_timeout}, output)
    done = failed_over(found)
    if done:
        back.ask("PUT", path("connectors", then_name, "resume"))
    shown = {"failover": found, "resumed": then_name if done else None}
    way = f"copies {target} to {source}"
    last = f"connector {then_name} {way} now" if done else f"connector {then_name}, which {way}, was left as it was"
    report = report_of(found, source=source, target=target)
    show(shown, output, Group(report, Text(last, style="bold" if done else "bold red")))
    if not done:
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


def _refuse_unsynced(of: tuple[str, str], then: tuple[str, str]) -> None:
    """Checks that the route back has run since the other one was failed over: it syncs no offset while it stands.

    One that an earlier `failback` has stopped may be switched again.

    Raises:
        Refused: it has not, so groups would begin where they were before.
    """
    (url, name), (then_url, then_name) = of, then
    ahead, back = Rest(url), Rest(then_url)
    state = ahead.get(path("connectors", name, "status"))["connector"]["state"]
    if state == "RUNNING":
        return
    stopped = ahead.get(path("connectors", name, "sync")).get("stopped_by_failover_at")
    before = back.get(path("connectors", then_name, "sync")).get("stopped_by_failover_at")
    if stopped and stopped >= (before or 0.0):
        return
    cluster = ahead.get("/getClusterInfo")
    source, target = cluster["source"], cluster["target"]
    _refuse_others(cluster, back.get("/getClusterInfo"))
    raise Refused(
        f"connector {name}, which copies {source} to {target}, is {state} and has not run since {source} is in use:"
        f" no offset was synced, and groups would read messages again at {target}; nothing was changed",
        hint=f"`replicator reverse --url {back.url} --connector {then_name} --back-url {ahead.url} --back-connector"
        f" {name}`, wait until `replicator lag --url {ahead.url}` shows that nothing is left, and repeat this",
    )


def _refuse_others(ahead: dict[str, Any], back: dict[str, Any]) -> None:
    if (ahead["source"], ahead["target"]) != (back["target"], back["source"]):
        raise ConfigError(
            f"one group copies {ahead['source']} to {ahead['target']}, the other {back['source']} to"
            f" {back['target']}: they are not opposite",
            hint="give --url and --back-url of two groups that copy between the same clusters, each its way",
        )
