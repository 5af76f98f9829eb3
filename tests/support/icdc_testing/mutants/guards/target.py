"""The guards that only a real OpenSearch node tries: documents, indices, aliases, requests."""

from icdc_testing.mutants.edits import Edit
from icdc_testing.mutants.guard import Guard, GuardKind

_ROOM = "sparkapps/icdc_spark/opensearch"
_STORE = f"{_ROOM}/stores/state_store.py"
_CONTEXT = "sparkapps/icdc_spark/replication/context.py"
_ALIASES = f"{_ROOM}/stores/aliases.py"
_TASKS = f"{_ROOM}/client/tasks.py"
_WATCH = f"{_ROOM}/bulk/owner_watch.py"
_DEAD_LETTER_WRITER = f"{_ROOM}/bulk/dead_letter_writer.py"
_TESTS = "tests/spark/opensearch"
_STORE_TESTS = f"{_TESTS}/stores/test_state_store.py"
_DEAD_LETTER_TESTS = f"{_TESTS}/stores/test_dead_letters.py"

LISTED = (
    Guard(
        kind=GuardKind.FENCE,
        name="compare and set",
        prevents="A run that was replaced overwrites the state of the one that replaced it.",
        edits=(
            Edit(
                _STORE,
                'return {"if_seq_no": stored.seq_no, "if_primary_term": stored.primary_term}',
                "return {}",
            ),
        ),
        tests=(f"{_STORE_TESTS}::test_the_older_of_two_owners_is_fenced_at_its_next_write",),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="the first document is created once",
        prevents="Two first runs both believe that they own the alias.",
        edits=(Edit(_STORE, '{"op_type": "create"}', "{}"),),
        tests=(f"{_STORE_TESTS}::test_the_slower_of_two_creations_is_fenced",),
    ),
    Guard(
        kind=GuardKind.VERSION,
        name="a lost answer is looked up",
        prevents="A run takes its own change for that of another run, and ends.",
        edits=(
            Edit(
                _STORE,
                "if now is not None and _without_revision(now.document) == ",
                "if False and _without_revision(now.document) == ",
            ),
        ),
        tests=(f"{_STORE_TESTS}::test_a_lost_answer_is_not_taken_for_another_owner",),
    ),
    Guard(
        kind=GuardKind.INTENT,
        name="the intent is read back",
        prevents="Rows are written for a batch that no state document records.",
        edits=(Edit(_STORE, "if self._load(document.alias) != written:", "if False:"),),
        tests=(
            f"{_STORE_TESTS}"
            "::test_an_intent_that_was_acknowledged_and_lost_is_stored_before_a_row_is_written",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="an answer is that to the change",
        prevents="A change counts as stored because another change was stored.",
        edits=(
            Edit(
                _STORE,
                'if not fits or answer["_seq_no"] <= condition.get("if_seq_no", -1):',
                "if False:",
            ),
        ),
        tests=(f"{_STORE_TESTS}::test_an_answer_to_another_change_is_not_believed",),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="tasks ask first after a long pause",
        prevents="A run that was replaced while it planned or was stopped writes for five seconds.",
        edits=(Edit(_CONTEXT, "owned_at=self.store.get_owned_at(self.alias),", "owned_at=None,"),),
        tests=(
            "tests/spark/kills/test_two_runs.py"
            "::test_a_run_that_was_replaced_before_its_first_write_asks_before_it_writes",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="revision of the document",
        prevents="A state document that was restored from a copy is used for a newer index.",
        edits=(
            Edit(
                _STORE,
                "return self.document.revision in (None, self.version)",
                "return True",
            ),
        ),
        tests=(
            f"{_STORE_TESTS}::test_a_document_that_was_put_back_from_a_copy_is_known_by_its_revision",
        ),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="a document is deleted as it was read",
        prevents="A deletion removes the state of a run that has just begun.",
        edits=(Edit(_STORE, '{**condition, "ignore": 404}', '{"ignore": 404}'),),
        tests=(f"{_STORE_TESTS}::test_a_document_is_deleted_only_as_it_was_read",),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="older requests are waited for",
        prevents="A late delete or write of an older batch undoes what a newer one wrote.",
        edits=(Edit(_TASKS, "if busy or now - begun", "if now - begun"),),
        tests=(
            f"{_TESTS}/test_tasks.py::test_an_abandoned_request_is_applied_whole_before_it_is_quiet",
        ),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="a silent node is busy",
        prevents="A node that does not answer applies a write too late.",
        edits=(
            Edit(
                _TASKS,
                'if not isinstance(nodes, dict) or answer.get("node_failures") or answer.get(',
                "if not isinstance(nodes, dict) or [].count(",
            ),
        ),
        tests=(
            f"{_TESTS}/test_tasks.py::test_an_answer_in_which_something_is_missing_is_not_quiet",
        ),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="a node that left is waited for",
        prevents="A node that was disconnected for a moment sends its requests after the deletes.",
        edits=(
            Edit(_TASKS, "before, absent = absent, frozenset(expected) - nodes", "before = absent"),
        ),
        tests=(
            f"{_TESTS}/test_tasks.py::test_a_node_that_left_the_cluster_is_waited_for_and_named",
            f"{_TESTS}/test_tasks.py::test_a_node_that_comes_back_is_asked_like_the_others",
        ),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="one empty answer is not enough",
        prevents="A request that has arrived but is not yet a task is not seen.",
        edits=(Edit(_TASKS, "            quiet_since = now\n", "            return\n"),),
        tests=(f"{_TESTS}/test_tasks.py::test_one_empty_answer_is_not_enough",),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="tasks ask who owns the index",
        prevents="Tasks of a disconnected run continue to write for hours.",
        edits=(
            Edit(
                _WATCH,
                'if owner["pipeline"] != target.pipeline or owner["epoch"] > target.epoch:',
                "if False:",
            ),
        ),
        tests=(f"{_TESTS}/test_owner_watch.py::test_a_task_ends_when_a_newer_run_owns_the_index",),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="without a document nobody writes",
        prevents="Tasks continue to write into an index whose state was deleted.",
        edits=(
            Edit(
                _WATCH,
                'if isinstance(error.info, dict) and error.info.get("found") is False:',
                "if False:",
            ),
        ),
        tests=(f"{_TESTS}/test_owner_watch.py::test_a_task_ends_when_the_state_document_is_gone",),
    ),
    Guard(
        kind=GuardKind.ALIAS,
        name="another pipeline's alias is taken",
        prevents="A pipeline moves the alias of another pipeline to its own index.",
        edits=(Edit(_ALIASES, "if whose != owner:", "if False:"),),
        tests=(f"{_TESTS}/stores/test_indices.py::test_an_alias_of_another_pipeline_is_taken",),
    ),
    Guard(
        kind=GuardKind.ALIAS,
        name="only the owner moves the alias",
        prevents="A run that was paused moves the alias back to an older index.",
        edits=(
            Edit(
                _ALIASES,
                "        require_owner()\n        _move(",
                "        _move(",
            ),
            Edit(_ALIASES, "    require_owner()\n    _move(", "    _move("),
        ),
        tests=(f"{_TESTS}/stores/test_aliases.py::test_a_run_that_was_replaced_moves_nothing",),
    ),
    Guard(
        kind=GuardKind.ALIAS,
        name="only our orphans are deleted",
        prevents="Indices of somebody else that are named like ours are deleted.",
        edits=(
            Edit(
                f"{_ROOM}/stores/indices.py",
                "if whose == owner and name not in keep and",
                "if name not in keep and",
            ),
        ),
        tests=(f"{_TESTS}/stores/test_indices.py::test_only_our_own_orphans_are_dropped",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="an index is what was asked for",
        prevents="An index template changes documents or breaks the protocol unnoticed.",
        edits=(
            Edit(
                f"{_ROOM}/stores/creation.py",
                'if problems:\n        raise TargetInvalid(\n            f"Index {created',
                'if False:\n        raise TargetInvalid(\n            f"Index {created',
            ),
        ),
        tests=(
            f"{_TESTS}/stores/test_templates.py::test_an_index_that_a_template_breaks_is_not_made",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="answers of all shards",
        prevents="Documents of a shard that is temporarily unavailable count as missing.",
        edits=(Edit(f"{_ROOM}/client/shards.py", "if not complete:", "if False:"),),
        tests=(f"{_TESTS}/test_scan.py::test_an_answer_from_a_part_of_the_shards_is_asked_again",),
    ),
    Guard(
        kind=GuardKind.DEAD_LETTERS,
        name="a refused row is stored",
        prevents="A row that the index refuses is lost without a trace.",
        edits=(
            Edit(
                f"{_ROOM}/bulk/sender.py",
                "self._dead_letters.store(delivery.refused, delivery.result)",
                "pass",
            ),
        ),
        tests=(
            f"{_DEAD_LETTER_TESTS}::test_a_refused_row_is_a_dead_letter_and_its_old_document_goes",
        ),
    ),
    Guard(
        kind=GuardKind.DEAD_LETTERS,
        name="limit of dead letters",
        prevents="Without a limit, refused rows remove more and more documents.",
        edits=(Edit(_DEAD_LETTER_WRITER, "if total > target.max_dead_letters:", "if False:"),),
        tests=(f"{_DEAD_LETTER_TESTS}::test_more_letters_than_allowed_end_the_batch",),
    ),
    Guard(
        kind=GuardKind.DEAD_LETTERS,
        name="a newer dead letter stays",
        prevents="An older batch removes the only trace of a row that a newer one refused.",
        edits=(
            Edit(
                _DEAD_LETTER_WRITER,
                "if stored is not None and stored.ordinal <= self._target.ordinal",
                "if stored is not None",
            ),
            Edit(
                _DEAD_LETTER_WRITER, "return stored.ordinal > self._target.ordinal", "return False"
            ),
        ),
        tests=(
            f"{_DEAD_LETTER_TESTS}"
            "::test_the_letter_of_a_newer_batch_is_neither_overwritten_nor_removed",
        ),
    ),
    Guard(
        kind=GuardKind.DEAD_LETTERS,
        name="mass refusals stop the batch",
        prevents="A changed mapping empties the index that readers use.",
        edits=(
            Edit(
                f"{_ROOM}/bulk/refusals.py",
                "if len(ids) > many and len(ids) > MANY_SHARE * rows:",
                "if False:",
            ),
        ),
        tests=(
            f"{_TESTS}/test_sink.py"
            "::test_a_batch_that_is_refused_for_the_most_part_removes_nothing",
        ),
    ),
)
