"""`icdc status` without NAME, and what its `-o` takes beside text."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from icdc_cli import main
from icdc_cli.cluster import json_paths
from icdc_testing.kube.api_stub import ApiStub, Object
from icdc_testing.kube.stored_pipelines import make_condition

pytestmark = pytest.mark.unit

STALLED: Object = {
    "observedGeneration": 1,
    "conditions": [make_condition("Stalled", "True", message="Gap")],
}
INVALID: Object = {"conditions": [make_condition("SpecValid", "False", message="no such field")]}
WELL: Object = {
    "observedGeneration": 1,
    "phase": "Streaming",
    "summary": {"tables": "2/2", "snapshotsBehind": 0, "lagSeconds": 0, "export": "3/4 chunks"},
    "conditions": [
        make_condition("Ready", "True", message="all\nis well"),
        make_condition("Exported", "True"),
    ],
}
OTHER_VERSION: Object = {"phase": "Dancing", "operatorVersion": "9.9"}


@pytest.fixture
def add(api: ApiStub) -> Callable[..., Object]:
    def add(name: str, status: Object, namespace: str = "default", **labels: str) -> Object:
        metadata = {"name": name, "labels": labels}
        return api.add_pipeline({"metadata": metadata, "status": status}, namespace)

    return add


def split_cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_list_has_a_line_for_each_pipeline_of_the_namespace(
    add: Callable[..., Object], capsys: pytest.CaptureFixture[str]
) -> None:
    add("b", WELL, team="a")
    add("a", {}, team="b")
    add("c", WELL, "lake", team="a")
    assert main.main(["status"]) == 0
    printed = capsys.readouterr()
    head, *rows = split_cells(printed.out)
    assert head == ["NAME", "READY", "PHASE", "TABLES", "BEHIND", "LAG", "RUN", "AGE"]
    assert [row[:4] for row in rows] == [["a", "-", "-", "-"], ["b", "True", "Streaming", "2/2"]]
    assert printed.err == ""
    assert main.main(["status", "-l", "team=a"]) == 0
    assert [row[0] for row in split_cells(capsys.readouterr().out)] == ["NAME", "b"]
    assert main.main(["status", "-A", "--selector", "team=a"]) == 0
    assert [row[:2] for row in split_cells(capsys.readouterr().out)] == [
        ["NAMESPACE", "NAME"],
        ["default", "b"],
        ["lake", "c"],
    ]


def test_wide_has_all_columns_of_a_list_and_of_one(
    add: Callable[..., Object], capsys: pytest.CaptureFixture[str]
) -> None:
    add("b", WELL)
    further = ["EXPORTED", "EXPORT", "FAILURES", "MESSAGE"]
    for name in ([], ["b"]):
        assert main.main(["status", *name, "-o", "wide"]) == 0
        head, row = split_cells(capsys.readouterr().out)[:2]
        assert head[-4:] == further
        assert row[-7:] == ["True", "3/4", "chunks", "0", "all", "is", "well"]


@pytest.mark.parametrize(
    ("statuses", "code", "complaints"),
    [
        ([WELL, {}], 0, []),
        ([WELL, STALLED], 1, ["icdc: default/p1: Gap"]),
        ([INVALID, STALLED], 1, ["icdc: default/p0: no such field", "icdc: default/p1: Gap"]),
        ([INVALID, WELL], 2, ["icdc: default/p0: no such field"]),
        ([OTHER_VERSION, WELL], 2, ["icdc: default/p0: the status was written by another version"]),
    ],
)
def test_the_code_of_a_list_says_who_acts_first(
    statuses: list[Object],
    code: int,
    complaints: list[str],
    add: Callable[..., Object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number, status in enumerate(statuses):
        add(f"p{number}", status)
    assert main.main(["status"]) == code
    printed = capsys.readouterr()
    assert len(split_cells(printed.out)) == 1 + len(statuses)
    lines = printed.err.splitlines()
    assert [line.startswith(start) for line, start in zip(lines, complaints, strict=True)] == [
        True for _ in complaints
    ]


def test_names_are_those_that_kubectl_takes(
    add: Callable[..., Object], capsys: pytest.CaptureFixture[str]
) -> None:
    add("a", STALLED)
    add("b", OTHER_VERSION)
    for name, expected in (([], ["a", "b"]), (["b"], ["b"])):
        assert main.main(["status", *name, "-o", "name"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"icebergcdcpipeline.icebergcdc.dev/{name}" for name in expected
        ]


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_read_a_list_as_kubectl_prints_it(
    output: str,
    parse: Callable[[str], Any],
    add: Callable[..., Object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    add("a", WELL)
    assert main.main(["status", "-o", output]) == 0
    document = parse(capsys.readouterr().out)
    assert (document["kind"], document["apiVersion"]) == ("List", "v1")
    assert [item["status"] for item in document["items"]] == [WELL]
    assert "managedFields" not in document["items"][0]["metadata"]


@pytest.mark.parametrize(
    ("arguments", "where"), [([], "the namespace default"), (["-A"], "any namespace")]
)
def test_nothing_to_list_is_no_error(
    arguments: list[str], where: str, api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["status", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"icdc: there is no IcebergCDCPipeline in {where}\n"


@pytest.mark.parametrize("option", ["-A", "-l=team=a"])
def test_a_name_is_no_list(
    option: str, shop: Object, api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["status", "shop", option]) == 2
    assert "is allowed only without NAME" in capsys.readouterr().err
    assert api.asked == []


def test_the_name_that_was_meant_is_said_where_pipelines_may_be_listed(
    shop: Object, api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["pause", "shpo"]) == 2
    assert capsys.readouterr().err == (
        "icdc: there is no IcebergCDCPipeline shpo in the namespace default; did you mean shop?; "
        "all of them: icdc status --all-namespaces\n"
    )
    api.denied = {"default"}
    assert main.main(["pause", "shpo"]) == 2
    assert "shpo in the namespace default; all of them" in capsys.readouterr().err


DOCUMENT: Object = {
    "phase": "Streaming",
    "lag": 3,
    "ready": True,
    "tables": [{"name": "a", "state": "x"}, {"name": "b", "state": "y", "reason": "Gap"}],
    "labels": {"example.org/team": "lake", "the team": "sales"},
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.phase}", "Streaming"),
        ("{phase}", "Streaming"),
        ("{.phase} {.lag}", "Streaming 3"),
        ("{$.ready}", "true"),
        ("{.tables[*].name}", "a b"),
        ("{.tables[-1].name}", "b"),
        ("{.tables[7].name}", ""),
        ("{.tables[0]}", '{"name":"a","state":"x"}'),
        ('{.tables[?(@.state=="y")].name}', "b"),
        ("{.tables[?(@.state != 'y')].name}", "a"),
        ('{.tables[?(@.reason!="None")].name}', "b"),
        (r"{.labels.example\.org/team}", "lake"),
        ("{.labels['example.org/team']}", "lake"),
        (r"{.labels.the\ team}", "sales"),
        ("{.labels.*}", "lake sales"),
        ('{range .tables[*]}{.name}{"\\t"}{@.state}{"\\n"}{end}.', "a\tx\nb\ty\n."),
        (
            "{range .tables[*]}{@}{end}",
            '{"name":"a","state":"x"}{"name":"b","state":"y","reason":"Gap"}',
        ),
        ("{.nothing.at.all}", ""),
    ],
)
def test_a_template_is_rendered_as_kubectl_does(template: str, text: str) -> None:
    assert json_paths.parse(template).render(DOCUMENT) == text


def test_a_template_prints_nothing_of_its_own(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = {"phase": "\x1b[2J"}
    assert (
        main.main(["status", "shop", "-o", "jsonpath={.metadata.name}={.spec.tables[0].name}"]) == 2
    )
    assert capsys.readouterr().out == "shop=shop.orders"
    assert main.main(["status", "-o", "jsonpath={.items[*].status.phase}"]) == 2
    assert capsys.readouterr().out == "\N{REPLACEMENT CHARACTER}[2J"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{.a", "'{.a' is not understood: a brace has no partner"),
        ("{.a[}", "'[' is not understood: a path is of .field, [0], [*]"),
        (".a", "'.a' is not understood: a template has braces, such as {.a}"),
        ("{..a}", "'..a' is not understood"),
        ("{range .a}", "it has no {end}"),
        ("{end}", "it has no {range …}"),
        ("{.a[?(@.b>1)]}", "is not understood"),
        ("{.a .b}", "' .b' is not understood"),
        ("{.a.b | upper}", "' | upper' is not understood"),
        *((f"{{.a{mark}}}", "is not understood: a path is of") for mark in ",|()@$?"),
    ],
)
def test_a_template_that_is_not_understood_is_bad_usage(
    template: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(["status", "-o", f"jsonpath={template}"])
    assert left.value.code == 2
    assert said in capsys.readouterr().err
