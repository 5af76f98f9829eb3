from pathlib import Path

import pytest

from icdc_api.crd import explain
from icdc_api.crd.loading import load_resource, parse_pipeline
from icdc_api.errors import BadSpec
from icdc_api.spec.export_window import WINDOW_PATTERN
from icdc_api.spec.pipeline import Metadata, PipelineSpec
from icdc_api.spec.proof import DURATION_FORM
from icdc_api.spec.sink import HOST_PATTERN
from icdc_api.spec.spark import MEMORY_FORM
from icdc_testing.kube.stored_pipelines import load_pipeline

pytestmark = pytest.mark.unit

SAMPLES = Path(__file__).parents[3] / "crds" / "samples"
HEAD = "apiVersion: icebergcdc.dev/v1alpha1\nkind: IcebergCDCPipeline\nmetadata: {name: shop}\n"
TABLES = "  tables: [{name: shop.orders}]\n"
UNREADABLE = "a value that cannot be read; put it in quotes"
SINK = "  sink: {opensearch: {hosts: embedded}}\n"


def _write(directory: Path, text: str | bytes) -> Path:
    path = directory / "p.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _get_refusal(path: Path, env: dict[str, str] | None = None) -> str:
    with pytest.raises(BadSpec) as caught:
        load_pipeline(path, env or {})
    return caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    assert _get_refusal(path) == f"{path}: there is no such file"


def test_a_directory_cannot_be_read(tmp_path: Path) -> None:
    assert _get_refusal(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [\n", "not YAML: line 2, column 1: "),
        ("a: b: c\n", "not YAML: line 1, column 5: mapping values are not allowed here"),
        ("\x00\n", "not YAML: "),
        (b"\xff\xfe\xfa", "not UTF-8 text: byte 0"),
        ("just text\n", "contains text; allowed: one IcebergCDCPipeline, a mapping with kind: "),
        ("7\n", "contains a whole number; allowed: one IcebergCDCPipeline, a mapping"),
        ("a: &a [*a]\n", "nested deeper than 64 levels, or too large because of its YAML aliases"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested deeper than 64 levels"),
        ("a: " + "9" * 5000, f"not YAML: line 1, column 4: {UNREADABLE}"),
        ("a: 1" + ":1" * 180 + ".5\n", f"not YAML: line 1, column 4: {UNREADABLE}"),
        ("a: !!bool x\n", f"not YAML: line 1, column 4: {UNREADABLE}"),
        ("a: !!float ''\n", f"not YAML: line 1, column 4: {UNREADABLE}"),
        ("a: !!timestamp x\n", f"not YAML: line 1, column 4: {UNREADABLE}"),
        ('a: "\\ud83d"\n', "not YAML: line 1, column 4: a text has one half of a pair"),
        ("? [a, b]\n: c\n", "not YAML: "),
        ("a: !!python/object:os.system x\n", "not YAML: "),
        ("kind: IcebergCDCPipeline\n", "apiVersion: missing; allowed: icebergcdc.dev/v1alpha1"),
        (HEAD + "spec:\n", "spec: missing; the field is required"),
        (HEAD + "spec: 5\n", "spec: 5 is not allowed: it must be a mapping"),
        (HEAD + "1: 2\n", "spec: missing; the field is required"),
        ("#" * (1 << 20) + "\n", "larger than 1048576 bytes"),
    ],
)
def test_a_file_that_holds_no_pipeline_is_refused(
    tmp_path: Path, text: str | bytes, expected: str
) -> None:
    path = _write(tmp_path, text)
    assert _get_refusal(path).startswith(f"{path}: {expected}")


def test_aliases_that_blow_up_are_stopped(tmp_path: Path) -> None:
    levels = ["a0: &a0 [" + "x," * 10 + "]"]
    levels += [f"a{i}: &a{i} [" + f"*a{i - 1}," * 10 + "]" for i in range(1, 12)]
    path = _write(tmp_path, "\n".join(levels))
    assert "too large because of its YAML aliases" in _get_refusal(path)


def test_every_problem_has_its_own_line_that_begins_with_the_file(tmp_path: Path) -> None:
    text = HEAD + "spec:\n  modus: x\n  suspend: maybe\n" + TABLES + SINK
    path = _write(tmp_path, text + "  catalog: {properties: {type: rest}}\n")
    assert _get_refusal(path).splitlines() == [
        f"{path}: spec.suspend: 'maybe' is not allowed: it must be true or false",
        f"{path}: spec.modus: unknown field; did you mean mode?",
    ]


def test_no_more_than_ten_problems_are_listed(tmp_path: Path) -> None:
    unknown = "".join(f"  zzz{number}: 1\n" for number in range(15))
    path = _write(tmp_path, HEAD + "spec:\n" + unknown + TABLES + SINK)
    result = _get_refusal(path).splitlines()
    assert len(result) == 11
    assert result[-1] == f"{path}: and 5 more problems"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("spec: {zzzzz: 1}", "spec.zzzzz: unknown field; allowed: catalog, changelog, "),
        ("spec: {sink: {openSearch: {}}}", "unknown field; did you mean opensearch?"),
        (
            "spec: {spark: {conf: {1: x}}}",
            "spec.spark.conf: the key 1 is not allowed: it must be text",
        ),
        ("spec: {1: x}", "spec: the key 1 is not text"),
        ("1: x", "document: the key 1 is not text"),
        ("spec: {on: x}", "spec: the key True is not text; put it in quotes: YAML reads yes"),
        ("metadata: {name: yes}", "must be text; put it in quotes: YAML reads yes, no, on, "),
        ("metadata: {name: 7}", "metadata.name: 7 is not allowed: it must be text; put it in"),
        (
            "spec: {tables: [{name: a.b, mapping: {'': {}}}]}",
            "mapping: the key '' is not allowed: ",
        ),
        ("spec: {spark: {executor: {memroy: 4g}}}", "memroy: unknown field; did you mean memory?"),
        ("spec: {catalog: {propertiesFrom: [{secret: x}]}}", "propertiesFrom[0].secret: unknown"),
        ("metadata: {name: a, labls: {}}", "metadata.labls: unknown field; did you mean labels?"),
        ("spec: {tables: [{primary_key: [a]}]}", "did you mean identifierColumns?"),
        ("spec: {tables: [{table: a.b}]}", "tables[0].table: unknown field; did you mean name?"),
        ("spec: {table: a.b}", "spec.table: unknown field; did you mean tables?"),
        ("spec: {sink: {elasticsearch: {}}}", "did you mean opensearch?"),
        ("specs: {}", "specs: unknown field; did you mean spec?"),
        ("spec: {tables: [{name: a.b, mapping: {'x y': 5}}]}", "spec.tables[0].mapping['x y']: 5 "),
    ],
)
def test_a_wrong_field_is_named_by_its_full_path(tmp_path: Path, field: str, expected: str) -> None:
    kind = "apiVersion: icebergcdc.dev/v1alpha1\nkind: IcebergCDCPipeline\n"
    assert expected in _get_refusal(_write(tmp_path, kind + field))


