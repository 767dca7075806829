"""What is tried with several versions, and by which tests; docs/COMPATIBILITY.md has their results."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

from replicator.sandbox.spec import VERSIONS

__all__ = ["FEATURES", "PAIR", "Feature", "Pair", "pairs"]

#: The versions of a source and a target.
Pair: TypeAlias = tuple[str, str]

#: The scene that every pair of versions plays.
PAIR: Final = "tests/e2e/test_compatibility.py::test_a_pair"


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that not every version has, or that was not tried with every pair.

    All cases of `test` try it; `lacking` says which versions have no such thing, or cannot do it, and why.
    """

    name: str
    test: str
    lacking: str = ""


def pairs() -> list[Pair]:
    """Source and target: every version with every other, and with itself."""
    return list(product(VERSIONS, VERSIONS))


FEATURES: Final = (
    Feature(
        "bodies and properties of every kind, byte for byte",
        "tests/e2e/test_exact_bytes.py::test_bodies_and_properties_of_every_kind",
    ),
    Feature(
        "bodies that the route compresses (`compression_type`), read by Java's client",
        "tests/e2e/test_body_compression.py::test_long_bodies_take_less_and_stay_what_they_are",
    ),
    Feature(
        "pending messages are parked, and released when the source is dead",
        "tests/e2e/test_parked_messages.py::test_the_site_is_lost",
        "4.9 has no timer, and nobody may read that of 5.1.4: there the worker sends what is due",
    ),
    Feature(
        "the same with accounts: ACL 1.0 to 2.0, and 2.0 to 1.0",
        "tests/e2e/test_parked_messages.py::test_the_site_is_lost_where_accounts_are_asked_for",
    ),
    Feature(
        "pending messages of a route by Spark are parked, and released when the source is dead",
        "tests/spark/test_parked_messages.py::test_the_site_is_lost",
    ),
    Feature(
        "what `sql` selects of pending messages is parked, and released when the source is dead",
        "tests/e2e/test_parked_selection.py::test_what_sql_selects",
    ),
    Feature(
        "one topic's parked messages are released before the other's, with two brokers at each side",
        "tests/e2e/test_parked_messages.py::test_one_topic_is_switched_and_then_the_other",
    ),
    Feature(
        "topics and groups of a namespace",
        "tests/e2e/test_namespaces.py::test_topics_and_groups_of_a_namespace",
    ),
    Feature(
        "a target that loses its tail gets it again",
        "tests/e2e/test_target_loss.py::test_before_the_next_message",
    ),
    Feature(
        "POP groups (gRPC clients, Proxies on both sides) switch in mid-stream",
        "tests/e2e/test_pop_consumers.py::test_what_consumers_hold_is_delivered_at_the_target",
        "4.9 has no POP",
    ),
    Feature(
        "retry topics of POP groups",
        "tests/e2e/test_pop_consumers.py::test_retries_come_along",
        "4.9 has no POP",
    ),
    Feature(
        "POP groups with accounts, ACL 1.0 to 2.0: they go on behind what they hold, which is said to be unknown",
        "tests/e2e/test_pop_accounts.py::test_a_source_that_does_not_show_what_is_held",
        "4.9 has no POP, 5.3 and later no ACL 1.0",
    ),
    Feature(
        "POP groups with accounts, ACL 2.0 to 1.0: what they hold is delivered at the target",
        "tests/e2e/test_pop_accounts.py::test_a_target_that_is_given_what_is_held",
        "4.9 has no POP, 5.3 and later no ACL 1.0",
    ),
    Feature(
        "dead-letter topics of groups, there and back",
        "tests/e2e/test_dlq_topics.py::test_dead_letters_come_along_and_back",
    ),
    Feature(
        "topics, queues and offsets in RocksDB (`storeType=defaultRocksDB`; on 5.5.0 `configManagerVersion=v2`,"
        " and `useSingleRocksDBForAllConfigs`)",
        "tests/e2e/test_stores.py::test_rocksdb_on_both_sides",
        "4.9 has no RocksDB",
    ),
    Feature(
        "brokers with RocksDB are killed under load",
        "tests/e2e/test_stores.py::test_brokers_with_rocksdb_are_killed",
        "4.9 has no RocksDB",
    ),
    Feature(
        "DLedger elects another leader at the source",
        "tests/e2e/test_stores.py::test_dledger_elects_another_leader",
    ),
    Feature(
        "DLedger elects another leader at the target",
        "tests/e2e/test_stores.py::test_dledger_elects_another_leader_at_the_target",
    ),
    Feature(
        "messages that the source has in tiered storage alone",
        "tests/e2e/test_stores.py::test_messages_that_are_in_tiered_storage_alone",
        "5.x has it; tried with files as the second store",
    ),
    Feature(
        "a backfill of messages that the source has in tiered storage alone",
        "tests/spark/test_tiered_storage.py::test_all_of_it_is_copied",
        "5.x has it; tried with files as the second store",
    ),
    Feature(
        "accounts go along, and a consumer goes on with its password",
        "tests/e2e/test_metadata_takeover.py::test_consumers_go_on_at_the_target",
        "from ACL 2.0 to 1.0 see `tests/acl_sync/test_brokers.py`",
    ),
    Feature(
        "messages of light queues get into those of the target",
        "tests/e2e/test_light_queues.py::test_light_queues_of_5x",
    ),
    Feature(
        "messages of lite topics get into those of the target",
        "tests/e2e/test_light_queues.py::test_lite_topics",
        "before 5.5 there are none",
    ),
    Feature(
        "groups go on where they are in light queues",
        "tests/e2e/test_light_queues.py::test_groups_go_on_where_they_are",
    ),
    Feature(
        "groups go on where they are in lite topics: LitePushConsumer, through Proxies on both sides",
        "tests/e2e/test_lite_consumers.py::test_a_group_goes_on_where_it_is_in_each_lite_topic",
        "before 5.5 there are none",
    ),
    Feature(
        "a controller elects another master at the source",
        "tests/e2e/test_controller_mode.py::test_at_the_source",
        "4.9 has no controller",
    ),
    Feature(
        "a slave is read while its master is gone",
        "tests/e2e/test_reading_slaves.py::test_a_slave_serves_when_the_master_is_gone",
    ),
    Feature(
        "consumers that subscribe to what was born at their own cluster",
        "tests/e2e/test_local_subscription.py::test_a_subscription_by_sql_gets_local_messages_alone",
    ),
    Feature(
        "FIFO messages of gRPC clients (for Java and for Python) keep their order through a switch",
        "tests/e2e/test_pop_consumers.py::test_in_order_groups_go_on_where_they_are",
        "4.9 has no POP",
    ),
    Feature(
        "producers of gRPC clients switch, and a topic takes messages of its type alone",
        "tests/e2e/test_pop_producers.py::test_the_type_of_a_topic_holds_at_the_target",
        "4.9 has no Proxy",
    ),
    Feature(
        "DELAY and TRANSACTION messages of gRPC clients",
        "tests/e2e/test_pop_consumers.py::test_delayed_and_transactional_messages",
        "4.9 has no POP",
    ),
    Feature(
        "PRIORITY messages of gRPC clients, the highest first at both sites",
        "tests/e2e/test_pop_consumers.py::test_priorities",
        "before 5.5 they are topics like others",
    ),
    Feature(
        "The gRPC client for Python begins at the source and goes on at the target",
        "tests/e2e/test_pop_consumers.py::test_the_client_for_python",
        "4.9 has no POP",
    ),
    Feature(
        "delayed and transactional messages of the remoting client",
        "tests/e2e/test_exact_bytes.py::test_delayed_and_transactional_messages_of_the_official_client",
    ),
    Feature(
        "checksums that brokers append (`enabledAppendPropCRC`)",
        "tests/e2e/test_exact_bytes.py::test_checksums_that_brokers_append",
        "4.9 appends none",
    ),
    Feature(
        "kinds of topics that cannot be copied exactly are refused by name",
        "tests/e2e/test_refused_topics.py::test_kinds_that_cannot_be_copied",
        "4.9 has plain topics only",
    ),
    Feature(
        "PRIORITY topics between clusters of one broker each",
        "tests/e2e/test_refused_topics.py::test_priorities_between_clusters_of_one_broker_each",
        "before 5.5 they are topics like others",
    ),
    Feature(
        "topics, queues, permissions and groups follow, with request modes",
        "tests/e2e/test_metadata_sync.py::test_topics_and_groups_follow",
    ),
    Feature(
        "two sources, one target topic",
        "tests/e2e/test_fan_in.py::test_a_second_source_gets_queues_of_its_own",
    ),
    Feature(
        "two targets, of which one is away",
        "tests/e2e/test_fan_out.py::test_a_target_that_is_away_holds_no_other_back",
    ),
    Feature(
        "rings of three clusters",
        "tests/e2e/test_loops.py::test_a_ring_of_three",
    ),
    Feature(
        "a source of which only a Proxy is reached: named topics, and offsets of named groups",
        "tests/e2e/test_proxy_source.py::test_named_topics_are_copied_through_a_proxy",
        "4.9 has no Proxy",
    ),
    Feature(
        "brokers behind mapped addresses",
        "tests/e2e/test_address_map.py::test_messages_and_offsets",
    ),
    Feature(
        "all through a SOCKS5 proxy, name servers by an address server",
        "tests/e2e/test_socks_proxy.py::test_all_goes_through_it",
    ),
    Feature(
        "which requests take the VIP channel",
        "tests/e2e/test_vip_channel.py::test_what_crosses_which_port",
    ),
)
