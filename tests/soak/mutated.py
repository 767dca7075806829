"""A worker with an error in it: `python -m tests.soak.mutated MUTANT …`, with the arguments of `replicator`."""

from __future__ import annotations

import sys
from typing import Final

from replicator.__main__ import main
from replicator.admin import failover
from replicator.admin.failover import FailoverOptions
from replicator.admin.failover_steps import Steps
from replicator.connector.route import Route
from replicator.worker.worker import Worker
from tests.simulation import mutants
from tests.simulation.mutants import Mutant

__all__ = ["MUTANTS"]


def _opened_early() -> None:
    drain = failover._drain

    async def early(worker: Worker, route: Route, how: FailoverOptions, steps: Steps) -> None:
        await route.sync.hand_over(open_all=how.open_all)
        await drain(worker, route, how, steps)

    failover._drain = early


#: Those of the simulation, and what it cannot find since its worlds have no metadata.
MUTANTS: Final = {
    **mutants.MUTANTS,
    "opened-early": Mutant("a failover opens the target before the last messages are copied", _opened_early),
}

if __name__ == "__main__":
    MUTANTS[sys.argv.pop(1)].apply()
    main()
