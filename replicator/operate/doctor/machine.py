"""This machine: secrets, the place of the state files, compiled code, Spark. Nothing is written."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from replicator.api.server import Server
from replicator.connector.identity import refuse_other_group, refuse_other_ids
from replicator.errors import ConfigError, StartupError
from replicator.group.assignment import STRATEGIES, load_strategy
from replicator.group.signature import Signer
from replicator.operate.doctor.finding import Finding, bad, good, odd, unchecked
from replicator.plugins.transforms import chain_of
from replicator.protocol.uniform_run import COMPILED
from replicator.routing.options import Identity
from replicator.settings import RestSettings, Settings
from replicator.spark.engine.session import refuse_no_spark
from replicator.state.state_file import Damaged, decode

__all__ = ["examine_machine", "judge_kept"]

#: Bytes that state files and the audit log may need.
_ROOM: Final = 256 * 1024 * 1024
_CHECK: Final = "this machine"


def examine_machine(settings: Settings) -> Iterator[Finding]:
    """What a worker with `settings` needs here."""
    yield _compiled()
    yield from _secrets(settings)
    yield from _rest(settings.rest)
    yield _store(settings.store_path)
    yield from _spark(settings)
    try:
        chain_of(settings.transforms, waiting="pending" in settings.sync)
    except ConfigError as error:
        yield bad(
            _CHECK,
            "transforms",
            error.message,
            error.hint or "do what it says, or install the package that brings it",
        )
    try:
        load_strategy(settings.assignment)
    except ConfigError as error:
        way_out = f"install the package that brings it, or choose one of {', '.join(STRATEGIES)}"
        yield bad(_CHECK, "assignment", error.message, error.hint or way_out)


def _compiled() -> Finding:
    if COMPILED:
        return good(_CHECK, "compiled code", "messages are packed by compiled code")
    return odd(
        _CHECK,
        "compiled code",
        "it could not be loaded: copying takes about twice the CPU",
        "install again with a C compiler at hand; `pip install` fetches one",
    )


def _secrets(settings: Settings) -> Iterator[Finding]:
    for side, cluster in (("source", settings.source), ("target", settings.target)):
        try:
            cluster.socks.secret()
        except ConfigError as error:
            yield bad(_CHECK, f"{side}.socks.password_file", error.message, error.hint)
        if cluster.access_key is None:
            continue
        try:
            cluster.secret()
        except ConfigError as error:
            yield bad(_CHECK, f"{side}.secret_key_file", error.message, error.hint)
        else:
            yield good(_CHECK, f"{side}.access_key", f"account {cluster.access_key}, with its secret")
    try:
        signer = Signer.of(settings)
    except ConfigError as error:
        yield bad(_CHECK, "worker_group_secret_file", error.message, error.hint)
        return
    if signer.secret is not None:
        yield good(_CHECK, "worker_group_secret_file", "the group signs what it writes")
    elif not settings.standalone:
        yield odd(
            _CHECK,
            "worker_group_secret_file",
            "control messages are not signed: anyone with write access to the system topics can control the group",
            "replicator secret FILE, and set worker_group_secret_file to it on all workers",
        )


def _rest(rest: RestSettings) -> Iterator[Finding]:
    """Tokens and certificates, as a worker's start reads them; its port may be in use by the worker that runs."""
    try:
        rest.bearers()
    except ConfigError as error:
        yield bad(_CHECK, "rest tokens", error.message, error.hint)
    if rest.tls.cert_file is None:
        return
    with socket.socket() as unbound:
        try:
            Server(_nobody, unbound, rest.tls)
        except StartupError as error:
            yield bad(_CHECK, "rest.tls", error.message, error.hint)
        else:
            yield good(_CHECK, "rest.tls", "REST is served over TLS, with a certificate that can be used")


async def _nobody(_scope: Any, _receive: Any, _send: Any) -> None:
    """Serves nothing: it is only looked whether it could be served."""


def _store(path: Path) -> Finding:
    try:
        return _check_store(path)
    except OSError as error:
        return unchecked(
            _CHECK,
            "store_path",
            f"{path}, because {error.filename or path} cannot be looked at ({error.strerror})",
            "run the doctor as the user that the worker runs as",
        )


def _check_store(path: Path) -> Finding:
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        advice = f"let {place} belong to the user that the worker runs as (chown -R), or name another --store-path"
        return bad(_CHECK, "store_path", f"{path} cannot be written", advice)
    free = shutil.disk_usage(place).free
    if free < _ROOM:
        return odd(
            _CHECK,
            "store_path",
            f"{path} has {free // 2**20} MiB left",
            f"make room (df -h {place}), or name another one",
        )
    if _is_used(path / ".lock"):
        return good(_CHECK, "store_path", f"{path} is used by a worker that runs now")
    return good(_CHECK, "store_path", f"{path} can be written, {free // 2**30} GiB are free")


def judge_kept(store: Path, identity: Identity, group: str) -> Iterator[Finding]:
    """Whether the state files in `store` are of these two clusters, and of the worker group `group`."""
    path = store / "identity.json"
    try:
        found = decode(path.read_bytes(), str(path))
        known = found if isinstance(found, dict) else {}
        refuse_other_ids(identity, known)
        refuse_other_group(group, known)
    except FileNotFoundError:
        return
    except StartupError as error:
        yield bad(_CHECK, "store_path", error.message, error.hint)
    except (OSError, Damaged) as error:
        yield unchecked(_CHECK, "store_path", f"which clusters {path} is of, because {error}")
    else:
        yield good(_CHECK, "store_path", "its state is of these two clusters and this worker group")


def _is_used(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _spark(settings: Settings) -> Iterator[Finding]:
    try:
        refuse_no_spark()
    except StartupError as error:
        if settings.wants_spark:
            yield bad(_CHECK, "Spark", error.message, error.hint)
    else:
        yield good(_CHECK, "Spark", "PySpark and Java are installed")
