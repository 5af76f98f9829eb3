"""Every guard of the product, by room of its code; `LISTED` is all of them."""

from mutants.guards import operator, protocol, target, wire

LISTED = (*protocol.LISTED, *wire.LISTED, *target.LISTED, *operator.LISTED)
