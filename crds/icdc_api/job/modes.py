"""The modes of an application: words that the command line knows before it loads a specification.

Apart from the request and the report that carry them, whose models take a tenth of a second to
import: each call of `icdc` names modes, few read a request.
"""

from enum import StrEnum

from icdc_api.status.runs import RunKind

PREVIEW_ROWS = 5
"""Rows of a table that a preview shows where nobody says how many."""

MAX_PREVIEW_ROWS = 1000
"""More would be read by nobody, and are in the memory of three processes at once."""


class RunMode(StrEnum):
    """What the application is asked to do."""

    # Words on the wire between an operator and an image that may be of different versions: they
    # stay, as `letters`, when our word for the thing changes.
    RUN = "run"
    """Export or replicate, as each table needs."""
    PLAN = "plan"
    """Report what RUN would do, and write nothing."""
    VERIFY = "verify"
    """Compare index and table, and change nothing."""
    REPAIR = "repair"
    """Compare, and correct the documents that differ."""
    DELETE = "delete"
    """Delete all that the pipeline has created."""
    DEAD_LETTERS = "letters"
    """List the rows that indices refused."""
    REPLAY = "replay"
    """Write the refused rows again."""
    PREVIEW = "preview"
    """Show the documents of some rows; OpenSearch is not asked."""

    @property
    def is_short(self) -> bool:
        """True if such a run reads few rows, or none, and so ends within a minute."""
        return self not in {RunMode.of(kind) for kind in RunKind if kind.needs_executors}

    @classmethod
    def of(cls, kind: RunKind) -> "RunMode":
        """Return the mode in which the application runs for a run of `kind`."""
        # An export and a changelog are one mode: the application finds out what each table needs.
        modes = {
            RunKind.PLAN: cls.PLAN,
            RunKind.VERIFY: cls.VERIFY,
            RunKind.REPAIR: cls.REPAIR,
            RunKind.DEAD_LETTERS: cls.DEAD_LETTERS,
            RunKind.REPLAY: cls.REPLAY,
            RunKind.DELETION: cls.DELETE,
        }
        return modes.get(kind, cls.RUN)
