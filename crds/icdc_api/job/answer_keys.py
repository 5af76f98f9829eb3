"""The names in a run's answer that more than one program writes or reads.

The driver writes the answer of `plan`, `verify`, `repair`, `replay` and `letters` into its report;
reports are made smaller by both sides, the operator stores a part, the command line prints it. A
name that two of them spelled each by itself could change in one of them alone.

    {"question": "verify-3", "complete": true,
     "tables": [{"name": "shop.orders", "letters": [{"id": "7", "document": "{...}"}]}]}
"""

from typing import Final

QUESTION: Final = "question"
"""The id of the question that a run was asked while it followed its tables; absent for a run that
was started to answer."""
COMPLETE: Final = "complete"
"""True once all tables that were asked have an entry."""
DEAD_LETTERS: Final = "letters"
"""In a table's entry: its dead letters. A word on the wire, as `RunMode`'s."""
DOCUMENT: Final = "document"
"""In a dead letter: the refused document, where it was asked for."""
UNDER_WAY: Final = "BatchUnderWay"
"""In a table's entry, as its `reason`: a batch was open, which has to be finished first, or was
partly in the index, so that its documents are among those that differ."""
