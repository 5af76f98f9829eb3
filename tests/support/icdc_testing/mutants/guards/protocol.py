"""The guards of the state document and of the choice of the next step."""

from icdc_testing.mutants.edits import Edit
from icdc_testing.mutants.guard import Guard, GuardKind

_DOCUMENT = "sparkapps/icdc_spark/protocol/state_document.py"
_FIELDS = "sparkapps/icdc_spark/protocol/stored_fields.py"
_STEP = "sparkapps/icdc_spark/protocol/next_step.py"
_EARLIER = "sparkapps/icdc_spark/protocol/earlier_indices.py"
_TESTS = "tests/unit/icdc_spark/protocol"
_ROLLBACKS = f"{_TESTS}/test_rollbacks.py"
_NODES = "sparkapps/icdc_spark/protocol/absent_nodes.py"
_NODES_TESTS = f"{_TESTS}/test_absent_nodes.py"
_TURN = f"{_TESTS}/test_state.py::test_a_step_out_of_turn_is_refused"
_TAKES_OVER = f"{_TESTS}/test_state.py::test_only_a_newer_run_of_the_pipeline_takes_over"
_STEPS = f"{_TESTS}/test_steps.py::test_the_next_step_is"
_LOST = f"{_TESTS}/test_steps.py::test_what_can_no_longer_be_known_is_exported_again"
_LOST_STOPS = (
    f"{_TESTS}/test_steps.py"
    "::test_what_can_no_longer_be_known_stops_the_table_where_that_is_asked_for"
)


def _drop_requirement(condition: str, problem: str) -> Edit:
    """Take out one requirement of the state document."""
    return Edit(
        _DOCUMENT, f"self._require({condition}, {problem})", f"self._require(True, {problem})"
    )


