"""Decides whether readers can be switched back to the index that they used before.

Example, table orders, served by orders-000002; orders-000001 was left at snapshot 77:

    orders-000001               spec                         answer
    as it was left              asks for the same documents  none: readers are switched back
    as it was left              maps a column otherwise      refused: change it back first
    deleted, or restored        any                          refused: it is not as it was left
    left amid a batch           any                          refused: it equals no snapshot

That snapshot 77 has expired is no reason: it is a gap, as with any other index. Must change
nothing: `icdc plan` asks as a run does.
"""

from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.opensearch.stores import identity, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.replication.context import TableContext


def find_refusal(context: TableContext, stored: Stored, documents: DocumentSpec) -> str | None:
    """Return why not, as a clause; None if they can, or if no earlier index is recorded.

    `documents`: those of the present spec. TargetUnavailable while the index does not answer.
    """
    state = stored.document
    if not state.retained:
        return None
    earlier = state.retained[-1]
    if earlier.problem is not None:
        return f"{earlier.index} cannot be used again, because {earlier.problem}"
    now = identity.identify(context.client, earlier.index)
    is_restored = now is not None and state.store_history not in (None, now.store_history)
    # A copy may be of a time at which that index was last used, and written again since.
    if is_restored or not stored.is_original:
        return "the state document was restored from a copy, or does not fit the index"
    loss = identity.find_loss_since(earlier, now)
    if loss is not None:
        return loss
    mapping = indices.read_mapping(context.client, earlier.index)
    meta = mapping.get("_meta", {})
    if indices.read_ownership(mapping) != context.ownership or "documentSpec" not in meta:
        return f"{earlier.index} no longer says in its mapping's _meta whose it is"
    change = documents.compare_with_stored(meta["documentSpec"]).reason
    if change is not None:
        return (
            f"the spec asks for other documents than {earlier.index} holds ({change}); change it "
            "back first"
        )
    return None
