"""Whether the target's account may make the retry topics into which a failover puts what POP consumers hold."""

from __future__ import annotations

from typing import Final, NamedTuple

from replicator.client.rights import denies_retry_topic
from replicator.connector.context import ConnectorContext
from replicator.protocol.codes import is_of_acl_1

__all__ = ["Denial", "way_out", "why_not_made"]

#: What such an account does with a retry topic, which brokers with ACL 2.0 take for the group of its name.
_ACTIONS: Final = "Sub,Get,Create"


class Denial(NamedTuple):
    """What the account may not do, and what to type."""

    message: str
    way_out: str


async def why_not_made(context: ConnectorContext, broker: str, name: str) -> Denial | None:
    """Why the account may not make the retry topic `name` at a broker of the target, which is of 5.x; None where it
    may, the topic is there, or there is no account.

    Raises:
        ClientError, ProtocolError: the broker does not answer.
    """
    target = context.target
    account = target.cluster.account
    if not account or name in target.topics.get(broker, {}):
        return None
    remark = await denies_retry_topic(target.cluster.writer(broker), name)
    if not remark:
        return None
    message = f"the target's account {account} may not create {name} ({remark})"
    return Denial(message, way_out(context, remark, _ACTIONS))


def way_out(context: ConnectorContext, refusal: str, actions: str) -> str:
    """What to type where `actions` on groups are refused to the target's account, or a change of groups."""
    target = context.target
    account = target.cluster.account
    if is_of_acl_1(refusal):
        return f"give {account} `admin: true` in plain_acl.yml: with ACL 1.0 admins alone create topics and groups"
    where = f"-n '{';'.join(target.cluster.addresses)}' -c {target.cluster_name}"
    return f"type `mqadmin createAcl {where} -s User:{account} -r 'Group:*' -a {actions} -d Allow`"
