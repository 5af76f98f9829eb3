"""Decides whether readers can be switched back to the index that they used before.

Example, table orders, served by orders-000002; orders-000001 was left at snapshot 77:

    orders-000001               spec                         answer
    as it was left              asks for the same documents  none: readers are switched back
    as it was left              maps a column otherwise      refused: change it back first
    deleted, or restored        any                          refused: it is not as it was left

One that was left in the middle of a batch equals no snapshot, and is not asked about.
That snapshot 77 has expired is no reason: it is a gap, as with any other index. Must change
nothing: `icdc plan` asks as a run does.
"""

from collections.abc import Callable

from icdc_spark.documents.compatibility import Compatibility, Stored
from icdc_spark.opensearch.stores import identity, indices
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.state_parts import Applied
from icdc_spark.replication.context import TableContext


def find_refusal(
    context: TableContext,
    state: StateDocument,
    compare: Callable[[Stored, Applied], Compatibility],
) -> str | None:
    """Return why not, as a clause; None if they can, or if no earlier index can be used again.

    `compare`: compares documents that an index was made of with those of the present spec; see
    `PresentDocuments`. TargetUnavailable while the index does not answer.
    """
    earlier = state.earlier
    if earlier is None:
        return None
    loss = identity.find_loss_since(earlier, identity.identify(context.client, earlier.index))
    if loss is not None:
        return loss
    mapping = indices.read_mapping(context.client, earlier.index)
    meta = mapping.get("_meta", {})
    if indices.read_ownership(mapping) != context.ownership or "documentSpec" not in meta:
        return f"{earlier.index} no longer says in its mapping's _meta whose it is"
    change = compare(meta["documentSpec"], earlier.applied).reason
    if change is not None:
        return (
            f"the spec asks for other documents than {earlier.index} holds ({change}); change it "
            "back first"
        )
    return None