@pytest.mark.parametrize("where", ["properties: {token: 5}", "properties: {token: [s3cret]}"])
def test_the_value_of_a_property_is_never_shown(tmp_path: Path, where: str) -> None:
    text = HEAD + "spec:\n" + TABLES + SINK + f"  catalog: {{{where}}}\n"
    message = _get_refusal(_write(tmp_path, text))
    assert "spec.catalog.properties.token: the value (" in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("namespace", "shown"),
    [("../../x", "'../../x'"), ("''", "''"), ("a.b", "'a.b'"), ("A", "'A'"), ("'a\\n'", "'a")],
)
def test_a_namespace_is_no_path(tmp_path: Path, namespace: str, shown: str) -> None:
    text = HEAD.replace("name: shop", f"name: shop, namespace: {namespace}")
    message = _get_refusal(_write(tmp_path, text + "spec: {}\n"))
    assert f"metadata.namespace: {shown}" in message
    assert "allowed: lower-case letters, digits and dashes; it neither begins nor" in message


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("spark: {localVolumes: [{hostPath: {path: mnt}}]}", "path: 'mnt'"),
        ("spark: {localVolumes: [{ephemeral: {size: 100 GB}}]}", "size: '100 GB'"),
        ("spark: {driver: {serviceAccount: my_spark}}", "serviceAccount: 'my_spark'"),
        ("catalog: {name: my.lake, properties: {type: rest}}", "spec.catalog.name: 'my.lake'"),
    ],
)
def test_the_form_of_a_value_is_said_in_words(tmp_path: Path, field: str, said: str) -> None:
    message = _get_refusal(_write(tmp_path, HEAD + "spec:\n" + TABLES + SINK + f"  {field}\n"))
    line = next(line for line in message.splitlines() if said in line)
    assert f"{said} is not allowed: allowed: " in line
    assert "^" not in line


def test_a_namespace_has_at_most_63_characters(tmp_path: Path) -> None:
    text = HEAD.replace("name: shop", f"name: shop, namespace: {'a' * 64}")
    message = _get_refusal(_write(tmp_path, text + "spec: {}\n"))
    assert "metadata.namespace: " in message
    assert "it must have a length of at most 63" in message


def test_a_number_that_json_does_not_have_is_refused(tmp_path: Path) -> None:
    text = HEAD + "spec:\n" + TABLES
    text += "  sink: {opensearch: {hosts: embedded, indexSettings: {a: [.nan, -.inf, 1.0e+999]}}}\n"
    path = _write(tmp_path, text)
    field = "spec.sink.opensearch.indexSettings.a"
    assert _get_refusal(path).splitlines() == [
        f"{path}: {field}[{position}]: {value} is not allowed: a number must be finite"
        for position, value in enumerate(("nan", "-inf", "inf"))
    ]


