"""Every guard of the product, by room of its code; `LISTED` is all of them."""

from icdc_testing.mutants.guards import application, operator, protocol, target, wire

LISTED = (*protocol.LISTED, *wire.LISTED, *target.LISTED, *application.LISTED, *operator.LISTED)
