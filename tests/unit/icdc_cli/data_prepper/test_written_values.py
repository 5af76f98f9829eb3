"""`icdc convert data-prepper`: values are those of the file, and no credential is printed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_cli import main

pytestmark = pytest.mark.unit

HIDDEN = "hunter2"
Printed = pytest.CaptureFixture[str]
PIPELINE = """
{name}:
  source:
    iceberg:
      catalog: {catalog}
      tables: [{{table_name: shop.orders, identifier_columns: {columns}}}]
      {more}
  sink: [{{opensearch: {{hosts: ["https://search:9200"], index: orders}}}}]
"""


def convert(directory: Path, text: str = PIPELINE, **values: str) -> int:
    path = directory / "f.yaml"
    defaults = {"name": "orders", "catalog": "{type: rest}", "columns": "[id]", "more": ""}
    path.write_text(text.format(**{**defaults, **values}), encoding="utf-8")
    return main.main(["convert", "data-prepper", str(path)])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, HIDDEN) for name in ("token", "credential", "jdbc.password", "s3.sse.key")),
        *((name, HIDDEN) for name in ("s3.secret-access-key", "s3.access-key-id", "header.Cookie")),
        *((name, HIDDEN) for name in ("oauth2.assertion", "client.credentials-provider.secret")),
        *((name, HIDDEN) for name in ("adls.connection-string.lake", "gcs.encryption-key")),
        *((name, HIDDEN) for name in ("header.X-Any", "rest.auth.basic.username", "jdbc.user")),
        ("uri", f"https://me:{HIDDEN}@catalog:8181/a"),
        ("uri", f"https://{HIDDEN}@catalog:8181/a"),
        ("uri", f"jdbc:postgresql://db/lake?user=me&password={HIDDEN}"),
        ("uri", f"jdbc:oracle:thin:scott/{HIDDEN}@//db:1521/lake"),
        ("uri", f"https://lake/iceberg?pw={HIDDEN}"),
        ("uri", f"https://lake.blob.example/c?sv=1&sig={HIDDEN}"),
        ("other", f"Bearer {HIDDEN}"),
        ("other", "${{aws_secrets:hunter2:key}}"),
    ],
)
def test_no_credential_is_repeated(
    name: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = yaml.safe_dump({"type": "rest", name: value}, default_flow_style=True, width=999)
    assert convert(tmp_path, catalog=catalog) == 0
    printed = capsys.readouterr()
    assert HIDDEN not in printed.out + printed.err
    assert f"--from-literal={name}=…" in printed.out
    assert yaml.safe_load(printed.out)["spec"]["catalog"]["properties"] == {"type": "rest"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token-refresh-enabled", "true"),
        ("client.credentials-provider", "a.B"),
        ("header.X-Iceberg-Access-Delegation", "vended-credentials"),
        ("warehouse", "abfss://files@lake.dfs.example/w"),
        ("uri", "https://auth.example.org:8181/a?warehouse=b"),
        ("oauth2-server-uri", "https://login.example.org/oauth2/token"),
        ("scope", "PRINCIPAL_ROLE:ALL"),
    ],
)
def test_what_is_no_credential_stays_in_the_properties(
    name: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(tmp_path, catalog=f"{{type: rest, {name}: '{value}'}}") == 0
    catalog = yaml.safe_load(capsys.readouterr().out)["spec"]["catalog"]
    assert catalog == {"properties": {"type": "rest", name: value}}


@pytest.mark.parametrize(
    "values",
    [
        {"catalog": f'"credential={HIDDEN}"'},
        {"catalog": f"{{type: rest, s3: {{secret-access-key: {HIDDEN}}}}}"},
        {"catalog": f"{{type: rest, token: [{HIDDEN}]}}"},
        {"catalog": f"{{type: rest, token: *{HIDDEN}}}"},
        {"columns": f"[{{password: {HIDDEN}}}]"},
        {"columns": f"{{password: {HIDDEN}}}"},
        {"text": "orders: {{source: password=hunter2}}"},
        {"text": "orders: {{source: {{iceberg: hunter2}}}}"},
        {"text": "orders: {{source: {{iceberg: {{}}}}, sink: hunter2}}"},
        {"text": "orders: {{source: {{iceberg: {{}}}}, sink: [{{opensearch: hunter2}}]}}"},
    ],
)
def test_no_refusal_repeats_a_credential(
    values: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(tmp_path, **values) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert HIDDEN not in printed.err


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("012345670123", "012345670123"),
        ("12:30:00", "12:30:00"),
        ("1.10", "1.10"),
        ("1_000", "1_000"),
        ("True", "True"),
        ("on", "on"),
        ("y", "y"),
        ("1e3", "1e3"),
        ("0o17", "0o17"),
        ("2024-03-15", "2024-03-15"),
        ("'~'", "~"),
        ("~", None),
        ("", None),
    ],
)
def test_a_property_has_the_text_that_the_file_has(
    written: str, expected: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(tmp_path, catalog=f"{{type: rest, glue.id: {written}}}") == 0
    printed = capsys.readouterr().out
    spec = yaml.safe_load(printed)["spec"]
    assert spec["catalog"]["properties"].get("glue.id") == expected
    # kubectl takes some of these for no text, unless they are in quotes.
    assert expected is None or f"glue.id: '{expected}'" in printed


def test_columns_and_index_have_the_texts_of_the_file(tmp_path: Path, capsys: Printed) -> None:
    text = PIPELINE.replace("index: orders", "index: 012, number_of_shards: '3', insecure: TRUE")
    assert convert(tmp_path, text, columns="[on, 007]") == 0
    spec: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)["spec"]
    assert spec["tables"][0]["identifierColumns"] == ["on", "007"]
    assert spec["tables"][0]["index"] == "012"
    assert spec["sink"]["opensearch"]["indexSettings"] == {"number_of_shards": 3}
    assert spec["sink"]["opensearch"]["tls"] == {"insecureSkipVerify": True}


@pytest.mark.parametrize(
    ("key", "name"), [("2024", "p-2024"), ("on", "on"), ("~a", "a"), ("null", "null")]
)
def test_a_key_is_a_name_whatever_else_yaml_would_make_of_it(
    key: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(tmp_path, name=key) == 0
    assert yaml.safe_load(capsys.readouterr().out)["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "'~'"}, "f.yaml: ~: no name of a pipeline can be made of this key"),
        ({"name": "заказы"}, "заказы: no name of a pipeline can be made of this key"),
        ({"catalog": "{type: rest, s3: {}}"}, "catalog.s3: is a mapping; allowed: a text"),
        ({"columns": "[[id]]"}, "identifier_columns[0]: is a list; allowed: a text"),
        ({"more": "polling_interval: " + "9" * 400 + "s"}, "a duration such as PT30S or 30s"),
        ({"more": "polling_interval: PT" + "9" * 400 + "S"}, "a duration such as PT30S or 30s"),
        ({"text": ""}, "the file is empty; allowed: NAME: {source: "),
        ({"text": "- a"}, "contains a list; allowed: NAME: {source: "),
        ({"text": "a: b\n---\na: b"}, "contains 2 documents; allowed: NAME: {source: "),
        ({"text": "orders: {{source: iceberg}}"}, "source of orders is text; allowed: {iceberg: "),
        (
            {"text": "orders: {{source: {{iceberg: {{}}}}}}"},
            "orders.sink: missing; allowed: one opensearch",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_its_own_words(
    values: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(tmp_path, **values) == 2
    assert said in capsys.readouterr().err