def test_a_null_is_a_field_that_is_not_there(tmp_path: Path) -> None:
    text = HEAD + "spec:\n  suspend:\n  catalog: {properties: {type: rest, io-impl: }}\n"
    path = _write(tmp_path, text + TABLES + SINK)
    spec = load_pipeline(path, {}).spec
    assert spec.suspend is False
    assert spec.catalog is not None
    assert spec.catalog.properties == {"type": "rest"}


def test_a_null_below_an_open_field_is_kept(tmp_path: Path) -> None:
    text = HEAD + "spec:\n  catalog: {properties: {type: rest}}\n" + TABLES
    text += "  sink: {opensearch: {hosts: embedded, indexSettings: {a: null}}}\n"
    settings = load_pipeline(_write(tmp_path, text), {}).spec.sink.opensearch.index_settings
    assert settings == {"a": None}


def test_a_character_that_json_writes_as_two_halves_is_one_character(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD + 'spec: {"\\ud83d\\ude00": "\\ud83d\\ude00"}\n')
    assert load_resource(path, {})["spec"] == {"\N{GRINNING FACE}": "\N{GRINNING FACE}"}


def test_the_word_embedded_stands_for_a_node_of_the_local_runner(tmp_path: Path) -> None:
    text = HEAD + "spec:\n  catalog: {properties: {type: rest}}\n" + TABLES + SINK
    assert load_pipeline(_write(tmp_path, text), {}).spec.sink.opensearch.embedded


def test_variables_are_replaced_in_property_values_only(tmp_path: Path) -> None:
    text = HEAD + "spec:\n  catalog: {properties: {type: rest, uri: 'http://${HOST}:${PORT}/$x'}}\n"
    text += "  tables: [{name: shop.orders, rowFilter: \"a = '${HOST}'\"}]\n" + SINK
    spec = load_pipeline(_write(tmp_path, text), {"HOST": "catalog", "PORT": "1"}).spec
    assert spec.catalog is not None
    assert spec.catalog.properties["uri"] == "http://catalog:1/$x"
    assert spec.tables[0].row_filter == "a = '${HOST}'"


def test_a_variable_with_a_name_that_cannot_be_is_refused(tmp_path: Path) -> None:
    text = HEAD + "spec:\n  catalog: {properties: {type: 'a${B C}'}}\n" + TABLES + SINK
    expected = "spec.catalog.properties.type: '${B C}' is not the name of a variable"
    assert _get_refusal(_write(tmp_path, text)).endswith(expected)


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ("warehouse: $LAKE", "warehouse: '$LAKE' is not replaced: write ${LAKE}"),
        ("warehouse: $LAKE/one", "warehouse: '$LAKE' is not replaced: write ${LAKE}"),
        ("uri: $CATALOG", "uri: '$CATALOG' is not replaced: write ${CATALOG}"),
        ("warehouse: 's3://$a/', uri: 'http://$b', password: $ecret", None),
    ],
)
def test_a_variable_without_braces_is_no_name_of_a_directory(
    tmp_path: Path, properties: str, problem: str | None
) -> None:
    text = HEAD + f"spec:\n  catalog: {{properties: {{type: hadoop, {properties}}}}}\n"
    path = _write(tmp_path, text + TABLES + SINK)
    if problem is None:
        assert load_pipeline(path, {}).spec.catalog is not None
    else:
        assert _get_refusal(path, {"LAKE": "/lake"}).endswith(f"catalog.properties.{problem}")


def _list_forms(schema: object) -> set[str]:
    if isinstance(schema, dict):
        own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
        return own.union(*map(_list_forms, schema.values()))
    return set().union(*map(_list_forms, schema)) if isinstance(schema, list) else set()


def test_every_form_that_a_spec_demands_is_said_in_words() -> None:
    found = _list_forms([model.model_json_schema() for model in (Metadata, PipelineSpec)])
    # These have validators of their own, which say it.
    others = {MEMORY_FORM, DURATION_FORM, HOST_PATTERN, WINDOW_PATTERN}
    assert found - others == set(explain.FORMS)


def test_a_resource_as_the_cluster_returns_it_is_accepted() -> None:
    document = load_resource(SAMPLES / "minimal.yaml", {})
    document["metadata"] |= {"namespace": "web", "uid": "1", "generation": 2, "managedFields": [{}]}
    document["status"] = {"phase": "Streaming"}
    pipeline = parse_pipeline(document, source="cluster")
    assert pipeline.owner == "web/shop"


def test_a_written_resource_is_read_as_the_same_pipeline() -> None:
    pipeline = load_pipeline(SAMPLES / "full.yaml", {})
    assert parse_pipeline(pipeline.to_resource(), source="copy") == pipeline