LISTED = (
    Guard(
        kind=GuardKind.WAIT,
        name="a restarted node holds nothing",
        prevents="Each restart of OpenSearch during a batch causes an export.",
        edits=(Edit(_NODES, " if process == node.process else None", ""),),
        tests=(f"{_NODES_TESTS}::test_what_is_left_to_remember_of_a_node_that_left",),
    ),
    Guard(
        kind=GuardKind.WAIT,
        name="a node that is back is a gap",
        prevents="Deleted rows that a node brought back count as rows of the table.",
        edits=(Edit(_NODES, 'node.model_copy(update={"returned": True}) if', "None if"),),
        tests=(f"{_NODES_TESTS}::test_what_is_left_to_remember_of_a_node_that_left",),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="an index that began without an export lacks rows",
        prevents="With another mode than StreamOnly, rows from before the start stay missing.",
        edits=(Edit(_STEP, "if state.lacks_rows and not policies.stream_only:", "if False:"),),
        tests=(_STEPS,),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="higher epoch",
        prevents="A driver that was thought dead claims the document back and writes again.",
        edits=(
            Edit(_DOCUMENT, "if owner.epoch <= self.owner.epoch and not same_run:", "if False:"),
        ),
        tests=(_TAKES_OVER,),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="one pipeline for an alias",
        prevents="Two pipelines feed one index, each with the versions of its own ordinals.",
        edits=(Edit(_DOCUMENT, "if owner.pipeline != self.owner.pipeline:", "if False:"),),
        tests=(_TAKES_OVER,),
    ),
    Guard(
        kind=GuardKind.INTENT,
        name="one open intent",
        prevents="The next batch replaces the record of one that may be half written.",
        edits=(
            _drop_requirement(
                "self.intent.has_same_work(intent)", '"another intent is still open"'
            ),
        ),
        tests=(f"{_TURN}[an intent over an open one]",),
    ),
    Guard(
        kind=GuardKind.VERSION,
        name="ordinals are used once",
        prevents="Two batches write with equal versions, and one takes the other's for its own.",
        edits=(
            _drop_requirement(
                "intent.ordinal > self.last_ordinal", 'f"ordinal {intent.ordinal} was used"'
            ),
        ),
        tests=(f"{_TURN}[an ordinal again]", f"{_TURN}[the ordinal of an abandoned intent]"),
    ),
    Guard(
        kind=GuardKind.INTENT,
        name="a batch begins at the applied snapshot",
        prevents="What changed between the applied snapshot and the batch is never written.",
        edits=(
            _drop_requirement(
                "intent.from_ == applied", '"the intent does not start at the applied state"'
            ),
        ),
        tests=(f"{_TURN}[a changelog from elsewhere]",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="a batch writes the index of the document",
        prevents="A batch is written into an index that was not exported.",
        edits=(_drop_requirement("here", '"the intent names another index"'),),
        tests=(f"{_TURN}[a changelog of another index]",),
    ),
    Guard(
        kind=GuardKind.INTENT,
        name="a new intent has no progress",
        prevents="Chunks count as written although no run has written them.",
        edits=(_drop_requirement("fresh", '"a new intent has progress already"'),),
        tests=(f"{_TURN}[an intent with progress]",),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="chunks in order",
        prevents="A chunk is left out, and a restart continues after it.",
        edits=(_drop_requirement("in_order", 'f"chunk {number} is not the next one"'),),
        tests=(f"{_TURN}[a chunk left out]", f"{_TURN}[a chunk twice]"),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="all chunks before the swap",
        prevents="Readers get an index that is not complete.",
        edits=(
            _drop_requirement("intent.chunks_done == intent.chunks_total", '"chunks are missing"'),
        ),
        tests=(f"{_TURN}[swapping too early]",),
    ),
    Guard(
        kind=GuardKind.ALIAS,
        name="the alias moves before the advance",
        prevents="Batches go into an index that nobody reads, and readers stay on the old one.",
        edits=(
            _drop_requirement("intent.phase is IntentPhase.SWAPPING", '"the alias was not moved"'),
        ),
        tests=(f"{_TURN}[advancing before the swap]",),
    ),
    Guard(
        kind=GuardKind.INTENT,
        name="an advance is that of the intent",
        prevents="A snapshot counts as applied although it was not written.",
        edits=(_drop_requirement("fits", '"the applied state is not the intent\'s"'),),
        tests=(f"{_TURN}[advancing to another snapshot]",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="shards are recorded once",
        prevents="The state of a shard that lost writes is recorded as correct.",
        edits=(
            _drop_requirement(
                "self.intent is None and self.shards is None", '"shards are recorded already"'
            ),
        ),
        tests=(
            f"{_TESTS}/test_state.py"
            "::test_an_upgraded_document_gets_its_shards_once_and_never_while_a_batch_is_open",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="checksum of the document",
        prevents="A state document that somebody edited is trusted.",
        edits=(
            Edit(_FIELDS, 'if source.get("checksum") != _compute_checksum(content):', "if False:"),
        ),
        tests=(
            f"{_TESTS}/test_state_stored.py::test_any_single_change_of_a_stored_document_is_noticed",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="a document is that of its alias",
        prevents="A copy of a state document under another id is used for the wrong table.",
        edits=(Edit(_FIELDS, "if document.alias != alias:", "if False:"),),
        tests=(f"{_TESTS}/test_state_stored.py::test_a_document_under_another_id_is_refused",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="UUID of the table",
        prevents="Rows of a dropped table stay in the index of a new table with the same name.",
        edits=(Edit(_STEP, "if state.source.uuid != inputs.table_uuid:", "if False:"),),
        tests=(f"{_LOST}[the table was re-created]",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="a lost index is a gap",
        prevents="Changes are written into an index that does not hold what they change.",
        edits=(
            Edit(
                _STEP,
                "if inputs.index_loss:\n        return inputs.index_loss",
                "if False:\n        pass",
            ),
        ),
        tests=(f"{_LOST}[the index is gone]", f"{_LOST_STOPS}[the index is gone]"),
    ),
    Guard(
        kind=GuardKind.ANCESTRY,
        name="the applied snapshot is readable",
        prevents="A run asks again and again for a difference that can no longer be read.",
        edits=(Edit(_STEP, "needed = [applied]", "needed: list[str | None] = []"),),
        tests=(f"{_LOST}[the applied snapshot expired]",),
    ),
    Guard(
        kind=GuardKind.ANCESTRY,
        name="a replay needs both of its snapshots",
        prevents="A half-written batch whose snapshot expired is repeated forever.",
        edits=(Edit(_STEP, "needed += [state.intent.from_, state.intent.to]", "pass"),),
        tests=(f"{_LOST}[the target of the open batch expired]",),
    ),
    Guard(
        kind=GuardKind.INTENT,
        name="an open batch is replayed first",
        prevents="Rows that a half-written batch changed, and that changed back, keep its content.",
        edits=(
            Edit(
                _STEP,
                "if state.intent is not None:\n        return _replay(",
                "if False:\n        return _replay(",
            ),
        ),
        tests=(f"{_STEPS}[an open batch is replayed as it was, not to the newest snapshot]",),
    ),
    Guard(
        kind=GuardKind.INTENT,
        name="no replay under another spec",
        prevents="One half of a batch is written with other fields than the other half.",
        edits=(
            Edit(
                _STEP,
                "if inputs.spec_change:\n            # Half of",
                "if False:\n            # Half of",
            ),
        ),
        tests=(f"{_STEPS}[half a batch of another shape is built anew]",),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="two miscounts stall the table",
        prevents="An index that somebody else changes all the time is exported again forever.",
        edits=(Edit(_STEP, "if intent.miscounts >= MAX_MISCOUNTS:", "if False:"),),
        tests=(
            f"{_TESTS}/test_steps.py::test_an_export_that_miscounts_again_and_again_stops_the_table",
        ),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="a newer form is refused by name",
        prevents="After a downgrade a message asks people to repair an intact document.",
        edits=(
            Edit(
                _FIELDS,
                "if isinstance(version, int) and version > CONTRACT_VERSION:",
                "if False:",
            ),
        ),
        tests=(
            "tests/unit/older/test_older_versions.py"
            "::test_a_document_of_a_version_to_come_is_left_alone_and_says_so",
        ),
    ),
    Guard(
        kind=GuardKind.ANCESTRY,
        name="older metadata is waited out",
        prevents="If a catalog answers with older metadata, the table is exported again.",
        edits=(Edit(_STEP, "    _refuse_older_metadata(inputs, policies)\n", ""),),
        tests=(f"{_TESTS}/test_older_metadata.py::test_older_metadata_is_waited_out",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="records of a restored document are forgotten",
        prevents="Readers are switched back to an index that is not as it was recorded.",
        edits=(Edit(_EARLIER, "self.retained if is_trusted else []", "self.retained"),),
        tests=(f"{_ROLLBACKS}::test_records_of_a_document_that_was_restored_are_forgotten",),
    ),
    Guard(
        kind=GuardKind.ANCESTRY,
        name="an index with a part of a batch is not used again",
        prevents="Documents of a batch that was given up stay, although the table changed back.",
        edits=(Edit(_EARLIER, "if self.intent is not None:", "if False:"),),
        tests=(
            f"{_ROLLBACKS}::test_an_index_that_does_not_equal_its_snapshot_is_never_served_again",
        ),
    ),
)
