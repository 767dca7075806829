"""`replicator cluster | connectors | allocated | lag | where | plugins | top`."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, separator, show
from replicator.errors import ConfigError, ReplicatorError
from replicator.exit_codes import ExitCode
from replicator.observe.counted import counted
from replicator.operate.show import away_lines, cluster_table, lag_table, table
from replicator.operate.workers.rest import HERE, Rest, Url, path
from replicator.operate.workers.top_view import Snapshot, TopView

__all__ = ["allocated", "cluster", "connectors", "lag", "plugins", "top", "where"]

#: Seconds after which workers publish their progress again.
_PUBLISHED: Final = 2.0
#: States in which a topic stands where somebody wanted it to be.
_AS_WANTED: Final = ("RUNNING", "PAUSED", "STOPPED")

Name = Annotated[str, typer.Argument(help="The connector's name.")]
Config = Annotated[
    list[str] | None, typer.Argument(help="Settings as name=value; or one file with them as JSON: @FILE.")
]
Side = Annotated[
    Literal["source", "target"] | None,
    typer.Option(help="The side that broker, queue and offset are of. [default: source]", show_default=False),
]

connectors = CommandApp(no_args_is_help=True, help="List, create and control connectors.")
plugins = CommandApp(no_args_is_help=True, help="List connector plugins and show their settings.")


def cluster(url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """List the workers of the group."""
    found = Rest(url).get("/getClusterInfo")
    words = f"group {found['group']}: {found['source']} to {found['target']}, assignment {found['generation']}"
    if found["rebalancing"]:
        words += ", a rebalance is in progress"
    show(found, output, Group(Text(words), cluster_table(found)))


def allocated(url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Show which worker runs which task."""
    found = Rest(url).get("/allocated/tasks")
    rows = [[worker, t["connector"], t["task"], t["state"]] for worker, tasks in found.items() for t in tasks]
    show(found, output, table(("worker", "connector", "task", "state"), rows, empty="no task is assigned"))


