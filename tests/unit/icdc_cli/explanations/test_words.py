"""Every word that the product can show is explained, and no other."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

import icdc_api
import icdc_cli
import icdc_operator
import icdc_spark
from icdc_api import errors
from icdc_api.errors import FailureClass, IcdcError, WhoActs
from icdc_api.job.answers import BATCH_UNDER_WAY
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableReason
from icdc_api.status.runs import RunState
from icdc_cli.explanations import alerts, lookup, metrics, sources
from icdc_cli.explanations.alerts import Alert
from icdc_cli.explanations.entry import NAMED, NOT_NEEDED, Explanation, Family
from icdc_operator.cluster import operator_process, runs
from icdc_operator.cluster.kube.api_errors import NotFound
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import WorkQueue
from icdc_operator.cluster.runs import creation, pod_failures
from icdc_operator.core import conditions, events
from icdc_operator.core.asked.verification import ComparisonResult
from icdc_operator.core.conditions import deleting
from icdc_testing.kube.charts.files import OPERATOR

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "words.md"
ACTORS = {*(who.value for who in WhoActs), NOT_NEEDED, NAMED}


def list_words(family: Family) -> list[str]:
    return [entry.word for entry in lookup.list_all() if entry.family is family]


def list_arguments(folder: Path, called: str, position: int) -> Iterator[ast.expr]:
    """Yield one argument of each call of a function, in all modules of a folder or in one."""
    paths = sorted(folder.glob("*.py")) if folder.is_dir() else [folder]
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == called:
                yield node.args[position] if position < len(node.args) else node.args[-1]


def split_literals(arguments: Iterator[ast.expr]) -> tuple[set[str], set[str]]:
    """Return the words that stand in the code, and the expressions that give others."""
    literals: set[str] = set()
    expressions: set[str] = set()
    for node in arguments:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            literals.add(node.value)
        else:
            expressions.add(ast.unparse(node))
    return literals, expressions


def list_error_names(kind: type[IcdcError] = IcdcError) -> Iterator[str]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below.__name__
            yield from list_error_names(below)


def find_folder(package: object) -> Path:
    return Path(str(vars(package)["__file__"])).parent


def test_every_reason_of_a_table_or_run_is_explained_and_no_other() -> None:
    groups = {"PassingError", "TableError", "RunError"}
    exact, computed = split_literals(list_arguments(find_folder(runs), "build_failure", 1))
    # What these stand for is listed below; another expression needs a look at its words.
    assert computed == {"reason", "name", "state.reason"}
    of_pods = {
        *pod_failures._IMAGE_REASONS,
        *pod_failures._SPEC_REASONS,
        *pod_failures._NOT_STARTED,
        *pod_failures._TAKEN_SIGNALS.values(),
        # Of the pod's conditions, where Kubernetes gives no more exact word.
        *("DisruptionTarget", "Unschedulable", "SchedulingGated"),
    }
    refused = {kind.__name__ for kind in creation.REFUSED if kind is not NotFound}
    assert set(list_words(Family.REASON)) == (
        {reason.value for reason in TableReason}
        | (set(list_error_names()) - groups)
        | (exact | of_pods | refused | {BATCH_UNDER_WAY})
    )


def test_every_failure_class_is_explained_and_no_other() -> None:
    assert list_words(Family.FAILURE_CLASS) == [one.value for one in FailureClass]


def test_every_condition_is_explained_and_no_other() -> None:
    assert list_words(Family.CONDITION) == [one.value for one in ConditionType]


def test_every_reason_of_a_condition_is_explained_and_no_other() -> None:
    words, computed = split_literals(list_arguments(find_folder(conditions), "Claim", 1))
    # A failure's reason, or that of another condition; what the others give is added below.
    passed_on = {"failure.reason", "stalled.reason", "reconciling.reason"}
    denied = {"*_describe_denial(view.observed.denied)"}
    added = {"REASON_DELETING", "reason", "run.state.value", "result.value"}
    assert computed == passed_on | denied | added
    assert set(list_words(Family.CONDITION_REASON)) == (
        words
        | deleting.REASONS
        # Of `reason` in `claim_ready`.
        | {"Complete", "Streaming"}
        | {state.value for state in RunState if not state.finished}
        | {result.value for result in ComparisonResult}
    )


def test_every_state_of_a_run_is_explained_once() -> None:
    ended = {state.value for state in RunState if state.finished}
    assert set(list_words(Family.RUN_STATE)) == ended
    assert not ended & set(list_words(Family.CONDITION_REASON))


def test_every_event_is_explained_and_no_other() -> None:
    path = Path(str(events.__file__))
    words, computed = split_literals(list_arguments(path, "Event", 0))
    assert computed == {"reason", "now.reason"}
    results = {word for word, _ in events._EVENT_BY_RESULT.values()}
    ends = {deleting.REASON_DELETED, deleting.REASON_RETAINED}
    assert set(list_words(Family.EVENT)) == words | results | ends


def read_alerts() -> dict[str, str]:
    """Return the text of each alert of the chart, by its name."""
    text = (OPERATOR / "templates" / "alerts.yaml").read_text(encoding="utf-8")
    parts = re.split(r"- alert: (\w+)\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_alert_of_the_chart_is_explained_and_no_other() -> None:
    assert list_words(Family.ALERT) == list(read_alerts())


@pytest.mark.parametrize("alert", alerts.ALERTS, ids=lambda alert: alert.word)
def test_an_alert_watches_what_is_said_and_leads_to_its_part_of_the_page(alert: Alert) -> None:
    text = read_alerts()[alert.word]
    (expression,) = re.findall(r"expr: (.*)", text)
    assert re.search(rf"\b{alert.metric}\b", expression)
    assert alert.metric in list_words(Family.METRIC)
    assert f'"%s#{alert.word.lower()}"' in text
    assert f"\n### {alert.word}\n" in PAGE.read_text(encoding="utf-8")


def test_the_chart_leads_to_the_page_of_the_alerts() -> None:
    values = yaml.safe_load((OPERATOR / "values.yaml").read_text(encoding="utf-8"))
    assert ROOT / values["metrics"]["prometheusRule"]["runbookUrl"] == PAGE


def test_the_page_is_that_of_the_explanations() -> None:
    command = [sys.executable, "tools/generated/words_page.py", "--check"]
    subprocess.run(command, cwd=ROOT, check=True)


def test_every_metric_is_explained_with_its_help_and_no_other() -> None:
    explained = {one.word: one.meaning for one in lookup.list_all() if one.family is Family.METRIC}
    of_operator = Metrics()
    of_operator.follow_queue(WorkQueue(lambda: 0.0))
    created = {
        f"{family.name}{'_total' if family.type == 'counter' else ''}": family.documentation
        for family in of_operator.registry.collect()
    }
    assert {name: text for name, text in explained.items() if name in created} == created
    # Those that show a part of the process are created by it alone.
    text = Path(str(operator_process.__file__)).read_text(encoding="utf-8")
    assert set(explained) - set(created) == set(re.findall(r'"(icdc_[a-z_]+)"', text))


def test_type_and_labels_of_a_metric_are_read_as_the_client_library_has_them() -> None:
    read = metrics.read_metrics()
    created = [one for one in vars(Metrics()).values() if isinstance(one, MetricWrapperBase)]
    assert len(created) > 20
    for one in created:
        (family,) = one.describe()
        ending = "_total" if family.type == "counter" else ""
        assert read[f"{family.name}{ending}"] == (
            family.documentation,
            family.type,
            one._labelnames,
        )


def test_no_other_module_creates_a_metric() -> None:
    created: set[str] = set()
    for package in (icdc_api, icdc_cli, icdc_operator, icdc_spark):
        folder = find_folder(package)
        for path in sorted(folder.rglob("*.py")):
            inside = path.relative_to(folder).as_posix()
            created |= set(sources.read_metrics(package.__name__, inside))
    assert created == set(list_words(Family.METRIC))


@pytest.mark.parametrize("family", list(Family))
def test_no_word_is_explained_twice_in_a_family(family: Family) -> None:
    words = list_words(family)
    assert words
    assert len(words) == len(set(words))


@pytest.mark.parametrize("entry", lookup.list_all(), ids=lambda one: f"{one.family}-{one.word}")
def test_an_explanation_says_what_it_means_who_acts_and_what_to_do(entry: Explanation) -> None:
    assert entry.meaning.endswith(".")
    assert len(entry.meaning) < 500
    assert entry.who_acts in ACTORS
    acts = entry.who_acts not in (NOT_NEEDED, WhoActs.NOBODY.value)
    assert entry.cure or not acts
    assert entry.cure or entry.advice
