"""The guards that a whole run of the application tries, with real Spark and OpenSearch."""

from icdc_testing.mutants.edits import Edit
from icdc_testing.mutants.guard import Guard, GuardKind

_ROOM = "sparkapps/icdc_spark/replication"
_RUN = f"{_ROOM}/table_run.py"
_TESTS = "tests/spark/pipeline"
_TAKING_OVER = f"{_TESTS}/runs/test_taking_over.py"
_NODES = f"{_ROOM}/checks/node_check.py"
_EXPORT_CHECK = f"{_ROOM}/checks/export_check.py"
_PROVED = (
    f"{_TESTS}/target/test_proofs.py"
    "::test_a_document_that_somebody_replaced_is_found_before_readers_see_it"
)
_ABSENT = f"{_TESTS}/target/test_absent_nodes.py"
_BULK = "sparkapps/icdc_spark/opensearch/bulk"
_SPOILED = (
    "tests/spark/plugins/test_ingest_pipelines.py"
    "::test_a_change_that_a_pipeline_spoils_is_followed_by_a_new_index"
)

LISTED = (
    Guard(
        kind=GuardKind.WAIT,
        name="a run that takes over waits",
        prevents="Tasks of the previous run write after the first batch of the new run.",
        edits=(Edit(_RUN, "context.outwait_older_runs(stored.document)", "pass"),),
        tests=(f"{_TAKING_OVER}::test_a_run_whose_first_wait_failed_waits_again_before_it_writes",),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="tasks may still begin a request",
        prevents="A task that has not yet checked who owns the index writes into the next batch.",
        edits=(
            Edit(
                f"{_ROOM}/context.py",
                "at_least=OWNER_SECONDS if state is None or state.intent else 0.0",
                "at_least=0.0",
            ),
        ),
        tests=(
            f"{_TAKING_OVER}"
            "::test_a_run_that_finds_a_batch_under_way_waits_until_its_tasks_have_asked_who_owns_the_index",
        ),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="a lost answer is waited out",
        prevents="A request whose answer was lost overwrites what the next batch wrote.",
        edits=(
            Edit(
                f"{_ROOM}/context.py",
                "if result.ambiguous or failed_before:",
                "if failed_before:",
            ),
        ),
        tests=(
            f"{_TAKING_OVER}"
            "::test_a_batch_of_which_an_answer_was_lost_is_recorded_when_its_requests_have_ended",
        ),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="a node that left is remembered",
        prevents="A node that comes back applies the requests that it held, and nobody notices.",
        edits=(Edit(_NODES, "with_nodes(nodes, absent,", "with_nodes(nodes, {},"),),
        tests=(
            f"{_ABSENT}::test_a_node_that_comes_back_with_what_it_held_is_followed_by_an_export",
        ),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="a primary that moved is asked for",
        prevents="A disconnected node applies a request again that another node has repeated.",
        edits=(Edit(_NODES, " or has_moved(context, now):", ":"),),
        tests=(
            f"{_ABSENT}::test_the_node_of_a_primary_that_moved_is_asked_although_every_answer_came",
        ),
    ),
    Guard(
        kind=GuardKind.ALIAS,
        name="the alias is read",
        prevents="Readers see nothing, or an old copy, and every comparison says equal.",
        edits=(Edit(_RUN, "alias_check.keep_alias(self.context, stored.document)", "pass"),),
        tests=(
            f"{_TESTS}/target/test_other_hands.py"
            "::test_an_alias_that_somebody_removed_is_back_after_one_poll",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="a new index is counted",
        prevents="Readers get an index in which rows are missing.",
        edits=(Edit(_EXPORT_CHECK, "if keys != documents + refused:", "if False:"),),
        tests=(
            f"{_TESTS}/target/test_miscounts.py"
            "::test_an_export_that_somebody_disturbs_is_begun_anew",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="a new index is compared",
        prevents="Readers get documents that somebody changed while the index was filled.",
        edits=(Edit(_EXPORT_CHECK, "if not found.differing:", "if True:"),),
        tests=(f"{_PROVED}[Sample]", f"{_PROVED}[All]"),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="a batch whose primary moved is written again",
        prevents="A write that only the old primary acknowledged is lost, and counts as applied.",
        edits=(Edit(_NODES, "is_settled = not has_moved(context, now)", "is_settled = True"),),
        tests=(
            f"{_ABSENT}::test_what_a_primary_acknowledged_that_its_successor_never_had_is_written_again",
            f"{_ABSENT}::test_a_repair_that_such_a_primary_acknowledged_is_written_again",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="the index has as many writes as it acknowledged",
        prevents="Writes that a disk lost while a batch was written count as applied.",
        edits=(Edit(_NODES, "if has_moved(context, now) or not lost:", "if True:"),),
        tests=(
            f"{_TESTS}/target/test_restored_index.py"
            "::test_writes_that_a_disk_lost_while_a_batch_was_written_are_not_advanced_over",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="lost writes are recorded",
        prevents="The table is not exported, and no later run knows of the loss.",
        edits=(
            Edit(
                _NODES,
                "context.record_fault(loss, gap)",
                "pass",
            ),
        ),
        tests=(
            f"{_TESTS}/target/test_restored_index.py"
            "::test_writes_that_a_disk_lost_while_a_batch_was_written_are_not_advanced_over",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="the index is compared before the advance",
        prevents="A batch counts as applied although a restore has removed its writes.",
        edits=(
            Edit(
                _NODES,
                "intent.index, intent.index_uuid, recorded)",
                "intent.index, intent.index_uuid)",
            ),
        ),
        tests=(
            f"{_TESTS}/target/test_restored_index.py"
            "::test_what_is_restored_while_a_batch_is_written_is_not_advanced_over",
        ),
    ),
    Guard(
        kind=GuardKind.INTENT,
        name="a renamed column is found by its id",
        prevents="A batch cannot be repeated if a column was renamed since it was begun.",
        edits=(
            Edit(
                f"{_ROOM}/checks/document_resolver.py",
                "follow_names(self._wishes, named, schema, renamed)",
                "self._wishes",
            ),
            Edit(
                f"{_ROOM}/checks/document_resolver.py",
                "    follow_names,\n",
                "",
            ),
        ),
        tests=(
            f"{_TESTS}/tables/test_field_changes.py"
            "::test_a_batch_that_was_begun_before_a_column_was_renamed_is_finished_with_its_new_name",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="a name in use is followed to no other column",
        prevents="Documents get the values of a column that had the name before another one.",
        edits=(
            Edit(
                "crds/icdc_api/spec/indices/renamed_columns.py",
                "if name not in ids and not lost:",
                "if not lost:",
            ),
        ),
        tests=(
            "tests/unit/icdc_spark/documents/test_wishes.py"
            "::test_an_earlier_name_means_the_column_that_had_it_last_unless_it_is_in_use",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="a repair deletes strays",
        prevents="A document that somebody wrote with another routing stays, beside the right one.",
        edits=(
            Edit(
                "sparkapps/icdc_spark/verification/rewriting.py",
                "if strays is not None and (strays := reader.persist(strays)).isEmpty():",
                "if True:",
            ),
        ),
        tests=(
            f"{_TESTS}/tables/test_fields.py"
            "::test_a_document_that_somebody_wrote_with_another_routing_is_found_and_deleted",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="documents are read back behind an ingest pipeline",
        prevents="Documents that an ingest pipeline changed are taken for those of their rows.",
        edits=(
            Edit(
                f"{_BULK}/sender.py",
                "self._reader.check(operation.get_action(0), operation.get_document(0))",
                "pass",
            ),
        ),
        tests=(_SPOILED,),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="changed documents are recorded",
        prevents="The run that repeats the batch finds them applied, and advances over them.",
        edits=(Edit(f"{_BULK}/sink.py", "if total.altered:", "if False:"),),
        tests=(_SPOILED,),
    ),
    Guard(
        kind=GuardKind.DEAD_LETTERS,
        name="a stray settles no dead letter",
        prevents="The last trace of a refused row is removed before the row is tried again.",
        edits=(
            Edit(
                f"{_BULK}/sender.py",
                "target.known_dead_letter_ids if target.settles_dead_letters else frozenset()",
                "target.known_dead_letter_ids",
            ),
        ),
        tests=(
            "tests/spark/opensearch/stores/test_dead_letters.py"
            "::test_a_later_write_of_the_key_resolves_the_letter",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="deletes for any file are planned with every window",
        prevents="Rows that a writer deleted by their values come back with the next export.",
        edits=(
            Edit(
                "sparkapps/icdc_spark/iceberg/scan/manifest_index.py",
                "return self.has_any_file or not hashes",
                "return not hashes",
            ),
        ),
        tests=(
            "tests/spark/source/planning/test_applicable_deletes.py"
            "::test_a_window_is_planned_with_the_manifests_that_may_have_a_delete_for_it",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="primaries are asked",
        prevents="A replica that copies segments late hides documents from counts and from verify.",
        edits=(
            Edit(
                "sparkapps/icdc_spark/opensearch/client/connection.py",
                'PRIMARIES = "_primary"',
                'PRIMARIES = "_replica_first"',
            ),
        ),
        tests=(
            "tests/spark/nodes/test_segment_replication.py"
            "::test_documents_that_replicas_do_not_show_yet_are_found",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="an index that nobody remembers keeps its number",
        prevents="A late write for a deleted index goes into the next one, which has its name.",
        edits=(
            Edit(
                f"{_ROOM}/export_swap.py",
                "return context.request.epoch // 1000",
                "return state.last_number",
            ),
        ),
        tests=(
            f"{_TESTS}/target/test_lost_state.py"
            "::test_an_index_that_nobody_remembers_gives_its_number_to_no_other",
        ),
    ),
)
