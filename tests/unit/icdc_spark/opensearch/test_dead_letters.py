"""What may be shown of why an index refused a row."""

import pytest

from icdc_spark.opensearch.stores.dead_letters import without_values

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "failed to parse field [v] of type [long] in document with id 'a'. Preview of field's "
            "value: 'secret'",
            "failed to parse field [v] of type [long]",
        ),
        (
            "mapping set to strict, dynamic introduction of [other] within [_doc] is not allowed",
            "mapping set to strict, dynamic introduction of [other] within [_doc]",
        ),
        (
            'Document contains at least one immense term in field="s" (whose UTF8 encoding is '
            "longer than the max length 32766), all of which were skipped. prefix: '[115, 101]'",
            'Document contains at least one immense term in field="s"',
        ),
        ("object mapping for [a] tried to parse field [b] as object, but found secret",
         "object mapping for [a] tried to parse field [b]"),
        ("Limit of total fields [1000] has been exceeded", "Limit of total fields [1000]"),
        (
            "the expression of the field `a` fails on this row",
            "the expression of the field `a` fails on this row",
        ),
        ("failed to parse date field [secret] with format [x]", ""),
        ("Value [1e400] is out of range for a long", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_reason_is_shown_up_to_where_it_quotes_a_value(reason: str, shown: str) -> None:
    assert without_values(reason) == shown
