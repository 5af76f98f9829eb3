"""The exit code of a question says whether a person must act, table by table."""

from argparse import Namespace

import pytest

from icdc_api.job.answers import BATCH_UNDER_WAY
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_cli import exits
from icdc_cli.commands import plan_verify
from icdc_cli.exits import Exit
from icdc_cli.options import Output
from icdc_testing.kube.stored_pipelines import make_condition

pytestmark = pytest.mark.unit

FINE = {"name": "shop.a", "reason": None}


def fail(reason: str) -> dict[str, str | None]:
    """Return the entry of a table that has no answer."""
    return {"name": "shop.b", "reason": reason, "message": "no"}


@pytest.mark.parametrize(
    ("tables", "code"),
    [
        ([FINE], Exit.DONE),
        ([], Exit.STALLED),
        ([FINE, fail("SourceUnavailable")], Exit.OUTLASTED),
        ([fail("TargetUnavailable"), fail("Throttled")], Exit.OUTLASTED),
        ([fail(BATCH_UNDER_WAY)], Exit.OUTLASTED),
        ([fail("TableNotFound")], Exit.STALLED),
        ([fail("SourceUnavailable"), fail("Gap")], Exit.STALLED),
        ([fail("NoSuchWord")], Exit.STALLED),
    ],
)
def test_a_table_without_an_answer_calls_a_person_only_if_one_must_act(
    tables: list[dict[str, str | None]], code: Exit
) -> None:
    given = Namespace(output=Output.JSON)
    shown = plan_verify.show_answer(
        {"tables": tables}, given, str, lambda table: bool(table["reason"])
    )
    assert shown is code


@pytest.mark.parametrize(
    ("exported", "suspended", "reason", "end"),
    [
        ("False", "False", "ExportWindow", (Exit.OUTLASTED, "from 22:00")),
        ("False", "True", "ExportWindow", (Exit.DONE, "")),
        # Another export waits, and readers have the one before.
        ("True", "False", "ExportWindow", (Exit.DONE, "")),
        ("True", "False", "NoRun", (Exit.DONE, "")),
    ],
)
def test_a_first_export_that_waits_for_its_window_is_not_done(
    exported: str, suspended: str, reason: str, end: tuple[Exit, str]
) -> None:
    conditions = [
        make_condition("Exported", exported),
        make_condition("Suspended", suspended),
        make_condition("RunActive", "False", reason=reason, message="from 22:00"),
    ]
    status = PipelineStatus.model_validate({"conditions": conditions})
    assert exits.choose_for_end(status) == end
