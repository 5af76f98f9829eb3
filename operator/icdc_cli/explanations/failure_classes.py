"""Classes of failures: how a failed run is retried. Each has the docstring of the error of that
name, and a sentence from `icdc_operator.core.retry`, which applies it."""

from icdc_api import errors
from icdc_api.errors import FailureClass, IcdcError
from icdc_cli.explanations import reasons, sources
from icdc_cli.explanations.cures import CURES
from icdc_cli.explanations.entry import Explanation, Family

_ERRORS: dict[FailureClass, type[IcdcError]] = {FailureClass.AUTH: errors.Unauthorized}
"""The error of a class that has another name; else it is the error of the same name."""

_RETRIES = {
    FailureClass.NODE_LOST: "After the third in a row the delays grow. From the eighth on, if "
    "none of them went on for half an hour, the pipeline is Stalled, and retried all the same.",
    FailureClass.FENCED: "It is retried above the other run's epoch; after the third time in an "
    "hour, every retry.maxSeconds.",
    FailureClass.SUBMISSION: "As a rule it is retried every retry.maxSeconds, because its cause is "
    "most often outside of the pipeline, and nothing reports when that has ended.",
    FailureClass.AUTH: "It is retried every retry.maxSeconds, because nothing reports that "
    "credentials or permissions have changed.",
}


def list_failure_classes() -> list[Explanation]:
    """Return all failure classes, in the order of their enum."""
    return [_explain(word) for word in FailureClass]


def _explain(word: FailureClass) -> Explanation:
    kind = _ERRORS.get(word) or getattr(errors, word.value)
    text = sources.read_class("icdc_api", "errors.py", kind.__name__)
    meaning = f"{text} {_describe_retry(word, kind)}{_list_others(word)}"
    return Explanation(
        word.value, Family.FAILURE_CLASS, meaning, kind.who_acts.value, CURES[kind.__name__]
    )


def _describe_retry(word: FailureClass, kind: type[IcdcError]) -> str:
    if word in _RETRIES:
        return _RETRIES[word]
    if kind.retryable:
        return "It is retried with growing delays, at most retry.maxSeconds."
    return "As a rule it is not retried before somebody has acted."


def _list_others(word: FailureClass) -> str:
    """Return which reasons have the class as well; each says by itself who acts."""
    others = [
        kind.__name__
        for kind in reasons.list_errors(IcdcError)
        if kind.failure_class is word and kind.__name__ != word.value
    ]
    return f" Also the class of {', '.join(others)}." if others else ""
