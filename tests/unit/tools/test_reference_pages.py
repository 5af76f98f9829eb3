"""Pages made from code: commands with their arguments and exit codes, metrics and alerts."""

import pytest

import commands_page
import documents_page
import metrics_page
from icdc_api.errors import UnsupportedType
from icdc_cli.exits import Exit
from icdc_cli.explanations.alerts import ALERTS
from icdc_spark.documents import forms
from icdc_spark.documents.schema import walk_fields
from icdc_testing.lake.document_examples import VALUES, ValueExample, build_schema

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def commands() -> list[str]:
    return commands_page.render_page().splitlines()


@pytest.mark.parametrize("code", Exit)
def test_every_exit_code_is_explained(code: Exit, commands: list[str]) -> None:
    (row,) = [line for line in commands if line.startswith(f"| {code.value} | ")]
    assert row.endswith(". |")


@pytest.mark.parametrize(
    "line",
    [
        # Commands below others, and arguments that may be left out.
        "## icdc dead-letters replay",
        "icdc plan [NAME]",
        "icdc pause NAME",
        "| `-v` `--verbose` | say more, and show tracebacks of errors |",
        # A required option; a default in the help; one that the help does not have.
        "| `-f` `--filename` `PIPELINE.yaml` | the pipeline, - for standard input; ${ENV} in its "
        "property values is replaced (required) |",
        "| `--rows` `N` | rows of each table, at most 1000 (default: 5) |",
        "| `--workers` `WORKERS` | pipelines that are reconciled at the same time (default: 8) |",
        "| `--leader-elect` `--no-leader-elect` | work only while holding a Lease; for more than "
        "one replica |",
    ],
)
def test_a_command_is_shown_with_its_arguments(line: str, commands: list[str]) -> None:
    assert line in commands


def test_every_alert_has_a_row_without_anything_of_helm() -> None:
    rules = list(metrics_page.read_rules())
    assert [rule.name for rule in rules] == [alert.word for alert in ALERTS]
    for rule in rules:
        assert "{{" not in rule.expression
        assert rule.severity in {"critical", "warning"}


@pytest.mark.parametrize(
    ("name", "expression", "duration"),
    [
        (
            "IcebergCDCPipelineLags",
            "icdc_lag_seconds > 3600 unless on (namespace, name) "
            'icdc_pipeline_condition{type="Suspended",status="True"} == 1',
            "15m",
        ),
        ("IcebergCDCPipelineFailing", "icdc_consecutive_failures > 3", ""),
        (
            "IcebergCDCOperatorBehind",
            'max(icdc_queue_oldest_seconds{namespace="NAMESPACE",pod=~"PODS"}) > 60',
            "10m",
        ),
    ],
)
def test_values_of_the_chart_stand_in_expressions(
    name: str, expression: str, duration: str
) -> None:
    (rule,) = [rule for rule in metrics_page.read_rules() if rule.name == name]
    assert (rule.expression, rule.duration) == (expression, duration)


def test_the_page_of_documents_has_every_type_that_has_a_form() -> None:
    shown = build_schema([example.kind for example in VALUES])
    types = {
        getattr(entry.type, "name", "") for top in shown.fields for _, entry in walk_fields(top)
    }
    assert types - {""} == {*forms._FORMS, "decimal"}


@pytest.mark.parametrize("example", VALUES, ids=lambda one: f"{one.name or one.kind} {one.value}")
def test_an_example_has_an_id_where_its_type_may_be_a_key(example: ValueExample) -> None:
    documents_page.resolve_example(example, as_key=False)
    if example.identifier is None:
        with pytest.raises(UnsupportedType):
            documents_page.resolve_example(example, as_key=True)
    else:
        documents_page.resolve_example(example, as_key=True)
