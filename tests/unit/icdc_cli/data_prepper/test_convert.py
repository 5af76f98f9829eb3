"""`icdc convert data-prepper`: the page's example, each option, and files that are none."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api.crd import loading, yaml_text
from icdc_api.errors import BadSpec
from icdc_cli import main
from icdc_cli.commands.data_prepper import pipelines, remarks
from icdc_cli.commands.data_prepper.sections import Section
from icdc_testing.target import oracle

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[4] / "docs" / "from-data-prepper.md").read_text(encoding="utf-8")
ID, ACTION = '${getMetadata("document_id")}', '${getMetadata("bulk_action")}'
Document = dict[str, Any]


def write_pipeline(
    *, source: Document | None = None, sink: Document | None = None, **more: Any
) -> Document:
    """Return a file whose source and sink have also these options."""
    table = {"table_name": "shop.orders", "identifier_columns": ["id"]}
    iceberg = {"catalog": {"type": "rest"}, "tables": [table], **(source or {})}
    search = {"hosts": ["https://search:9200"], "index": "orders", "document_id": ID}
    search |= {"action": ACTION, **(sink or {})}
    inner = {"source": {"iceberg": iceberg}, "sink": [{"opensearch": search}], **more}
    return {"version": "2", "Orders_Pipeline": inner}


def convert_document(document: Document, wanted: str | None = None) -> pipelines.Conversion:
    """Convert the document as it is read from a file."""
    text = yaml.safe_dump(document)
    read = yaml_text.parse_document(text, "f.yaml", allowed="any", as_written=True)
    return pipelines.convert(read, source="f.yaml", wanted=wanted)


def convert(**options: Any) -> tuple[Document, str]:
    """Return the spec, and the notes but that about the alias."""
    converted = convert_document(write_pipeline(**options))
    notes = [note for note in converted.notes if "AliasTaken" not in note]
    return converted.resource["spec"], "\n".join(notes)


def test_the_example_of_the_page_gives_the_pipeline_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.search(r"```yaml data-prepper\n(.*?)```.*?```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert blocks is not None
    monkeypatch.chdir(tmp_path)
    Path("data-prepper.yaml").write_text(blocks[1], encoding="utf-8")
    assert main.main(["convert", "data-prepper", "data-prepper.yaml"]) == 0
    printed = capsys.readouterr()
    assert printed.out == blocks[2]
    assert printed.err == "icdc: 5 remarks: see the comments\n"
    document = yaml.safe_load(printed.out)
    assert loading.parse_pipeline(document, source="page").spec.tables[0].index == "orders"


def test_the_page_has_each_option_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[tuple[str, str]] = set()
    take = Section.take

    def record(section: Section, name: str) -> Any:
        taken.add((section.path.rpartition(".")[2].partition("[")[0], name))
        return take(section, name)

    monkeypatch.setattr(Section, "take", record)
    convert()
    options = {
        "Orders_Pipeline": {*remarks.PIPELINE},
        "iceberg": {*remarks.SOURCE},
        "tables": set(),
        "opensearch": {*remarks.SINK},
    }
    for section, name in taken:
        options.setdefault(section, set()).add(name)
    _, *tables = PAGE.partition("## Options")[2].split("| option |")
    shown = [set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) for table in tables]
    assert shown == [
        options[section] for section in ("Orders_Pipeline", "iceberg", "tables", "opensearch")
    ]


def test_the_ids_of_the_page_are_those_that_documents_get() -> None:
    rows = re.findall(r"^\| `(\[.*?\])` \| `?(.*?)`? \| `(.*?)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 8
    for key, theirs, ours in rows:
        # A bar within a table of Markdown is escaped, a backslash is not.
        values = json.loads(key.replace("\\|", "|"))
        assert oracle.build_document_id(values) == re.sub(r"\\\|", "|", ours), key
        if theirs != "refused by OpenSearch":
            joined = "|".join("null" if value is None else str(value) for value in values)
            assert joined == theirs.replace("\\|", "|"), key


TABLES: list[Document] = [{"table_name": "shop.orders"}, {"table_name": "shop.`My Items`"}]
SKIPPED = TABLES[0] | {"disable_export": True}
OF_HIVE: Document = {"catalog": {"type": "hive"}}
TWO: Document = {"source": {"tables": TABLES}}
SECRET = "sink.opensearch.credentialsFrom.secretRef.name"
CA_SECRET = "sink.opensearch.tls.caFrom.secretRef.name"


def make_sink(**options: Any) -> Document:
    return {"sink": options}


def make_source(*tables: Document, **options: Any) -> Document:
    return {"source": options | ({"tables": list(tables)} if tables else {})}


@pytest.mark.parametrize(
    ("options", "path", "expected"),
    [
        ({}, "changelog", None),
        (make_source(polling_interval="PT5M"), "changelog.pollIntervalSeconds", 300),
        (make_source(polling_interval="1500ms"), "changelog.pollIntervalSeconds", 2),
        (make_source(polling_interval="P2D"), "changelog.pollIntervalSeconds", 86400),
        (make_source(catalog={"type": "glue", "a": True}), "catalog.properties.a", "true"),
        (make_source(SKIPPED), "mode", "StreamOnly"),
        (make_source(SKIPPED, TABLES[1]), "mode", None),
        (make_source(TABLES[0] | OF_HIVE, catalog=None), "catalog.properties", {"type": "hive"}),
        (make_source(*TABLES[:1], TABLES[1] | OF_HIVE), "tables.1.catalog.properties.type", "hive"),
        (make_sink(index='${getMetadata("iceberg_table_name")}'), "tables.0.index", None),
        (make_sink(index="orders-%{yyyy}"), "tables.0.index", None),
        (TWO | make_sink(index="o"), "tables.0.index", "o-shop.orders"),
        (TWO | make_sink(index="o"), "tables.1.index", "o-shop.my-items"),
        (TWO, "tables.0.identifierColumns", None),
        (TWO | make_sink(document_id="${/a}|${b}"), "tables.1.identifierColumns", ["a", "b"]),
        (
            TWO | make_sink(document_id=None, document_id_field="k"),
            "tables.0.identifierColumns",
            ["k"],
        ),
        (make_sink(document_id="${/other}"), "tables.0.identifierColumns", ["id"]),
        (make_sink(routing="${/id}"), "tables.0.routing", ["id"]),
        (make_sink(routing_field="id"), "tables.0.routing", ["id"]),
        (make_sink(routing="${/id}|${/r}"), "tables.0.routing", None),
        (make_sink(include_keys=["/a", "b", "c/d"]), "tables.0.columns", ["a", "b", "c"]),
        (make_sink(hosts="http://one:9200"), "sink.opensearch.hosts", ["http://one:9200"]),
        (make_sink(insecure=True), "sink.opensearch.tls", {"insecureSkipVerify": True}),
        (make_sink(number_of_replicas=0), "sink.opensearch.indexSettings.number_of_replicas", 0),
        (make_sink(bulk_size=4), "sink.opensearch.bulk.maxBytes", 4194304),
        (make_sink(bulk_size=-1), "sink.opensearch.bulk", None),
        (make_sink(aws={"region": "eu-west-1"}), SECRET, "orders-pipeline-opensearch"),
        (make_sink(cert="/etc/ca.pem"), CA_SECRET, "orders-pipeline-opensearch-ca"),
    ],
)
def test_an_option_becomes_a_field(options: Document, path: str, expected: object) -> None:
    value: Any = convert(**options)[0]
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value.get(part)
        if value is None:
            break
    assert value == expected


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"workers": 2}, "Orders_Pipeline.workers: nothing to do"),
        ({"proccessor": []}, "is not known and was left out; did you mean processor?"),
        (make_source(shuffle={"ssl": False}), "source.iceberg.shuffle: nothing to do"),
        (make_source(*TABLES[:1]), "tables[0].identifier_columns: absent"),
        (make_source(SKIPPED), "{position: Earliest}"),
        (make_source(SKIPPED, TABLES[1]), "use two pipelines"),
        (TWO, "an index of its own: orders-shop.my-items"),
        (make_sink(routing="${/r}"), "tables[0].identifier_columns: r: documents are routed by"),
        (make_sink(routing="x-${/id}"), "sink.opensearch.routing: documents are routed by"),
        (make_sink(rooting="${/r}"), "did you mean routing?"),
        (make_sink(action="index"), "sink.opensearch.action: rows that are in the table"),
        (make_sink(document_id=None), "documents had random ids"),
        (make_sink(document_id="x-${/id}"), "an id is made of identifierColumns"),
        (make_sink(index="o-${/f}"), "its name has no times or fields"),
        (make_sink(index_type="trace-analytics-raw"), "the type is not used"),
        (make_sink(include_keys=["c/d"]), "whole columns are chosen"),
        (make_sink(bulk_size=0), "bulk.maxBytes up to 100 MiB"),
        (make_sink(aws_sigv4=True, aws_region="r1"), "awsRegion=r1 --from-literal=awsService=es"),
        (make_sink(aws={"sts_role_arn": "arn"}), "aws.sts_role_arn: the role of the pod is used"),
        (
            make_sink(aws={"serverless": True}),
            "aws.serverless: Amazon OpenSearch Serverless is not",
        ),
        (make_sink(serverless=True), "opensearch.serverless: Amazon OpenSearch Serverless is not"),
        (make_sink(cert="ca.pem"), "--from-file=ca.crt=ca.pem"),
    ],
)
def test_what_has_no_counterpart_is_named(options: Document, note: str) -> None:
    assert note in convert(**options)[1]


def test_what_has_a_counterpart_needs_no_note() -> None:
    assert convert() == (
        {
            "catalog": {"properties": {"type": "rest"}},
            "tables": [{"name": "shop.orders", "identifierColumns": ["id"], "index": "orders"}],
            "sink": {"opensearch": {"hosts": ["https://search:9200"]}},
        },
        "",
    )


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"kind": "IcebergCDCPipeline"}, "is a resource of Kubernetes, not a file of Data Prepper"),
        ({"a": {"source": {"iceburg": {}}}}, "the source of a is iceburg; did you mean iceberg?"),
        ({"a": {"source": {"s3": {}}}}, "the source of a is s3"),
        ({"a": {"sorce": {}}}, "a has the key sorce; did you mean source?"),
        ({"version": 2}, "no pipeline with an iceberg source; expected: NAME: {source:"),
        (
            {**write_pipeline(), "b": write_pipeline()["Orders_Pipeline"]},
            "choose one by --pipeline",
        ),
        (
            write_pipeline(sink={"hosts": ["x"]}),
            "f.yaml, as converted: spec.sink.opensearch.hosts[0]",
        ),
        (write_pipeline(source={"catalog": None}), "iceberg.catalog: missing"),
        (write_pipeline(source={"tables": []}), "iceberg.tables: missing; allowed: a list"),
        (
            write_pipeline(source={"tables": [{}]}),
            "tables[0].table_name: missing; allowed: namespace.table",
        ),
        (write_pipeline(source={"tables": ["x"]}), "tables[0]: is text; allowed: a mapping"),
        (write_pipeline(source={"polling_interval": "soon"}), "a duration such as PT30S or 30s"),
        (write_pipeline(source={"catalog": "x"}), "catalog: is text; allowed: a mapping"),
        (write_pipeline(sink={"bulk_size": "5mb"}), "a whole number of MiB"),
        (write_pipeline(sink={"insecure": "yes"}), "insecure: 'yes' is not allowed"),
        (write_pipeline(sink={"insecure": 1}), "insecure: '1' is not allowed"),
        (write_pipeline(sink={"index": [5]}), "index: is a list; allowed: a text"),
        (write_pipeline(sink={"include_keys": {}}), "include_keys: is a mapping; allowed: a list"),
    ],
)
def test_a_file_that_is_no_such_pipeline_is_refused(document: Document, said: str) -> None:
    with pytest.raises(BadSpec) as refused:
        convert_document(document)
    assert refused.value.message.startswith("f.yaml")
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (None, "Orders_Pipeline.sink: missing; allowed: one opensearch"),
        ([{"opensarch": {}}], "has opensarch; allowed: one opensearch; did you mean opensearch?"),
        ([{"opensearch": {}}, {"opensearch": {}}], "convert the file once with each of them"),
    ],
)
def test_one_sink_of_opensearch_is_needed(sink: object, said: str) -> None:
    document = write_pipeline()
    document["Orders_Pipeline"]["sink"] = sink
    with pytest.raises(BadSpec, match=re.escape(said)):
        convert_document(document)


def test_other_sinks_pipelines_and_sources_are_named_and_one_of_several_is_chosen() -> None:
    document = write_pipeline(processor=[{"date": {}}])
    inner = document["Orders_Pipeline"]
    inner["sink"] = {"opensearch": inner["sink"][0]["opensearch"], "stdout": None}
    inner["source"]["codec"] = {}
    document |= {"9": inner | {"sink": inner["sink"]}, "extension": {}}
    converted = convert_document(document, wanted="9")
    assert converted.resource["metadata"]["name"] == "p-9"
    text = "\n".join(converted.notes)
    for said in (
        "9.sink.stdout: only the sink opensearch has a counterpart",
        "9.source.codec: this option is not known",
        "9.processor: documents are the rows",
        "Orders_Pipeline: not a part of the pipeline 9",
        "extension: not a part",
    ):
        assert said in text
    with pytest.raises(BadSpec, match=r"no pipeline orders_pipeline .* mean Orders_Pipeline"):
        convert_document(document, wanted="orders_pipeline")


@pytest.mark.parametrize(("text", "said"), [(None, "there is no such file"), ("{", "not YAML")])
def test_a_file_that_cannot_be_read_is_bad_usage(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert main.main(["convert", "data-prepper", str(path)]) == 2
    assert said in capsys.readouterr().err
