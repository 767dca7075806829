"""Tests that `make nightly` runs and `make test` leaves out: long ones, of which it runs a quicker relative.

What is left out is another pair of versions, another way to die, or a whole cluster of another product. Each line
is a test's id, without parameters for all of its cases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

__all__ = ["NIGHTLY", "is_nightly", "missing"]

NIGHTLY: Final = frozenset(
    {
        # the same on other versions
        "tests/e2e/test_light_queues.py::test_groups_go_on_where_they_are[5.3.3-5.5.0]",
        "tests/e2e/test_lite_consumers.py::test_a_group_goes_on_where_it_is_in_each_lite_topic[alive]",
        "tests/e2e/test_audit.py::test_what_is_planted_is_named[5.3.3]",
        "tests/e2e/test_body_compression.py::test_clients_that_are_not_java_or_not_remoting[zstd]",
        "tests/e2e/test_body_compression.py::test_long_bodies_take_less_and_stay_what_they_are[zlib-1-4.9.7]",
        "tests/e2e/test_compatibility.py::test_a_pair",
        "tests/e2e/test_body_compression.py::test_long_bodies_take_less_and_stay_what_they_are[zstd-513-5.1.4]",
        "tests/e2e/test_doctor.py::test_healthy_clusters[5.3.3]",
        "tests/e2e/test_exact_bytes.py::test_bodies_and_properties_of_every_kind[5.3.3-5.3.3]",
        "tests/e2e/test_exact_bytes.py::test_bodies_and_properties_of_every_kind[5.5.0-4.9.7]",
        "tests/e2e/test_exact_bytes.py::test_bodies_and_properties_of_every_kind[5.1.4-5.5.0]",
        "tests/e2e/test_exact_bytes.py::test_bodies_and_properties_of_every_kind[5.5.0-5.1.4]",
        "tests/e2e/test_exact_bytes.py::test_delayed_and_transactional_messages_of_the_official_client[5.3.3-5.3.3]",
        "tests/e2e/test_exact_bytes.py::test_delayed_and_transactional_messages_of_the_official_client[5.5.0-4.9.7]",
        "tests/e2e/test_exact_bytes.py::test_delayed_and_transactional_messages_of_the_official_client[5.1.4-5.5.0]",
        "tests/e2e/test_exact_bytes.py::test_delayed_and_transactional_messages_of_the_official_client[5.5.0-5.1.4]",
        "tests/e2e/test_fan_out.py::test_a_target_that_is_away_holds_no_other_back[minutes]",
        "tests/e2e/test_faults.py::test_a_message_larger_than_the_target_takes[fail-4.9.7]",
        "tests/e2e/test_faults.py::test_a_message_larger_than_the_target_takes[wait-4.9.7]",
        "tests/e2e/test_guarded_clusters.py::test_tls_on_both_sides[there]",
        "tests/e2e/test_light_queues.py::test_light_queues_of_4x_and_a_worker_that_is_killed",
        "tests/e2e/test_lost_state_files.py::test_damaged_files_are_set_aside_and_rebuilt_from_the_target[gone]",
        "tests/e2e/test_lost_state_files.py::test_damaged_files_are_set_aside_and_rebuilt_from_the_target[truncated]",
        "tests/e2e/test_metadata_takeover.py::test_consumers_go_on_at_the_target[5.1.4-5.5.0]",
        "tests/e2e/test_metadata_takeover.py::test_consumers_go_on_at_the_target[5.3.3-5.3.3]",
        "tests/e2e/test_metadata_takeover.py::test_consumers_go_on_at_the_target[5.5.0-5.5.0]",
        "tests/e2e/test_metadata_takeover.py::test_consumers_go_on_at_the_target[one database]",
        "tests/e2e/test_metadata_deletions.py::test_groups_are_deleted_after_a_quiet_minute",
        "tests/e2e/test_name_servers.py::test_one_of_two_name_servers_dies_and_comes_back_empty[target-5.5.0]",
        "tests/e2e/test_namespaces.py::test_topics_and_groups_of_a_namespace",
        "tests/e2e/test_parked_messages.py::test_the_site_is_lost[5.3.3-4.9.7]",
        "tests/e2e/test_parked_messages.py::test_the_site_is_lost[5.3.3-5.1.4]",
        "tests/e2e/test_parked_messages.py::test_the_site_is_lost[timers in RocksDB]",
        "tests/e2e/test_parked_selection.py::test_what_sql_selects[4.9.7]",
        "tests/e2e/test_parked_transforms.py::test_the_site_is_lost_and_returns[4.9.7]",
        "tests/e2e/test_pending_messages.py::test_delayed_messages_and_transactions[4.9.7]",
        "tests/e2e/test_pending_messages.py::test_delayed_messages_and_transactions[5.1.4]",
        "tests/e2e/test_pending_messages.py::test_delayed_messages_and_transactions[5.3.3]",
        "tests/e2e/test_pending_messages.py::test_delayed_messages_and_transactions[timers in RocksDB]",
        "tests/e2e/test_pending_messages.py::test_delayed_messages_and_transactions[transactions in RocksDB]",
        "tests/e2e/test_pop_accounts.py::test_a_source_that_does_not_show_what_is_held",
        "tests/e2e/test_pop_accounts.py::test_a_target_that_is_given_what_is_held",
        "tests/e2e/test_pop_consumers.py::test_delayed_and_transactional_messages[DELAY]",
        "tests/e2e/test_pop_consumers.py::test_delayed_and_transactional_messages[TRANSACTION]",
        "tests/e2e/test_pop_consumers.py::test_in_order_groups_go_on_where_they_are[python]",
        "tests/e2e/test_pop_consumers.py::test_priorities",
        "tests/e2e/test_pop_consumers.py::test_retries_come_along[older]",
        "tests/e2e/test_pop_consumers.py::test_the_client_for_python",
        "tests/e2e/test_pop_consumers.py::test_what_consumers_hold_is_delivered_at_the_target[push]",
        "tests/e2e/test_pop_producers.py::test_the_type_of_a_topic_holds_at_the_target[NORMAL-fifo]",
        "tests/e2e/test_proxy_source.py::test_named_topics_are_copied_through_a_proxy[5.3.3]",
        "tests/e2e/test_proxy_source.py::test_a_proxy_with_tls[5.3.3]",
        "tests/e2e/test_reading_slaves.py::test_a_slave_serves_when_the_master_is_gone[4.9.7]",
        "tests/e2e/test_reading_slaves.py::test_a_slave_serves_when_the_master_is_gone[5.1.4]",
        "tests/e2e/test_refused_topics.py::test_kinds_that_cannot_be_copied[5.3.3-kinds]",
        "tests/e2e/test_route.py::test_everything_crosses_once_in_order_and_unchanged[5.5.0-4.9.7]",
        "tests/e2e/test_stores.py::test_brokers_with_rocksdb_are_killed[5.3.3]",
        "tests/e2e/test_stores.py::test_dledger_elects_another_leader",
        "tests/e2e/test_stores.py::test_dledger_elects_another_leader_at_the_target",
        "tests/e2e/test_stores.py::test_rocksdb_on_both_sides",
        "tests/e2e/test_target_loss.py::test_before_the_next_message[4.9.7]",
        "tests/e2e/test_target_loss.py::test_before_the_next_message[5.1.4]",
        "tests/e2e/test_topic_selection.py::test_all_user_topics_and_no_others_by_default[4.9.7]",
        "tests/e2e/test_topic_selection.py::test_all_user_topics_and_no_others_by_default[5.1.4]",
        "tests/e2e/test_topic_selection.py::test_all_user_topics_and_no_others_by_default[5.3.3]",
        "tests/e2e/test_vip_channel.py::test_what_crosses_which_port[5.1.4]",
        "tests/protocol/test_uniform_run.py::test_on_aarch64_the_result_is_the_same",
        "tests/spark/test_slave.py::test_history_is_read_from_the_slave[5.3.3]",
        # the same on the other side
        "tests/e2e/test_brokers_come_and_go.py::test_at_the_source",
        "tests/e2e/test_brokers_come_and_go.py::test_at_the_target",
        "tests/e2e/test_controller_mode.py::test_at_the_target",
        "tests/e2e/test_group_faults.py::test_a_worker_that_is_cut_off_from_one_cluster[source]",
        "tests/e2e/test_group_faults.py::test_a_worker_that_is_cut_off_from_one_cluster[target]",
        "tests/e2e/test_guarded_clusters.py::test_tls_on_both_sides[back]",
        "tests/e2e/test_name_servers.py::test_a_worker_waits_for_the_first_broker[source]",
        "tests/e2e/test_name_servers.py::test_one_of_two_name_servers_dies_and_comes_back_empty[source-4.9.7]",
        "tests/e2e/test_swapped_addresses.py::test_at_the_target",
        "tests/sandbox/test_access.py::test_tls_refuses_plain_text_and_foreign_clients",
        # another way or another moment to die
        "tests/acl_sync/test_brokers.py::test_a_command_without_a_broker",
        "tests/e2e/test_acl_sync.py::test_a_deleted_account_does_not_come_back_with_an_older_store",
        "tests/e2e/test_alerts.py::test_alerts_fire_when_they_should_and_rest_else",
        "tests/e2e/test_alerts.py::test_an_alert_of_leases_that_are_lost_again_and_again",
        "tests/e2e/test_audit.py::test_alerts",
        "tests/e2e/test_bounded_memory.py::test_a_queue_far_away[few bytes]",
        "tests/e2e/test_bounded_memory.py::test_a_queue_far_away[few messages]",
        "tests/e2e/test_brokers_come_and_go.py::test_a_worker_is_killed_while_it_moves_queues",
        "tests/e2e/test_controller_mode.py::test_at_the_source",
        "tests/e2e/test_fan_in.py::test_a_topic_that_is_copied_back_shares_its_queues_or_is_refused",
        "tests/e2e/test_faults.py::test_retention_overtook_the_position",
        "tests/e2e/test_forged_copies.py::test_a_secret_that_comes_after_the_copies",
        "tests/e2e/test_group_faults.py::test_a_worker_whose_name_was_given_to_another_while_it_was_away",
        "tests/e2e/test_group_faults.py::test_one_source_broker_is_down",
        "tests/e2e/test_group_faults.py::test_what_was_half_sent_before_a_pause_is_not_finished_after_it",
        "tests/e2e/test_incidents.py::test_incidents",
        "tests/e2e/test_interrupted_failover.py::test_killed_at_any_moment_and_repeated_at_another_worker[1]",
        "tests/e2e/test_interrupted_failover.py::test_killed_at_any_moment_and_repeated_at_another_worker[2]",
        "tests/e2e/test_least_rights.py::test_each_right_is_needed",
        "tests/e2e/test_loops.py::test_a_ring_of_three",
        "tests/e2e/test_loops.py::test_two_clusters_of_one_name_are_told_apart",
        "tests/e2e/test_metadata_sync.py::test_a_message_of_others_is_not_skipped",
        "tests/e2e/test_missing_rights.py::test_rights_that_come_and_go",
        "tests/e2e/test_parked_in_time.py::test_each_is_there_when_it_is_due",
        "tests/e2e/test_parked_messages.py::test_a_switch_with_the_source_alive",
        "tests/e2e/test_parked_messages.py::test_one_topic_is_switched_and_then_the_other",
        "tests/e2e/test_parked_messages.py::test_the_site_returns",
        "tests/e2e/test_parked_messages.py::test_waiting_messages_are_parked",
        "tests/e2e/test_recreated_topics.py::test_topic_deleted_and_recreated_while_it_is_away[longer]",
        "tests/e2e/test_recreated_topics.py::test_topic_deleted_and_recreated_while_it_is_away[shorter]",
        "tests/e2e/test_plugins.py::test_lines_survive_the_death_of_their_owner",
        "tests/e2e/test_poor_line.py::test_one_way_is_silent_for_a_while",
        "tests/e2e/test_poor_line.py::test_one_way_to_the_target_is_silent_for_a_minute",
        "tests/e2e/test_poor_line.py::test_to_the_target",
        "tests/e2e/test_pop_consumers.py::test_retries_of_copies_come_back",
        "tests/e2e/test_recovery.py::test_a_target_that_does_not_answer_cuts_the_drain",
        "tests/e2e/test_recovery.py::test_kill_9_at_random_moments_under_load",
        "tests/e2e/test_recovery.py::test_one_of_two_brokers_killed_and_started_again",
        "tests/e2e/test_recovery.py::test_target_broker_paused_longer_than_the_time_limit",
        "tests/e2e/test_refused_topics.py::test_priorities_between_clusters_of_one_broker_each",
        "tests/e2e/test_stores.py::test_messages_that_are_in_tiered_storage_alone",
        "tests/e2e/test_target_loss.py::test_while_nothing_flows",
        "tests/e2e/test_target_loss.py::test_with_a_restart_in_between",
        "tests/e2e/test_transforms.py::test_owners_are_killed_in_the_middle",
        "tests/e2e/test_truncated_source.py::test_grown_beyond_the_position_since[away]",
        "tests/e2e/test_truncated_source.py::test_grown_beyond_the_position_since[running]",
        "tests/e2e/test_truncated_source.py::test_while_it_is_away",
        "tests/e2e/test_trust.py::test_a_secret_is_introduced_one_worker_after_the_other",
        "tests/e2e/test_upgrade.py::test_in_place_under_load[SIGKILL first]",
        "tests/e2e/test_workers.py::test_a_fourth_worker_takes_a_quarter_and_stops_no_other",
        "tests/e2e/test_workers.py::test_a_rolling_restart_repeats_nothing",
        "tests/spark/test_archive.py::test_a_disk_that_is_full_leaves_its_queue_open",
        "tests/spark/test_archive.py::test_an_archive_is_not_put_behind_a_later_copy",
        "tests/spark/test_archive.py::test_exports_and_imports_that_fail_are_made_again",
        "tests/spark/test_archive.py::test_out_and_in_again",
        "tests/spark/test_archive_files.py::test_many_files_of_a_queue_that_crosses_midnight",
        "tests/spark/test_backfill.py::test_backfill_and_then_the_live_route",
        "tests/spark/test_backfill.py::test_others_that_would_copy_the_same",
        "tests/spark/test_backfill.py::test_tasks_that_fail_and_are_killed_are_made_again",
        "tests/spark/test_brokers_away.py::test_a_source_broker",
        "tests/spark/test_brokers_away.py::test_a_target_broker_of_an_import",
        "tests/spark/test_cluster.py::test_executors_are_killed_in_mid_task",
        "tests/spark/test_datasource.py::test_copies_are_written_once_over_attempts_that_fail",
        "tests/spark/test_engine.py::test_a_queue_fails_alone_and_an_owner_dies",
        "tests/spark/test_job_metrics.py::test_a_running_backfill_is_on_the_board",
        "tests/spark/test_killed_driver.py::test_export_then_import_then_backfill",
        "tests/spark/test_parked_messages.py::test_the_site_is_lost",
        "tests/spark/test_parked_messages.py::test_what_transforms_make_of_it",
        "tests/spark/test_paused.py::test_a_process_that_stood_still_sends_no_more",
        "tests/spark/test_reading.py::test_bodies_are_as_their_producers_wrote_them",
        "tests/spark/test_retention.py::test_messages_that_are_gone",
        "tests/spark/test_route_backfill.py::test_a_topic_with_history_is_selected_later",
        "tests/spark/test_route_backfill.py::test_by_default_spark_copies_where_enough_is_behind",
        "tests/spark/test_route_backfill.py::test_drained_while_spark_copies_and_then_spark_dies",
        "tests/spark/test_route_backfill.py::test_nothing_comes_twice_when_the_owner_changes",
        "tests/spark/test_selection.py::test_the_same_as_by_the_live_route",
        "tests/spark/test_sending.py::test_a_broker_that_is_away_is_waited_for",
        "tests/spark/test_sending.py::test_copies_that_name_no_queue_go_where_they_went_before",
        "tests/spark/test_speculation.py::test_a_backfill_does_not_begin",
        "tests/spark/test_speculation.py::test_the_data_source_does_not_write",
        "tests/spark/test_streaming.py::test_a_stream_goes_on_exactly_where_it_was",
        "tests/spark/test_streaming.py::test_copies_are_written_once",
        "tests/spark/test_surroundings.py::test_brokers_that_go_in_the_middle_of_a_job",
        "tests/spark/test_surroundings.py::test_offsets_and_topics_that_are_not_there",
        "tests/spark/test_verify.py::test_what_the_copy_makes_is_clean",
        "tests/spark/test_writing.py::test_a_message_above_the_limit_of_the_broker",
        "tests/spark/test_writing.py::test_a_topic_that_is_not_there",
        "tests/spark/test_writing.py::test_processes_are_killed_in_mid_write",
        # more of the same random worlds
        "tests/simulation/test_scale.py::test_a_group_at_size[3000-5]",
        # with accounts and TLS, with another Spark, with documents run whole
        "tests/demo/test_demo.py::test_a_second_interrupt_ends_at_once",
        "tests/demo/test_demo.py::test_an_interrupt_drains",
        "tests/demo/test_demo.py::test_without_the_independent_client_our_own_is_used",
        "tests/e2e/test_halted_routes.py::test_an_alert_of_a_pause_that_was_forgotten",
        "tests/sandbox/test_commands.py::test_up_status_down",
        "tests/sandbox/test_commands.py::test_up_with_accounts_tls_and_brokers",
        "tests/e2e/test_disasters_guide.py::test_there_and_back_and_without_brokers_and_sites",
        "tests/e2e/test_migration_guide.py::test_topic_by_topic",
        "tests/e2e/test_securing_guide.py::test_securing",
        "tests/e2e/test_secret_files.py::test_new_certificates_of_another_authority",
        "tests/e2e/test_two_way_guide.py::test_two_ways",
        "tests/e2e/test_typed_guides.py::test_guarded_clusters",
        "tests/e2e/test_typed_guides.py::test_ones_own_clusters",
        "tests/e2e/test_typed_guides.py::test_workers_and_metadata",
        "tests/sandbox/test_first_minutes.py::test_the_first_five_minutes",
        "tests/spark/engine/test_slots.py::test_parallelism_that_users_set_makes_no_slots",
        "tests/spark/engine/test_user_conf.py::test_a_session_has_the_users_settings",
        "tests/spark/test_accounts.py::test_accounts_that_lack_a_right",
        "tests/spark/test_accounts.py::test_import_and_a_route_by_spark",
        "tests/spark/test_connect.py::test_topics_are_read_and_written",
        "tests/spark/test_docs.py::test_the_examples_run",
        "tests/spark/test_examples.py::test_the_cells_run",
        "tests/spark/test_hadoop.py::test_a_cluster_of_yarn",
        "tests/spark/test_hadoop.py::test_a_file_of_hdfs_is_replaced_whole",
        "tests/spark/test_hadoop.py::test_out_to_hdfs_and_in_again",
        "tests/spark/test_route_backfill.py::test_between_guarded_clusters",
        "tests/spark/test_surroundings.py::test_a_stream_between_guarded_clusters",
        "tests/spark/test_surroundings.py::test_accounts_of_both_kinds",
        "tests/spark/test_surroundings.py::test_tls_through_the_data_source",
        "tests/spark/test_tiered_storage.py::test_all_of_it_is_copied",
        "tests/spark/test_typed_commands.py::test_commands_about_spark",
        "tests/spark/test_vip.py::test_what_crosses_which_port",
        # what `make test` does not install
        "tests/test_site.py::test_it_is_built_and_its_links_hold",
    }
)


def is_nightly(identifier: str) -> bool:
    """Whether a test is left out of `make test`, by its id with or without parameters."""
    return identifier in NIGHTLY or identifier.partition("[")[0] in NIGHTLY


def pytest_itemcollected(item: pytest.Item) -> None:
    """The marker that `make test` leaves out."""
    if is_nightly(item.nodeid):
        item.add_marker("nightly")


def missing(lines: Iterable[str], collected: Iterable[str]) -> set[str]:
    """The lines that are no test, of files that are collected whole, by the ids of their tests."""
    ids = set(collected)
    known = ids | {each.partition("[")[0] for each in ids}
    files = {each.partition("::")[0] for each in ids}
    return {line for line in lines if line.partition("::")[0] in files and line not in known}


@pytest.hookimpl(tryfirst=True)  # before any are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A line that is not a test is an error, unless single tests are asked for."""
    if any("::" in each for each in config.args):
        return
    if lines := missing(NIGHTLY, (item.nodeid for item in items)):
        raise pytest.UsageError(f"{__file__} lists what is not a test: {', '.join(sorted(lines))}")
