"""For which connectors the leader makes the target ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.errors import StartupError
from replicator.routing.limiter import RateLimiter
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, Connectors, State
from replicator.state.store import Store
from replicator.worker import connectors as module
from replicator.worker.connectors import Routes


class Played:
    """A route; `meanwhile` of the scene happens while the target is made ready for it."""

    limiter = RateLimiter()

    def __init__(self, connector: Connector, scene: Scene) -> None:
        self.name = connector.name
        self.settings = connector.settings
        self._scene = scene

    def plan(self) -> None: ...

    def share(self, _fraction: float) -> None: ...

    def with_rates(self, _settings: object) -> bool:
        return False

    async def make_ready(self) -> None:
        self._scene.made.append(self.name)
        self._scene.meanwhile()


class Scene:
    """Routes `a`, `b` and `c`; `made` are those for which the target was made ready, in order."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connectors = Connectors(store)
        self.made: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        for name in "abc":
            self.connectors.create(name, {"topics": [name]})

        monkeypatch.setattr(module, "_make", lambda connector, *_: Played(connector, self))
        nobody: Any = SimpleNamespace(me="w0", running=set(), assignment=SimpleNamespace(owners={}))
        context: Any = SimpleNamespace(store=store, tallies={})
        bulk: Any = None
        self.routes = Routes(self.connectors, nobody, context, bulk)
        self.routes.reconcile()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    store = Store(tmp_path)
    yield Scene(store, monkeypatch)
    store.close()


async def test_a_connector_is_looked_at_when_its_turn_comes(scene: Scene) -> None:
    """Those before it may have taken minutes: by then one is deleted, and one stopped."""

    def meanwhile() -> None:
        scene.connectors.delete("b")
        scene.connectors.set_state("c", State.STOPPED)

    scene.meanwhile = meanwhile
    assert await scene.routes.make_ready()
    assert scene.made == ["a"]


async def test_a_new_configuration_waits_for_its_route(scene: Scene) -> None:
    """The old one would have topics created that nobody wants any more; the leader tries again."""
    scene.meanwhile = lambda: None if "b" in scene.made else change()

    def change() -> None:
        scene.connectors.update("b", RouteSettings(topics=["other"]).model_dump(mode="json"))

    assert not await scene.routes.make_ready()
    assert scene.made == ["a", "c"]
    scene.routes.reconcile()
    scene.meanwhile = lambda: None
    assert await scene.routes.make_ready()


async def test_one_that_cannot_be_made_ready_is_tried_again(scene: Scene) -> None:
    def meanwhile() -> None:
        if scene.made[-1] == "b":
            raise StartupError("changed meanwhile")

    scene.meanwhile = meanwhile
    assert not await scene.routes.make_ready()
    assert scene.made == ["a", "b", "c"]
