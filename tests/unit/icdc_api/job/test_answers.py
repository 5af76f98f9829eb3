"""Forms of answers beside what else lists their keys; mypy checks all other uses of a key."""

import pytest

from icdc_api.job import answers, smaller_reports
from icdc_api.job.run_files import TableComparison

pytestmark = pytest.mark.unit

ENTRIES = (
    answers.PlanEntry,
    answers.ComparisonEntry,
    answers.DeadLettersEntry,
    answers.ReplayEntry,
    answers.DeletionEntry,
)


def test_the_operator_reads_the_keys_that_the_driver_writes() -> None:
    read = {field.alias for field in TableComparison.model_fields.values()}

    assert read == set(answers.ComparisonEntry.__annotations__)


def test_what_a_smaller_report_omits_are_keys_of_entries() -> None:
    keys = {key for entry in ENTRIES for key in entry.__annotations__}
    keys |= set(answers.Differences.__annotations__)

    assert set(smaller_reports._DETAILS) <= keys


def test_a_reader_finds_each_key_of_the_form_and_what_else_was_written() -> None:
    entry = answers.fill(answers.ReplayEntry, {"name": "db.orders", "left": 0, "later": 1})

    assert entry == {
        "name": "db.orders",
        "index": None,
        "reason": None,
        "message": None,
        "resent": None,
        "left": 0,
        "samples": None,
        "later": 1,
    }
