"""Reads both clusters, plans, and does what is planned. When, is the caller's to say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from acl_sync import acl1, broker_acl, files
from acl_sync.merge import merge
from acl_sync.model import AclState, Dialect, Note
from acl_sync.options import AclOptions
from acl_sync.ownership import Origin, Ownership
from acl_sync.plan import AclPlan, Action, Verb, make_plan
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused, ClientError, ReplicatorError, RequestTimeout, StartupError, Unreachable
from replicator.protocol.codes import Request
from replicator.settings.clusters import is_loopback

__all__ = ["AclSyncer", "Applied"]

#: Seconds after which the source is read in full though its version is the same: a manually edited file
#: need not change it.
_REREAD: Final = 5.0
#: Seconds after which what is gone is looked for again.
_AGAIN: Final = 1.0


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of an action; `error` is empty where it was done."""

    action: Action
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """Without secrets."""
        return {**self.action.as_json(), "error": self.error}


#: Who is refused one of these has made no account.
_CREATING: Final = (Request.AUTH_CREATE_USER, Request.UPDATE_AND_CREATE_ACL_CONFIG)


def _needs_second_look(action: Action) -> bool:
    """Whether it takes away, or does harm where a broker of 1.0 has the account after all.

    4.9 empties its file before it writes it, and takes the creation of an account that is there for a change of it.
    """
    at_risk = action.dialect is Dialect.ACL1 and action.verb in (Verb.CREATE, Verb.FORGET)
    return (action.takes_away or at_risk) and not action.blocked


def _key(action: Action) -> tuple[Verb, str, str]:
    return action.verb, action.broker, action.account


#: Brokers, each with why it is not looked at.
_Unreachable = list[tuple[str, str]]


def _noted(unreachable: _Unreachable) -> list[Note]:
    return [Note("", text) for _, text in unreachable]


def _readable(cluster: Cluster, side: str) -> list[Note]:
    """What is to be said where others may read along."""
    hosts = {address.rpartition(":")[0].strip("[]") for address in cluster.addresses}
    if cluster.verified or all(map(is_loopback, hosts)):
        return []
    return [
        Note("", f"accounts' secrets cross the network to the {side} unprotected: set {side}.tls.mode to verify")
    ]


@dataclass(frozen=True, slots=True)
class _Read:
    version: str
    at: float
    state: AclState


