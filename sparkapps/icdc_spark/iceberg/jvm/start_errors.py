"""Explain why Spark does not start: a value of `spec.spark.conf`, or an API server without help.

On Kubernetes Spark asks the API server for the driver's own pod before it does anything else. That
it does not answer passes; without a class of its own it would end the pipeline until an edit. Part
of the border in `errors`.

    what Spark raises                             error            then
    a value that a property does not take         BadSpec          the author corrects it
    the API server answers 401 or 403             Unauthorized     retried slowly
    it answers 5xx, or not at all                 StartTimeout     retried with backoff
    it has no such pod                            DriverLost       retried at once
    its executors end as they start               StartTimeout     retried with backoff
    the JVM does not start                        Submission       its options are corrected
    a full disk, no memory, no more threads       `engine_errors`  retried
    anything else                                 Bug
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from icdc_api.errors import (
    Bug,
    DriverLost,
    IcdcError,
    StartTimeout,
    Submission,
    Unauthorized,
)
from icdc_spark.iceberg.jvm import engine_errors
from icdc_spark.iceberg.jvm.error_signs import read_signs
from icdc_spark.iceberg.jvm.source_errors import FOREIGN_ERRORS

_API_ERROR = "KubernetesClientException"
_DENIED = re.compile(r"\bcode=(?:401|403)\b")
"""Part of the Status that the API server answers, as the client of Spark shows it."""
_NO_JVM = "JAVA_GATEWAY_EXITED"
_NO_BACKEND = "Spark context stopped while waiting for backend"
"""What it ends with after too many executors of which none has reached it."""
_NO_POD = "this was supposed to be the driver pod"


@contextmanager
def translate_start_errors() -> Iterator[None]:
    """Raise what fails inside the block, the start of Spark, as an error of the project."""
    try:
        yield
    except FOREIGN_ERRORS as error:
        raise _explain(error) from error


def _explain(error: Exception) -> IcdcError:
    classes, detail, text = read_signs(error)
    setting = engine_errors.find_wrong_setting(text)
    if setting is not None:
        return setting
    loss = engine_errors.find_meaning(classes, text)
    if loss is not None:
        kind, message = loss
        return kind(f"the driver does not start: {message} ({detail})")
    if _NO_POD in text:
        return DriverLost("the pod of the driver was deleted while it started; the run is retried")
    if _NO_BACKEND in text:
        return StartTimeout(
            "the driver does not start, because its executors ended before they reached it, again "
            "and again; the run is retried. Its log has their exit codes; with "
            "spark.kubernetes.executor.deleteOnTermination: 'false' in spec.spark.conf their pods "
            "stay, with their logs"
        )
    if _NO_JVM in text:
        return Submission(
            "the driver does not start, because its JVM does not: its log says why; correct "
            f"spec.spark.driver (memory, template) or the image ({detail})"
        )
    if _API_ERROR not in classes:
        return Bug(f"the driver does not start: {detail}")
    if _DENIED.search(text):
        return Unauthorized(
            "the driver does not start, because the API server does not let it read its own pod: "
            "grant its service account (spec.spark.driver.serviceAccount) the rules of the chart's "
            f"driver-rules.yaml ({detail})"
        )
    return StartTimeout(
        "the driver does not start, because the API server of Kubernetes cannot be reached or "
        f"fails; the run is retried ({detail})"
    )
