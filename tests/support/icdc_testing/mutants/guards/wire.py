"""The guards that judge answers of OpenSearch, which need no node to be tried."""

from icdc_testing.mutants.edits import Edit
from icdc_testing.mutants.guard import Guard, GuardKind

_IDENTITY = "sparkapps/icdc_spark/opensearch/stores/identity.py"
_RESPONSES = "sparkapps/icdc_spark/opensearch/wire/responses.py"
_OUTCOME = "sparkapps/icdc_spark/opensearch/wire/item_outcome.py"
_CHANGELOG = "sparkapps/icdc_spark/replication/changelog.py"
_TESTS = "tests/unit/icdc_spark/opensearch"
_COUNTED = (
    "tests/unit/icdc_spark/test_acknowledged.py"
    "::test_each_operation_that_is_counted_took_a_sequence_number"
)
_LOSS = f"{_TESTS}/test_identity.py::test_a_loss_is_said_in_words"
_JUDGED = f"{_TESTS}/test_answers.py::test_an_item_is_judged"
_CONFLICT = f"{_TESTS}/test_conflicts.py::test_a_conflict_is_judged_by_the_versions"

LISTED = (
    Guard(
        kind=GuardKind.IDENTITY,
        name="UUID of the index",
        prevents="An index that somebody created under the name of ours counts as ours.",
        edits=(Edit(_IDENTITY, "if now.uuid != expected_uuid:", "if False:"),),
        tests=(f"{_LOSS}[it is another one]",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="history of the shards",
        prevents="An index that was restored in place is taken for the one that was written.",
        edits=(Edit(_IDENTITY, "if now.shards.histories != recorded.histories:", "if False:"),),
        tests=(f"{_LOSS}[a history is new, however far it has come]",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="sequence numbers of the shards",
        prevents="A shard that lost acknowledged writes is not detected.",
        edits=(Edit(_IDENTITY, "if after < before:", "if False:"),),
        tests=(f"{_LOSS}[a translog was lost]", f"{_LOSS}[a shard is empty]"),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="all shards answered",
        prevents="A node that restarts looks like a lost index, and everything is exported again.",
        edits=(Edit(_IDENTITY, "if len(numbers) < len(recorded.max_seq_nos):", "if False:"),),
        tests=(f"{_TESTS}/test_identity.py::test_an_answer_of_part_of_the_shards_is_no_loss",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="the name is no alias",
        prevents="A batch is written through an alias into an index of somebody else.",
        edits=(
            Edit(
                _RESPONSES,
                "if status < 300 or status == 403 or any(kind in text for kind in _OF_AN_ALIAS):",
                "if False:",
            ),
        ),
        tests=(f"{_TESTS}/test_answers.py::test_a_guard_that_reached_an_alias_is_a_gap",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="the name is no alias of a routed index",
        prevents="Where documents have a routing, an alias is taken for our index.",
        edits=(Edit(_RESPONSES, ', "routing_missing_exception")', ",)"),),
        tests=(f"{_TESTS}/test_answers.py::test_a_guard_that_reached_an_alias_is_a_gap",),
    ),
    Guard(
        kind=GuardKind.IDENTITY,
        name="a missing index is a gap",
        prevents="Deletes from an index that no longer exists count as applied.",
        edits=(Edit(_OUTCOME, 'if kind == "index_not_found_exception":', "if False:"),),
        tests=(_JUDGED,),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="a higher version fences",
        prevents="A run that was replaced counts its lost writes as somebody's edits and advances.",
        edits=(
            Edit(
                _OUTCOME,
                "if current >= base + VERSIONS_PER_ORDINAL and (",
                "if False and (",
            ),
        ),
        tests=(f"{_CONFLICT}[a newer batch]",),
    ),
    Guard(
        kind=GuardKind.VERSION,
        name="our own version is a replay",
        prevents="A repeated batch takes its own documents for somebody else's edits.",
        edits=(Edit(_OUTCOME, "if current == version:", "if False:"),),
        tests=(f"{_CONFLICT}[a replay]",),
    ),
    Guard(
        kind=GuardKind.VERSION,
        name="the second pass is a replay of the first",
        prevents="A repeated batch takes what its second pass wrote for somebody else's edits.",
        edits=(Edit(_OUTCOME, "if current == base + FIXUP_OFFSET:", "if False:"),),
        tests=(f"{_CONFLICT}[a replay, settled by the second pass]",),
    ),
    Guard(
        kind=GuardKind.VERSION,
        name="the second pass outranks the first",
        prevents="A late write of the first pass counts as applied where another row must win.",
        edits=(Edit(_OUTCOME, "if current == version:", "if current in (version, base):"),),
        tests=(f"{_CONFLICT}[the second pass finds the first]",),
    ),
    Guard(
        kind=GuardKind.DEAD_LETTERS,
        name="a fault of the target is no fault of rows",
        prevents="Good rows become dead letters, and their documents are removed.",
        edits=(Edit(_OUTCOME, "if _is_of_the_target(answer):", "if False:"),),
        tests=(
            f"{_TESTS}/test_conflicts.py::test_an_answer_that_no_row_can_cause_stops_the_batch",
        ),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="what an earlier attempt wrote is counted",
        prevents="A loss stays hidden if the run that wrote over it ended before it counted.",
        edits=(Edit(_CHANGELOG, "if self.is_repeated:", "if False:"),),
        tests=(f"{_COUNTED}[repeated after some were written]",),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="rows of one key are counted once",
        prevents="A batch with three rows of one key looks as if the index had lost writes.",
        edits=(
            Edit(_CHANGELOG, "if self.is_repeated:", "if True:"),
            Edit(_CHANGELOG, " - self.duplicates.surplus", ""),
        ),
        tests=(f"{_COUNTED}[three rows of one key]",),
    ),
    Guard(
        kind=GuardKind.COUNTS,
        name="what a second pass followed is not counted",
        prevents="A write that only an old primary had looks as if the index had lost it.",
        edits=(Edit(_CHANGELOG, " - result.settled", ""),),
        tests=(f"{_COUNTED}[repeated after the second pass]",),
    ),
)