def lag(url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Show how far behind each topic is. Exit code 5: the source cannot be reached, so that is not known.

    It is what was not read at the source yet. What the target has lost since, `replicator readiness` names.
    """
    found = Rest(url).get("/connectors/list")
    show({name: held["status"]["topics"] for name, held in found.items()}, output, lag_table(found))
    if away_lines(found):
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


def where(
    topic: Annotated[str, typer.Argument(help="The topic's name at the source.")],
    broker: Annotated[str, typer.Argument(help="The broker's name.", show_default=False)] = "",
    queue: Annotated[int, typer.Argument(help="The queue's id.", show_default=False)] = -1,
    offset: Annotated[int, typer.Argument(help="The message's offset there.", show_default=False)] = -1,
    key: Annotated[str, typer.Option(help="Find messages with this key instead.")] = "",
    side: Side = None,
    connector: Annotated[str, typer.Option(help="The connector that copies the topic.")] = "route",
    url: Url = HERE,
    output: Shown = Output.TABLE,
) -> None:
    """Show where a message is on the other side: the one at BROKER QUEUE OFFSET, or those with a key."""
    given = {"BROKER": broker != "", "QUEUE": queue != -1, "OFFSET": offset != -1, "--side": side is not None}
    if key and any(given.values()):
        named = ", ".join(name for name, is_given in given.items() if is_given)
        raise ConfigError(f"--key and {named} are both given", hint="give the key alone, or the place alone")
    rest, place = Rest(url), path("connectors", connector, "where")
    columns = ("topic", "broker", "queue", "offset")
    if key:
        found = rest.get(f"{place}/key", topic=topic, key=key)
        rows = [[str(pair[s][c]) for s in ("source", "target") for c in columns] for pair in found]
        heads = [f"{s} {c}" for s in ("source", "target") for c in columns]
        return show(found, output, table(heads, rows, empty=""))
    if offset < 0:
        raise ConfigError("BROKER, QUEUE and OFFSET say which message", hint="or give --key")
    found = rest.get(place, topic=topic, broker=broker, queue=queue, offset=offset, side=side or "source")
    return show(found, output, table(columns, [[str(found[column]) for column in columns]], empty=""))


def top(
    url: Url = HERE,
    interval: Annotated[float, typer.Option(min=0.2, max=86_400, help="Seconds between updates.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Show the current state once and exit.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Show the group live until Ctrl-C; once with -o json or when piped, after two seconds that rates take."""
    rest, console, view = Rest(url), Console(), TopView(separator())

    def clock() -> str:
        return time.strftime("%H:%M:%S")

    def read() -> Snapshot:
        return Snapshot(time.monotonic(), rest.get("/getClusterInfo"), rest.get("/connectors/list"))

    def draw(now: Snapshot, height: int | None) -> RenderableType:
        return view.draw(now, clock=clock(), height=height)

    def draw_next() -> RenderableType:
        try:
            return draw(read(), console.height)
        except ReplicatorError as error:  # a worker that restarts is what somebody may be waiting for
            return view.draw_again(str(error), clock=clock(), height=console.height)

    if output is Output.JSON or once or not console.is_terminal:
        now = read()
        if output is not Output.JSON and now.topics:  # rates are drawn, and take a second look
            view.see(now)
            time.sleep(_PUBLISHED)
            now = read()
        show({"cluster": now.cluster, "connectors": now.connectors}, output, draw(now, None))
        return
    try:
        with Live(draw(read(), console.height), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(draw_next(), refresh=True)
    except KeyboardInterrupt:
        return


@connectors.command("list")
def list_connectors(url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """List all connectors of the group."""
    found = Rest(url).get("/connectors/list")
    columns = ("connector", "state", "tasks", "queues", "failed", "waiting", "lag", "problems", "worst topic")
    rows = [_connector_row(name, held) for name, held in found.items()]
    show(found, output, table(columns, rows, empty="no connector"))


def _connector_row(name: str, held: dict[str, Any]) -> list[Any]:
    """A connector that runs may have topics that do not: these are problems, too, and the worst one is named."""
    status, topics = held["status"], held["status"]["topics"]
    counts = [sum(topic[c] for topic in topics) for c in ("queues", "failed", "waiting", "lag_messages")]
    still = [topic for topic in topics if topic["failed"] or topic["waiting"] or topic["stalled"]]
    problems = {*status["problems"], *(topic["topic"] for topic in still)}
    odd = [topic for topic in topics if topic["state"] not in _AS_WANTED or topic["stalled"]]
    worst = max(odd, key=lambda topic: topic["severity"], default=None)
    named = "" if worst is None else f"{worst['topic']} {worst['state']}"
    tasks = len(held["info"]["tasks"])
    return [name, status["connector"]["state"], tasks, *counts, len(problems), named]


@connectors.command()
def create(name: Name, config: Config = None, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Create and start a connector."""
    given = _parse(config)
    _show_done(Rest(url).ask("POST", path("connectors", name), given), output, f"connector {name} created")


@connectors.command()
def update(name: Name, config: Config = None, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Change the given settings of a connector; the others stay as they are."""
    rest = Rest(url)
    whole = rest.get(path("connectors", name, "config")) | _parse(config)
    _show_done(rest.ask("PUT", path("connectors", name), whole), output, f"connector {name} is changed")


@connectors.command()
def config(name: Name, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Show a connector's settings."""
    found = Rest(url).get(path("connectors", name, "config"))
    rows = [[key, ", ".join(value) if isinstance(value, list) else _printed(value)] for key, value in found.items()]
    show(found, output, table(("setting", "value"), rows, empty=""))


@connectors.command()
def status(name: Name, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Show the state of a connector and of each of its topics."""
    found = Rest(url).get(path("connectors", name, "status"))
    words = Text(f"connector {name} is {found['connector']['state']}, with {counted(len(found['tasks']), 'task')}")
    problems = [Text(f"{topic}: {reason}", style="red") for topic, reason in found["problems"].items()]
    show(found, output, Group(words, lag_table({name: {"status": found}}), *problems))


@connectors.command()
def tasks(name: Name, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """List a connector's tasks."""
    found = Rest(url).get(path("connectors", name, "tasks"))
    rows = [[task["id"], task["worker_id"], task["state"], _cause(task["trace"])] for task in found]
    show(found, output, table(("task", "worker", "state", "cause"), rows, empty="no task"))


def _cause(trace: str | None) -> str:
    """Why a task failed, in one line of the table."""
    return " ".join((trace or "").split())


@connectors.command()
def pause(name: Name, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Pause a connector: it copies nothing until resumed, and tasks stay with their workers."""
    _show_done(Rest(url).ask("PUT", path("connectors", name, "pause")), output, f"connector {name} is paused")


@connectors.command()
def resume(name: Name, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Resume a connector that is paused or stopped."""
    _show_done(Rest(url).ask("PUT", path("connectors", name, "resume")), output, f"connector {name} runs")


@connectors.command()
def stop(name: Name, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Stop a connector: it copies nothing until resumed, and workers release its tasks."""
    _show_done(Rest(url).ask("PUT", path("connectors", name, "stop")), output, f"connector {name} is stopped")


@connectors.command()
def restart(
    name: Name,
    task: Annotated[str | None, typer.Option("--task", help="Restart only this task.", show_default=False)] = None,
    url: Url = HERE,
    output: Shown = Output.TABLE,
) -> None:
    """Restart all tasks of a connector, or one; a paused or stopped connector stays paused or stopped."""
    if task is not None:
        done = Rest(url).ask("POST", path("connectors", name, "tasks", task, "restart"))
        _show_done(done, output, f"task {task} of connector {name} restarts")
        return
    done = Rest(url).ask("POST", path("connectors", name, "restart"))
    rests = f"connector {name} is {done['state']} and stays so: replicator connectors resume {name}"
    _show_done(done, output, f"connector {name} restarts" if done["state"] == "RUNNING" else rests)


@connectors.command()
def delete(name: Name, url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """Delete a connector and its progress; what it has copied stays at the target."""
    _show_done(Rest(url).ask("DELETE", path("connectors", name)), output, f"connector {name} is deleted")


@plugins.command("list")
def list_plugins(url: Url = HERE, output: Shown = Output.TABLE) -> None:
    """List the connectors, transforms and assignment strategies that a worker has installed."""
    found = Rest(url).get("/plugin/list")
    rows = [[plugin["class"], plugin["type"], plugin["version"]] for plugin in found]
    show(found, output, table(("plugin", "type", "version"), rows, empty="none"))


@plugins.command("config")
def plugin_config(
    name: Annotated[str, typer.Argument(help="The plugin.")] = "routing",
    url: Url = HERE,
    output: Shown = Output.TABLE,
) -> None:
    """Show the settings of a connector plugin or a transform."""
    found = Rest(url).get("/plugin/config", name=name)
    rows = [[field["name"], json.dumps(field["default"]), field["documentation"]] for field in found]
    show(found, output, table(("setting", "default", "meaning"), rows, empty="none"))


def _show_done(found: Any, output: Output, words: str) -> None:
    show(found, output, Text(words))


def _printed(value: Any) -> Any:
    """The value for a table; as JSON what Python writes in another way, since it is a configuration's own form."""
    return json.dumps(value) if value is None or isinstance(value, bool | dict) else value


def _parse(given: list[str] | None) -> dict[str, Any]:
    """The settings given on the command line."""
    if given and len(given) == 1 and given[0].startswith("@"):
        file = Path(given[0][1:])
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(
                f"{str(file)!r} cannot be read ({error.strerror})", hint="name a readable file"
            ) from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{str(file)!r} is not valid JSON ({error})", hint="fix the file") from None
        if not isinstance(found, dict):
            raise ConfigError(f"{str(file)!r} does not hold a JSON object", hint='write {"topics": "orders"}')
        return found
    wrong = [pair for pair in given or () if "=" not in pair]
    if wrong:
        verb = "is" if len(wrong) == 1 else "are"
        raise ConfigError(
            f"{', '.join(map(repr, wrong))} {verb} not name=value", hint="for example topics=orders,pay-.*"
        )
    pairs = [pair.split("=", 1) for pair in given or ()]
    twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if twice:
        verb = "is" if len(twice) == 1 else "are"
        raise ConfigError(
            f"{', '.join(map(repr, twice))} {verb} given twice",
            hint="give lists with commas, as in topics=orders,pay-.*",
        )
    return dict(pairs)
