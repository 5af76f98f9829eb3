"""Recognises answers that are from a part of an index's shards only.

OpenSearch answers 200 with what it could read: a shard that has no copy just now is missing in
`successful` and not even counted in `failed`. It must not know what was asked.
"""

from icdc_api.errors import TargetUnavailable


def require_all_shards(answer: object, what: str, *, shards: int | None = None) -> None:
    """Raise TargetUnavailable unless `answer` is from every shard, and complete.

    `answer` is the parsed answer of a search, a count or a point in time; `what` names it for the
    message; `shards` is how many there are, where the caller knows.
    """
    counts = answer.get("_shards") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(counts, dict):
        raise TargetUnavailable(f"OpenSearch gave an unexpected answer to the {what}.")
    if answer.get("timed_out"):
        raise TargetUnavailable(
            f"OpenSearch ended the {what} before it was complete (timed_out): raise "
            "search.default_search_timeout of the cluster, if it is set. The request is repeated."
        )
    total, successful = counts.get("total"), counts.get("successful")
    complete = (
        total == successful
        and not counts.get("failed")
        and not answer.get("terminated_early")
        # A shard that was left out of a point in time is not even part of `total`.
        and shards in (None, total)
    )
    if not complete:
        raise TargetUnavailable(
            f"OpenSearch answered the {what} from {successful} of {shards or total} shards; the "
            "request is repeated."
        )