class AclSyncer:
    """Keeps the target's accounts as the source's are.

    Args:
        owned: what `owned` gave last time, for the same target; without it nothing is ours.
    """

    def __init__(
        self, source: Cluster, target: Cluster, options: AclOptions, *, owned: Mapping[str, Any] | None = None
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._owned = Ownership(owned)
        self._read: dict[str, _Read] = {}
        #: Broker and account of claims to what was not ours before, and was not yet tried to be made.
        self._untried: set[tuple[str, str]] = set()

    @property
    def owned(self) -> dict[str, Any]:
        """What at the target is ours, as JSON, without secrets. Keep it after each `claim` and each `apply`."""
        return self._owned.as_json()

    @property
    def revision(self) -> int:
        """Another number each time that `owned` has changed."""
        return self._owned.revision

    async def plan(self) -> AclPlan:
        """What is to be done now.

        What is gone is looked for twice: 4.9 empties its file before it writes it.

        Raises:
            StartupError: a side has no access control, or refuses to show it.
            ClientError: no broker of a side can be reached.
        """
        made = await self._plan()
        gone = {_key(each) for each in filter(_needs_second_look, made.actions)}
        if not gone:
            return made
        await asyncio.sleep(_AGAIN)
        self._read.clear()
        made = await self._plan()
        sure = (each for each in made.actions if not _needs_second_look(each) or _key(each) in gone)
        return replace(made, actions=tuple(sure))

    async def _plan(self) -> AclPlan:
        (source, away), (found, missing) = await asyncio.gather(
            self._read_source(), self._read_side(self._target, "target")
        )
        if source.dialect is Dialect.NONE:
            raise StartupError(
                "the source checks no accounts, so there are none to sync",
                hint="enable aclEnable or authenticationEnabled there, or leave acl out",
            )
        if all(state.dialect is Dialect.NONE for state in found.values()):
            raise StartupError(
                "the target checks no accounts: anyone who can reach it may do everything",
                hint="enable authenticationEnabled and authorizationEnabled (5.x) or aclEnable (4.x) there",
            )
        made = make_plan(source, found, self._owned, self._options)
        readable = [] if self._options.source_dir is not None else _readable(self._source, "source")
        notes = (*made.notes, *_noted(missing), *readable, *_readable(self._target, "target"))
        return replace(made, notes=notes, unreachable_brokers=(*away, *missing))

    def claim(self, plan: AclPlan) -> bool:
        """Makes ours what applying `plan` would make; whether that changes `owned`.

        Before it is done, and kept before it is done: an answer may be lost, or its process killed, and then nobody
        would know whose an account is. What was not made after all is forgotten when the broker says so, or when
        the source loses it.
        """
        before = self.revision
        for action in plan.pending:
            self._claim(action)
        return self.revision != before

    def _claim(self, action: Action) -> None:
        if action.verb is Verb.WHITE_LIST:
            self._owned.own_white(action.broker, action.claimed_white)
        elif action.after is not None:
            if action.before is None and action.account not in self._owned.accounts(action.broker):
                self._untried.add((action.broker, action.account))
            origin = Origin.CREATED if action.before is None else Origin.ADOPTED
            self._owned.own(action.broker, action.account, origin)

    async def apply(self, plan: AclPlan) -> list[Applied]:
        """Does what is not blocked, broker by broker; what fails does not hold up the rest.

        What it makes is claimed, at the latest now.
        """
        return [await self._apply(action) for action in plan.pending]

    async def _apply(self, action: Action) -> Applied:
        self._claim(action)
        claim = action.broker, action.account
        is_first_try = claim in self._untried
        self._untried.discard(claim)
        try:
            await self._write(action)
        except ReplicatorError as error:
            # At a second try it may be the first one that has made it, whose answer was lost.
            if is_first_try and isinstance(error, BrokerRefused) and error.request in _CREATING:
                self._owned.disown(*claim)
            return Applied(action, str(error))
        return Applied(action)

    async def _write(self, action: Action) -> None:
        broker, account = action.broker, action.account
        endpoint = self._target.writer(broker)
        if action.verb is Verb.ADOPT:
            self._owned.own(broker, account, Origin.ADOPTED)
        elif action.verb is Verb.FORGET:
            self._owned.disown(broker, account)
        elif action.verb is Verb.DELETE:
            assert action.before is not None  # noqa: S101 - only what is there is deleted
            await broker_acl.delete_account(endpoint, action.dialect, account)
            self._owned.deleted(broker, action.before)
        elif action.verb is Verb.WHITE_LIST:
            await acl1.write_white(endpoint, action.white)
            self._owned.own_white(broker, action.owned_white)
        elif action.after is not None:
            await broker_acl.write_account(endpoint, action.dialect, action.after, before=action.before)

    async def _read_source(self) -> tuple[AclState, _Unreachable]:
        if self._options.source_dir is not None:
            read = partial(files.read, self._options.source_dir, own=self._source.account)
            return await asyncio.to_thread(read), []
        states, away = await self._read_side(self._source, "source")
        return merge(states, complete=not away, notes=_noted(away)), away

    async def _read_side(self, cluster: Cluster, side: str) -> tuple[dict[str, AclState], _Unreachable]:
        """Each broker's state, and those that cannot be reached now.

        Raises:
            StartupError: a broker refuses to show its accounts.
            ClientError: none can be reached.
        """
        topology = await cluster.refresh()
        names = sorted(topology.brokers)
        found = await asyncio.gather(
            *(self._read_broker(cluster, name, side) for name in names), return_exceptions=True
        )
        states: dict[str, AclState] = {}
        gone = sorted(cluster.brokers().keys() - topology.brokers.keys())
        away = [
            (name, f"{side} broker {name} is no longer registered at the name servers and is skipped")
            for name in gone
        ]
        failure: ClientError | None = None
        for name, result in zip(names, found, strict=True):
            if isinstance(result, AclState):
                states[name] = result
            elif isinstance(result, (Unreachable, RequestTimeout)):
                failure = result
                away.append((name, f"{side} broker {name} is skipped now: {result}"))
            else:
                raise result
        if not states and failure is not None:
            raise failure
        return states, away

    async def _read_broker(self, cluster: Cluster, name: str, side: str) -> AclState:
        endpoint = cluster.writer(name)
        try:
            speech = await broker_acl.detect(endpoint)
            read = broker_acl.read if side == "target" else self._read_unless_known
            state = await read(endpoint, speech)
        except BrokerRefused as error:
            raise StartupError(
                f"{side} broker {name} does not list its accounts ({error.code}, {error.remark or 'no remark'})",
                hint="the replicator's account must be an admin (1.0) or a Super user (2.0) there"
                + ("; for a broker without code 54 give its files with --acl-source-dir" * (side == "source")),
            ) from None
        own = cluster.account
        if own and state.dialect is Dialect.ACL1 and own not in state.accounts.keys() | state.unsure:
            self._read.pop(endpoint.address, None)
            raise Unreachable(
                endpoint.address, f"its list of accounts lacks our own, {own}: it is being written, or not whole"
            )
        return state

    async def _read_unless_known(self, endpoint: Endpoint, speech: broker_acl.BrokerAcl) -> AclState:
        if speech.dialect is not Dialect.ACL1:
            return await broker_acl.read(endpoint, speech)
        version, now = await acl1.version(endpoint), time.monotonic()
        known = self._read.get(endpoint.address)
        if known is not None and known.version == version and now - known.at < _REREAD:
            return known.state
        state = await broker_acl.read(endpoint, speech)
        self._read[endpoint.address] = _Read(version, now, state)
        return state
