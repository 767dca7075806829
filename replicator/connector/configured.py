"""Whether a connector is still what a long piece of work has begun for."""

from __future__ import annotations

from replicator.errors import StartupError
from replicator.state.record import Kind
from replicator.state.store import Store

__all__ = ["Configured"]


class Configured:
    """The connector `name`, as the group has it now."""

    def __init__(self, name: str, store: Store) -> None:
        self._name = name
        self._store = store

    @property
    def version(self) -> object:
        """Another one after each change but of rates, and but for restarted tasks, which keep what they are for;
        None: there is no such connector.
        """
        value = self._store.state.get(Kind.CONNECTOR, self._name)
        if value is None:
            return None
        config = {name: given for name, given in value["config"].items() if not name.startswith("rate_")}
        return value.get("made", 0), value["epoch"], value["state"], config

    def refuse_changed(self, version: object) -> None:
        """Checks that it is as it was with `version`.

        Raises:
            StartupError: it is not.
        """
        if self.version != version:
            raise StartupError(f"connector {self._name} was deleted, stopped or changed", hint="repeat this")
