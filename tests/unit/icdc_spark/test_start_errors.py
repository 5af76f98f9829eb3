"""Why Spark does not start, by what it raises; the API server's answers are in test_starts.py."""

import pytest
from py4j.protocol import Py4JError

from icdc_api.errors import Bug, DriverLost, IcdcError, StartTimeout
from icdc_spark.iceberg.jvm.start_errors import translate_start_errors

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (
            "java.lang.IllegalStateException: Spark context stopped while waiting for backend",
            StartTimeout,
            "its executors ended before they reached it, again and again",
        ),
        ("No pod was found named x; this was supposed to be the driver pod", DriverLost, "deleted"),
        ("java.lang.IllegalStateException: of another kind", Bug, "of another kind"),
    ],
)
def test_a_start_that_fails_says_whether_it_is_tried_again(
    text: str, error: type[IcdcError], said: str
) -> None:
    with pytest.raises(error, match=said), translate_start_errors():
        raise Py4JError(text)
