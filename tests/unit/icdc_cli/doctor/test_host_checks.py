"""Each thing that can be wrong with a host is named with its cure, one at a time."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from icdc_api.errors import (
    BadSpec,
    IcdcError,
    SourceUnavailable,
    Submission,
    TableNotFound,
    Unauthorized,
)
from icdc_api.spec.catalog import SecretRef, SecretSource
from icdc_api.spec.indices.fields import FieldEntry
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.secrets import describe_missing_keys
from icdc_api.spec.sink import Tls
from icdc_cli import main
from icdc_cli.doctor.findings import Finding, Result, choose_exit
from icdc_cli.doctor.host import host_checks
from icdc_cli.doctor.host.host_checks import HostFacts
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.table_facts import TableFacts
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

ORDERS = TableFacts(
    columns=("id", "region", "name"), identifiers=("id",), renamed={"number": "id", "title": "name"}
)


def make_source(name: str) -> SecretSource:
    return SecretSource(secret_ref=SecretRef(name=name))


def make_pipeline(**table: object) -> PipelineSpec:
    spec = make_spec("shop.orders")
    changed = spec.tables[0].model_copy(update={"identifier_columns": None, **table})
    opensearch = spec.sink.opensearch.model_copy(
        update={
            "credentials_from": make_source("search"),
            "tls": Tls(ca_from=make_source("search-ca")),
        }
    )
    sink = spec.sink.model_copy(update={"opensearch": opensearch})
    return spec.model_copy(update={"tables": (changed,), "sink": sink})


GOOD = HostFacts(
    source="shop.yaml",
    python="3.12.1",
    jars={"spark": True},
    spec=make_pipeline(),
    secrets={"search": frozenset({"username", "password"}), "search-ca": frozenset({"ca.crt"})},
    tables={"shop.orders": ORDERS},
)


def replace_secrets(**keys: frozenset[str] | IcdcError) -> HostFacts:
    named = {name.replace("_", "-"): value for name, value in keys.items()}
    return replace(GOOD, secrets={**GOOD.secrets, **named})


def replace_table(read: TableFacts | IcdcError, **table: object) -> HostFacts:
    return replace(GOOD, tables={"shop.orders": read}, spec=make_pipeline(**table))


def list_bad(facts: HostFacts) -> list[Finding]:
    return [one for one in host_checks.list_findings(facts) if one.result is not Result.OK]


def test_a_host_on_which_all_is_well_has_no_finding_but_ok() -> None:
    assert list_bad(GOOD) == []


@pytest.mark.parametrize(
    "table",
    [
        {"identifier_columns": ("number",), "routing": ("number",)},
        {"routing": ("number",)},
        {"fields": (FieldEntry(name="*"), FieldEntry(name="who.name", from_="title"))},
        {"fields": (FieldEntry(name="*"), FieldEntry(exclude="title"))},
    ],
)
def test_the_earlier_name_of_a_column_is_as_good_as_its_own(table: dict[str, object]) -> None:
    assert list_bad(replace_table(ORDERS, **table)) == []


@pytest.mark.parametrize(
    ("broken", "result", "check", "observation", "cure"),
    [
        (replace(GOOD, missing_packages=("pyspark",)), "Problem", "Python packages",
         "has no pyspark", "pip install 'iceberg-cdc-operator[operator,spark]'"),
        (replace(GOOD, java=Submission("JDK 17 or 21 is needed")), "Problem", "JDK",
         "JDK 17 or 21 is needed", "openjdk-17"),
        (replace(GOOD, jars={"spark": False}), "Warning", "jars of the set spark",
         "the first run downloads them", "icdc_cli.embedded.jars fetch spark"),
        (replace(GOOD, jars={"spark": False}, can_fetch=False), "Problem", "jars of the set spark",
         "Maven (mvn) is not installed", "install Maven, then python -m"),
        (replace(GOOD, spec=BadSpec("shop.yaml: spec.tables: empty")), "Problem", "spec",
         "spec.tables: empty", "edit shop.yaml"),
        (replace_secrets(search=Unauthorized("cannot be read")), "Problem",
         "Secret search (spec.sink.opensearch.credentialsFrom)", "cannot be read",
         "DIR/search/KEY"),
        (replace_secrets(search=frozenset({"username"})), "Problem",
         "Secret search (spec.sink.opensearch.credentialsFrom)", "has no key password",
         "DIR/search/KEY"),
        (replace_secrets(search_ca=frozenset({"tls.crt"})), "Problem",
         "Secret search-ca (spec.sink.opensearch.tls.caFrom)", "has no key ca.crt",
         "DIR/search-ca/KEY"),
        (replace_table(TableNotFound("shop.orders: the catalog has no such table")), "Problem",
         "table shop.orders", "no such table", "icdc explain TableNotFound"),
        (replace_table(SourceUnavailable("the catalog cannot be read")), "Problem",
         "table shop.orders", "cannot be read", "icdc explain SourceUnavailable"),
        (replace_table(OutOfSight("pyiceberg cannot read it")), "NotChecked", "table shop.orders",
         "pyiceberg cannot read it", "icdc plan -f shop.yaml"),
        (replace_table(ORDERS, branch="audit"), "Problem", "table shop.orders",
         "has no branch 'audit'; it has main", "spec.tables[].branch"),
        (replace_table(ORDERS, identifier_columns=("id", "shop")), "Problem", "table shop.orders",
         "has no column shop", "spec.tables[].identifierColumns"),
        (replace_table(ORDERS, columns=("colour",)), "Problem", "table shop.orders",
         "has no column colour", "spec.tables[].columns, as in the table"),
        (replace_table(ORDERS, columns=("id", "NAME")), "Problem", "table shop.orders",
         "has no column NAME (but name)", "spec.tables[].columns, as in the table"),
        (replace_table(ORDERS, columns=("title",)), "Problem", "table shop.orders",
         "has no column title", "spec.tables[].columns, as in the table"),
        (replace_table(ORDERS, routing=("name",)), "Problem", "table shop.orders",
         "routing names name, not an identifier column (id)", "only columns that identify a row"),
        (replace_table(ORDERS, fields=(FieldEntry(name="title", from_="label"),)), "Problem",
         "table shop.orders", "has no column label", "spec.tables[].fields, as in the table"),
        (replace_table(ORDERS, fields=(FieldEntry(name="*"), FieldEntry(exclude="notes"))),
         "Problem", "table shop.orders", "has no column notes", "spec.tables[].fields, as in"),
        (replace_table(replace(ORDERS, identifiers=())), "Problem", "table shop.orders",
         "no identifier fields", "SET IDENTIFIER FIELDS"),
    ],
)  # fmt: skip
def test_one_broken_thing_is_one_finding_with_its_cure(
    broken: HostFacts, result: str, check: str, observation: str, cure: str
) -> None:
    (finding,) = list_bad(broken)
    assert (finding.result, finding.check) == (result, check)
    assert observation in finding.observation
    assert cure in finding.cure


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (GOOD, 0),
        (replace(GOOD, jars={"spark": False}), 0),
        (replace(GOOD, java=Submission("none")), 1),
        (replace_table(SourceUnavailable("away")), 3),
        (replace(replace_table(SourceUnavailable("away")), java=Submission("none")), 1),
        (replace(GOOD, spec=BadSpec("spec.tables: empty")), 2),
        (replace(GOOD, spec=BadSpec("spec.tables: empty"), java=Submission("none")), 2),
    ],
)
def test_the_exit_code_says_who_acts(facts: HostFacts, code: int) -> None:
    assert choose_exit(host_checks.list_findings(facts)) == code


def test_an_appended_table_needs_no_identifier_and_expressions_are_not_judged() -> None:
    assert list_bad(replace_table(replace(ORDERS, identifiers=()), append_only=True)) == []
    fields = (FieldEntry(name="total", expression="price * n"), FieldEntry(name="n", from_="name"))
    assert list_bad(replace_table(ORDERS, fields=fields)) == []


@pytest.mark.parametrize(
    ("where", "keys", "missing"),
    [
        ("spec.sink.opensearch.credentialsFrom", {"awsRegion"}, ""),
        ("spec.sink.opensearch.credentialsFrom", set(), "key username or password, nor awsRegion"),
        ("spec.catalog.propertiesFrom[0]", {"token"}, ""),
        ("spec.catalog.propertiesFrom[0]", set(), "key at all"),
    ],
)
def test_the_keys_that_a_field_needs(where: str, keys: set[str], missing: str) -> None:
    assert describe_missing_keys(where, frozenset(keys)) == missing


def test_a_host_is_examined_from_a_file(
    pipeline_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(pipeline_file())
    assert main.main(["doctor", "-f", path]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("NotChecked   table shop.orders ") for line in lines)
    assert any("OpenSearch at http://127.0.0.1:1 " in line for line in lines)
    assert lines[-1].startswith("1 Problem, 0 Warning, 1 NotChecked")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "nowhere.yaml"], "there is no file nowhere.yaml"),
        (["shop", "-f", "nowhere.yaml"], "give either NAME"),
        (["--secrets-dir", "s"], "allowed only with -f"),
    ],
)
def test_bad_usage_is_no_finding(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["doctor", *arguments]) == 2
    assert message in capsys.readouterr().err
