"""The values of the column `expect`: which document an operation is expected to find in its index.

The diff sets them, the sink compares them with what OpenSearch answers. One character each, because
a copy is held for every operation of a request. Pure: it must know neither Spark nor OpenSearch.
"""

from enum import StrEnum


class Expect(StrEnum):
    """Which document an operation is expected to find.

    | snapshot S | snapshot E | operation | value | unexpected answer |
    |---|---|---|---|---|
    | no row | a row | index | `c` | 200, updated: another row may have this id |
    | a row | a row | index | `u` | none |
    | a row | no row | delete | `d` | none; 404 means that it was deleted before |
    | a row | a row without a document | none | `r` | not sent: a dead letter |
    | no row | a row without a document | none | `n` | the same |
    """

    CREATED = "c"
    """An index operation; no row of this id was seen in the earlier snapshot."""
    UPDATED = "u"
    """An index operation; a row of this id was seen in the earlier snapshot."""
    DELETED = "d"
    """A delete operation."""
    REFUSED = "r"
    """No operation: the expression of a field fails on the row, which is a dead letter at once."""
    REFUSED_NEW = "n"
    """The same; no row of this id was seen in the earlier snapshot."""
