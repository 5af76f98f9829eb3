"""What a session is built with."""

import pytest

from icdc_spark import session

pytestmark = pytest.mark.unit

ENTRIES = "spark.sql.codegen.cache.maxEntries"


@pytest.mark.parametrize(
    ("given", "built_with"),
    [
        ({}, {**session.DEFAULT_CONF, **session.APPLICATION_CONF}),
        ({ENTRIES: "7"}, session.APPLICATION_CONF),
        ({"spark.speculation": "true"}, {**session.DEFAULT_CONF, **session.APPLICATION_CONF}),
    ],
    ids=["nothing", "a default of ours", "what the application needs"],
)
def test_what_a_pipeline_says_goes_over_defaults_and_under_what_is_needed(
    given: dict[str, str], built_with: dict[str, str]
) -> None:
    assert session.settings(given) == built_with
