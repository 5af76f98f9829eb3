"""Recognises changes that the cluster manager has not made yet.

It answers 200 with `acknowledged: false` when half a minute was not enough: the change may be made
later, or never. It must not know what was asked.
"""

from icdc_api.errors import TargetUnavailable


def require_acknowledged(answer: object, what: str) -> None:
    """Raise TargetUnavailable where `answer`, to the change `what`, says that it is not made."""
    # `is False`: an answer without the field is an error body that the caller chose to ignore.
    if isinstance(answer, dict) and answer.get("acknowledged") is False:
        raise TargetUnavailable(
            f"OpenSearch has not finished the {what} in time: its cluster manager is slow. The "
            "request is repeated."
        )
