"""Reasons of conditions, beside those that are also reasons of tables and runs.

Ready and Stalled take over the reason of what has failed, which `reasons` explains. The states of a
run and the results of a comparison have their docstrings.
"""

from icdc_api.errors import WhoActs
from icdc_api.status.runs import RunState
from icdc_cli.explanations import cures, sources
from icdc_cli.explanations.entry import NAMED, NOT_NEEDED, Explanation, Family

_AUTHOR = WhoActs.DATA_ENGINEER.value
_RETRIED = WhoActs.NOBODY.value
_PLATFORM = WhoActs.PLATFORM.value

# Word, conditions, meaning, who acts, cure.
_TEXTS: tuple[tuple[str, str, str, str, tuple[str, ...]], ...] = (
    (
        "InvalidSpec",
        "Ready, Reconciling, Stalled and SpecValid",
        "The spec is wrong by itself; the message names field, value and what is allowed. No run "
        "starts, and an active one goes on.",
        _AUTHOR,
        (cures.EDIT,),
    ),
    (
        "Suspended",
        "Ready, Reconciling, Stalled and Suspended",
        "The pipeline is suspended by spec.suspend, and no run replicates. Progress is retained.",
        NOT_NEEDED,
        (f"{cures.RESUME}  # to end it",),
    ),
    (
        "Suspending",
        "Ready, Reconciling and Suspended",
        "A suspend is requested, and the run ends after its current batch, or after two minutes. "
        "What it had not finished is repeated once the pipeline is resumed.",
        NOT_NEEDED,
        (),
    ),
    ("NotSuspended", "Suspended", "spec.suspend is false.", NOT_NEEDED, ()),
    (
        "Retrying",
        "Ready",
        "The last attempt failed by a fault that may pass. The message has its class and cause, "
        "and status.nextAttemptTime the time of the next attempt.",
        _RETRIED,
        (cures.STATUS, cures.LOGS),
    ),
    (
        "Exporting",
        "Ready and Reconciling",
        "The first export of at least one table is not finished.",
        NOT_NEEDED,
        (f"{cures.STATUS}  # how far each export is",),
    ),
    (
        "NewGeneration",
        "Ready and Reconciling",
        "The spec was changed, and no run of the new one has reported every table yet.",
        NOT_NEEDED,
        (f"{cures.PLAN}  # what it waits for, if it is slow",),
    ),
    ("UpToDate", "Reconciling", "The spec is in effect for every table.", NOT_NEEDED, ()),
    (
        "Stalled",
        "Reconciling",
        "Nothing is in progress, because the condition Stalled is True; its message says why.",
        NAMED,
        (cures.STATUS,),
    ),
    (
        "Streaming",
        "Ready",
        "Every table is exported and followed, whatever its lag.",
        NOT_NEEDED,
        (),
    ),
    ("Complete", "Ready", "Every table is exported, and spec.mode is ExportOnly.", NOT_NEEDED, ()),
    (
        "TableStalled",
        "Ready and Stalled",
        "At least one table waits for a person; the message names table and reason. The other "
        "tables go on.",
        NAMED,
        (f"{cures.STATUS}  # then icdc explain with the reason of the table",),
    ),
    ("Working", "Stalled", "Nothing waits for a person.", NOT_NEEDED, ()),
    (
        "AddingFinalizer",
        "Reconciling",
        "With deletionPolicy DeleteIndices the operator adds its finalizer before the first run. "
        "If this stays, it has no permission to patch pipelines.",
        _PLATFORM,
        (cures.RIGHTS,),
    ),
    (
        "Deleting",
        "Ready, Reconciling and Stalled",
        "The pipeline is being deleted, and a run deletes its indices first. The message says what "
        "it waits for.",
        NAMED,
        (cures.STATUS, f"{cures.RETAIN}  # to end it without deleting the indices"),
    ),
    (
        "IndicesDeleted",
        "Ready",
        "The indices of a deleted pipeline are deleted; the pipeline goes next.",
        NOT_NEEDED,
        (),
    ),
    (
        "IndicesRetained",
        "Ready",
        "The pipeline is removed without deleting its indices. The message says why, and how to "
        "delete them by hand.",
        _AUTHOR,
        ("curl 'SEARCH/_cat/indices/INDEX-*'  # what is left",),
    ),
    (
        "Valid",
        "SpecValid",
        "The spec is accepted. The message may hold cautions.",
        NOT_NEEDED,
        (),
    ),
    ("Exported", "Exported", "Readers of every index see a whole snapshot.", NOT_NEEDED, ()),
    (
        "NotExported",
        "Exported",
        "The message names the tables whose first export is not finished.",
        NOT_NEEDED,
        (cures.STATUS,),
    ),
    ("NoRun", "RunActive", "No run is active, and none is queued.", NOT_NEEDED, ()),
    (
        "Queued",
        "RunActive",
        "A run is due and waits because of a limit of active runs; the message has its position.",
        NOT_NEEDED,
        ("kubectl get icdc --all-namespaces  # which pipelines have a run",),
    ),
    (
        "ExportWindow",
        "RunActive",
        "No run is active, and an export waits for sink.opensearch.limits.exportWindow.",
        NOT_NEEDED,
        (cures.edit("sink.opensearch.limits.exportWindow", "another time, or empty to begin now"),),
    ),
    ("CaughtUp", "CaughtUp", "Every index equals the newest known snapshot.", NOT_NEEDED, ()),
    (
        "Behind",
        "CaughtUp",
        "The message names the tables with snapshots that are not applied yet.",
        NOT_NEEDED,
        (cures.STATUS,),
    ),
    (
        "NotReported",
        "CaughtUp and SnapshotsPinned",
        "No run has reported yet, so nothing is known; or nothing is heard of the driver any more "
        "that reported last.",
        NOT_NEEDED,
        (f"{cures.STATUS}  # whether a driver does not respond", cures.PLAN),
    ),
    (
        "Pinned",
        "SnapshotsPinned",
        "A tag keeps the applied snapshot of every table from being expired.",
        NOT_NEEDED,
        (),
    ),
    (
        "NotPinned",
        "SnapshotsPinned",
        "For the tables in the message no tag could be set. If their applied snapshot expires, "
        "there is a gap.",
        _PLATFORM,
        (f"{cures.STATUS} -o json  # pinMessage of each table says what is missing",),
    ),
    (
        "Never",
        "SnapshotsPinned",
        "spec.changelog.pinSnapshots is Never, so no tag is set.",
        NOT_NEEDED,
        (cures.edit("changelog.pinSnapshots", "Auto, to have tags"),),
    ),
    ("None", "DeadLetters", "No index refuses a row.", NOT_NEEDED, ()),
    (
        "Refused",
        "DeadLetters",
        "An index refuses rows. They are stored in INDEX-dead-letters, and are not in the index.",
        _AUTHOR,
        (cures.DEAD_LETTERS, cures.REPLAY),
    ),
    ("Unique", "Duplicates", "No key is known to occur in more than one row.", NOT_NEEDED, ()),
    (
        "Found",
        "Duplicates",
        "A key occurs in more than one row of a table, and one of these rows is its document. "
        "status.tables[].duplicates has the number of such keys, and some of them.",
        _AUTHOR,
        cures.DUPLICATES,
    ),
    (
        "Pending",
        "Verified",
        "A comparison is requested and has no answer yet.",
        NOT_NEEDED,
        (cures.STATUS,),
    ),
    (
        "Overdue",
        "Verified",
        "The last comparison of a table is older than spec.verify.every promises. The next one "
        "is queued or waits for the end of a run, or replication fails.",
        _AUTHOR,
        (f"{cures.STATUS}  # what runs, waits or fails", cures.VERIFY),
    ),
)
_RESULTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Equal": (NOT_NEEDED, ()),
    "Repaired": (NOT_NEEDED, (f"{cures.VERIFY}  # to compare them again",)),
    "Different": (_AUTHOR, (cures.VERIFY, cures.REPAIR)),
    "NotVerified": (NAMED, (cures.VERIFY,)),
}
"""Who acts on each result of a comparison, and the cure."""


def list_condition_reasons() -> list[Explanation]:
    """Return all reasons of conditions that are not the reason of a failure."""
    entries = [
        Explanation(word, Family.CONDITION_REASON, _join(kinds, text), who, cure)
        for word, kinds, text, who, cure in _TEXTS
    ]
    states = sources.read_members("icdc_api", "status/runs.py", RunState.__name__)
    for state in RunState:
        # A run that has ended is no longer the current run, of which RunActive is.
        if not state.finished:
            text = _join("RunActive", states[state.value])
            entries.append(_explain(state.value, text, NOT_NEEDED, (cures.LOGS,)))
    path = "core/asked/verification.py"
    results = sources.read_members("icdc_operator", path, "ComparisonResult")
    for word, text in results.items():
        entries.append(_explain(word, _join("Verified", text), *_RESULTS[word]))
    return entries


def _explain(word: str, meaning: str, who: str, cure: tuple[str, ...]) -> Explanation:
    return Explanation(word, Family.CONDITION_REASON, meaning, who, cure)


def _join(kinds: str, text: str) -> str:
    return f"Of {kinds}: {text}"
