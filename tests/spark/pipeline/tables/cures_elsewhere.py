"""Cures of tables that other tests carry out, and tests of reasons that pass. Runs nothing."""

from collections.abc import Mapping

from icdc_api.status.pipeline_status import TableReason

from .cured_tables import RESYNC

_UNREACHABLE = "tests/spark/pipeline/target/test_unreachable.py"
_NONCES = "tests/spark/pipeline/runs/test_nonces.py"
_PROOFS = "tests/spark/pipeline/target/test_proofs.py"
_SWITCHED = "test_readers_are_switched_back_and_forth_and_what_was_committed_since_is_applied"
ELSEWHERE: Mapping[tuple[TableReason, str], str] = {
    (TableReason.UNAUTHORIZED, "kubectl edit secret"): f"{_UNREACHABLE}::"
    "test_wrong_credentials_stall_the_table_and_name_the_secret",
    (TableReason.TARGET_READ_ONLY, "max_shards_per_node"): f"{_UNREACHABLE}::"
    "test_a_cluster_without_room_for_shards_says_so_and_the_table_goes_on_once_there_is",
    (TableReason.TARGET_READ_ONLY, "cluster.blocks"): f"{_UNREACHABLE}::"
    "test_a_read_only_cluster_stalls_the_table_before_anything_is_made",
    (TableReason.TARGET_INVALID, "proveBeforeSwitch"): f"{_PROOFS}::"
    "test_by_the_number_of_documents_alone_such_a_document_is_not_found",
    (TableReason.DEAD_LETTER_LIMIT, "icdc dead-letters replay"): "tests/spark/pipeline/target/"
    "test_refused_rows.py::test_rows_are_sent_again_once_the_cause_was_mended",
    (TableReason.ROLLBACK_REFUSED, "the field that the message names"): f"{_NONCES}::{_SWITCHED}",
    (TableReason.ROLLBACK_REFUSED, RESYNC): f"{_NONCES}::"
    "test_an_export_that_is_requested_takes_the_place_of_a_rollback_that_waits",
    (TableReason.ROLLBACK_REFUSED, "--mode Verify"): f"{_NONCES}::"
    "test_a_comparison_that_is_requested_ends_a_rollback_that_waits",
    (TableReason.BUG, "icdc report"): "tests/spark/pipeline/runs/test_one_failing.py::"
    "test_what_nobody_foresaw_is_tried_a_few_times_and_stalls_its_table_alone",
}
"""Cures that another test has carried out."""
PASSING: Mapping[TableReason, str] = {
    TableReason.SOURCE_UNAVAILABLE: "tests/spark/pipeline/source/test_lagging_catalog.py::"
    "test_an_older_answer_is_no_gap_and_takes_nothing_back",
    TableReason.TARGET_UNAVAILABLE: "tests/spark/pipeline/target/test_gateways.py::"
    "test_an_address_that_is_not_that_of_opensearch_says_so_until_it_is",
    TableReason.THROTTLED: "tests/spark/opensearch/test_bulk_faults.py::"
    "test_retries_end_when_their_time_is_used_up",
    TableReason.NO_PROGRESS: "tests/spark/pipeline/runs/test_hanging_tables.py::"
    "test_a_hung_table_says_so_and_catches_up_when_the_fault_ends_and_the_other_goes_on",
    TableReason.OUT_OF_MEMORY: "tests/spark/pipeline/runs/test_one_failing.py::"
    "test_a_table_whose_python_workers_die_again_and_again_is_tried_again_by_the_next_run",
    TableReason.DISK_FULL: "tests/spark/source/files/test_engine_losses.py::"
    "test_what_spark_loses_is_told_as_such_and_tried_again",
    TableReason.NODE_LOST: "tests/spark/source/files/test_engine_losses.py::"
    "test_what_spark_loses_is_told_as_such_and_tried_again",
}
"""The test in which a reason is met that passes by itself."""
