"""The exit code of a question says whether a person must act, table by table."""

from argparse import Namespace

import pytest

from icdc_api.job.answers import BATCH_UNDER_WAY
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_cli import exits
from icdc_cli.commands import plan_verify
from icdc_cli.exits import Exit
from icdc_cli.options import Output
from icdc_cli.tables import answer_tables
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


COST = {"cpuSeconds": [0.5, 1234.5], "seconds": [0.2, 800.0]}


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        pytest.param({"estimate": None}, None, id="nothing to do"),
        pytest.param({}, None, id="a driver that does not estimate"),
        pytest.param(
            {"estimate": COST},
            "estimate: 0.5 to 1,234.5 CPU s, 0.2 to 800.0 s",
            id="an export",
        ),
        pytest.param(
            {"estimate": COST, "exportEstimate": COST, "tableRows": 7, "cheaper": "Changelog"},
            "estimate: 0.5 to 1,234.5 CPU s, 0.2 to 800.0 s; an export of 7 rows instead: "
            "0.5 to 1,234.5 CPU s; cheaper: Changelog",
            id="changes",
        ),
        pytest.param(
            {"estimate": COST, "exportEstimate": COST, "tableRows": 7, "cheaper": None},
            "estimate: 0.5 to 1,234.5 CPU s, 0.2 to 800.0 s; an export of 7 rows instead: "
            "0.5 to 1,234.5 CPU s; cheaper: depends on how many rows differ",
            id="either may be cheaper",
        ),
        pytest.param({"estimate": {"cpu": 3}}, "estimate: - CPU s, - s", id="another form"),
    ],
)
def test_a_plan_says_below_its_tables_what_each_step_may_cost(
    entry: dict[str, object], line: str | None
) -> None:
    below = answer_tables.format_plan({"tables": [FINE | entry]}).splitlines()[2:]
    assert below == ([] if line is None else [f"shop.a: {line}"])


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
