"""Reasons of Events, as `icdc_operator.core.events` derives them from two statuses."""

from icdc_api.errors import WhoActs
from icdc_cli.explanations import cures
from icdc_cli.explanations.entry import NAMED, NOT_NEEDED, Explanation, Family

_AUTHOR = WhoActs.DATA_ENGINEER.value
_RETRIED = WhoActs.NOBODY.value
_SEARCH_ADMIN = WhoActs.SEARCH_ADMIN.value

_TEXTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "SpecAccepted": (
        "The spec of a new generation is valid. As a warning, its message holds cautions: what is "
        "allowed, but hardly wanted.",
        NOT_NEEDED,
        (),
    ),
    "SpecInvalid": (
        "The spec of a new generation is wrong, and no run starts until it is corrected.",
        _AUTHOR,
        (cures.EDIT,),
    ),
    "Suspended": (
        "A requested suspend is reached. Progress is retained.",
        NOT_NEEDED,
        (f"{cures.RESUME}  # to end it",),
    ),
    "Resumed": ("The pipeline is no longer suspended, and goes on.", NOT_NEEDED, ()),
    "RunPlanned": ("A run is recorded and is created next.", NOT_NEEDED, ()),
    "RunStarted": ("The driver of a run has started.", NOT_NEEDED, (cures.LOGS,)),
    "RunSucceeded": ("A run has ended well, or as it was asked to.", NOT_NEEDED, ()),
    "RunFailed": (
        "A run has failed; the message has its failure class and cause. Without a RunRetrying "
        "after it, it is not retried before somebody acts.",
        NAMED,
        (cures.STATUS, cures.LOGS),
    ),
    "RunRetrying": (
        "The failed run is retried at once, or at the time in the message.",
        _RETRIED,
        (),
    ),
    "ExportStarted": (
        "A table is exported for the first time. Readers find its index once it is complete.",
        NOT_NEEDED,
        (),
    ),
    "ResyncRequested": (
        "spec.resync.nonce was raised, and a run is planned for it. The message has the mode and "
        "the tables that count for this request.",
        NOT_NEEDED,
        (),
    ),
    "Gap": (
        "The changes since the applied snapshot are lost, and the table is exported again: the "
        "snapshot expired, or the table or the index was replaced. Where changelog.onGap is Stop, "
        "the event is TableStalled instead.",
        _AUTHOR,
        (f"{cures.STATUS}  # how far the export is",),
    ),
    "Reexporting": (
        "A table is exported to a new index; the message says why. Readers stay where they are "
        "until it is complete.",
        NOT_NEEDED,
        (),
    ),
    "ExportWaits": (
        "Nothing but exports is due, and they wait for sink.opensearch.limits.exportWindow.",
        NOT_NEEDED,
        (),
    ),
    "ExportCompleted": ("All rows of a table are in its index.", NOT_NEEDED, ()),
    "ExportRepeated": (
        "The new index of a table did not hold what was written into it: documents were missing, "
        "were too many, or differed from their rows. Readers never saw it. The export is repeated "
        "once; if the next index differs as well, the table stalls as TargetInvalid.",
        _SEARCH_ADMIN,
        (f"{cures.LOGS}  # the line with 'is not as written' says what differed",),
    ),
    "TableStalled": (
        "A table does not advance; the message has its reason and who acts. The other tables go "
        "on.",
        NAMED,
        (f"{cures.STATUS}  # then icdc explain with the reason",),
    ),
    "TableResumed": ("A table is no longer stalled.", NOT_NEEDED, ()),
    "AliasMoved": (
        "Somebody moved or removed the alias of a table. It is restored, but most likely the same "
        "program will do it again.",
        _SEARCH_ADMIN,
        ("curl SEARCH/_alias/INDEX  # where it points now",),
    ),
    "RolledBack": (
        "Readers of a table see the previous index again, as spec.resync asked for. The table goes "
        "on from the snapshot that this index equals.",
        NOT_NEEDED,
        (f"{cures.ROLLBACK}  # to return to the other index",),
    ),
    "DeadLetters": (
        "An index refuses more rows than before. They are stored in INDEX-dead-letters.",
        _AUTHOR,
        (cures.DEAD_LETTERS, cures.REPLAY),
    ),
    "Verified": ("Index and table were compared, and were equal.", NOT_NEEDED, ()),
    "Repaired": (
        "Index and table differed, and every document that differed was repaired.",
        NOT_NEEDED,
        (f"{cures.VERIFY}  # to compare them again",),
    ),
    "DifferencesFound": (
        "Index and table differ; the message has the counts of each table.",
        _AUTHOR,
        (cures.VERIFY, cures.REPAIR),
    ),
    "NotVerified": (
        "Index and table could not be compared; the message says why.",
        NAMED,
        (cures.VERIFY,),
    ),
    "IndicesDeleted": ("The indices of a deleted pipeline are deleted.", NOT_NEEDED, ()),
    "IndicesRetained": (
        "A pipeline is removed without deleting its indices. The message says why, and how to "
        "delete them by hand.",
        _AUTHOR,
        ("curl 'SEARCH/_cat/indices/INDEX-*'  # what is left",),
    ),
}


def list_events() -> list[Explanation]:
    """Return all reasons of Events."""
    return [Explanation(word, Family.EVENT, *texts) for word, texts in _TEXTS.items()]
