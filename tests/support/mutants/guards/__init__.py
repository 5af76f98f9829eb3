"""Every guard of the product, by room of its code; `LISTED` is all of them."""

from mutants.guards import operator, protocol, wire

LISTED = (*protocol.LISTED, *wire.LISTED, *operator.LISTED)
