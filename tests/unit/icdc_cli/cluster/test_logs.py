"""`icdc logs`: the right driver, its last lines, and a reason where there is none."""

import os
import subprocess
import sys

import pytest

from icdc_cli import main
from icdc_testing.kube.api_stub import ApiStub, Object, make_driver_pod

pytestmark = pytest.mark.unit


@pytest.fixture
def drivers(api: ApiStub, shop: Object) -> None:
    """The second of three runs is at work; the pipeline of another name is none of ours."""
    shop["status"] = {"currentRun": {"name": "shop-c2-1"}}
    for number, day in (("1", "01"), ("2", "02"), ("3", "03")):
        name = f"shop-c{number}-1-driver"
        created = f"2026-01-{day}T00:00:00Z"
        api.pods.append(make_driver_pod(name, f"shop-c{number}-1", created=created))
        api.logs[name] = [f"line {line} of run {number}\n" for line in range(5)]
    api.pods.append(
        make_driver_pod("other", "other-c9-1", created="2026-02-01T00:00:00Z", pipeline="other")
    )


@pytest.mark.usefixtures("drivers")
@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        ([], [f"line {line} of run 2" for line in range(5)]),
        (["--tail", "1"], ["line 4 of run 2"]),
        (["--tail", "0"], []),
        (["--run", "shop-c1-1", "--tail", "2"], ["line 3 of run 1", "line 4 of run 1"]),
        (["-f"], [f"line {line} of run 2" for line in range(5)]),
        (["--follow", "--tail", "1"], ["line 4 of run 2"]),
    ],
)
def test_the_driver_of_the_current_run_is_shown(
    arguments: list[str], out: list[str], api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["logs", "shop", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == out
    assert printed.err == ""
    assert "container=spark-kubernetes-driver" in api.asked[-1]
    assert ("follow=true" in api.asked[-1]) == ("-f" in arguments or "--follow" in arguments)


JSON_LINE = (
    '{"time": "2026-03-01T12:00:00.000Z", "level": "error", "logger": "x", "message": "one\\ntwo", '
    '"pipeline": "default/shop", "run": "shop-c2-1", "table": "shop.orders", "exception": "E: f"}'
)
SHOWN = [
    "2026-03-01T12:00:00.000Z error   one",
    "    two table=shop.orders",
    "    E: f",
]


@pytest.mark.usefixtures("drivers")
@pytest.mark.parametrize("follow", [[], ["-f"]])
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (JSON_LINE, SHOWN),
        # Lines of others: of Spark, of a sidecar, and what only begins as JSON.
        *(
            (line, [line])
            for line in ('{"a": 1}', "26/03/01 WARN x", "[1]", "{", "7", "[" * 99_999)
        ),
    ],
)
def test_lines_are_shown_as_text_or_as_they_are(
    line: str,
    shown: list[str],
    follow: list[str],
    api: ApiStub,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.logs["shop-c2-1-driver"] = [f"{line}\n", "the end\n"]
    assert main.main(["logs", "shop", *follow]) == 0
    assert capsys.readouterr().out.splitlines() == [*shown, "the end"]
    assert main.main(["logs", "shop", "--raw", *follow]) == 0
    assert capsys.readouterr().out.splitlines() == [line, "the end"]


@pytest.mark.usefixtures("drivers")
def test_without_a_run_at_work_the_newest_driver_is_shown(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = {}
    assert main.main(["logs", "shop", "--tail", "1"]) == 0
    assert capsys.readouterr().out == "line 4 of run 3\n"


@pytest.mark.usefixtures("drivers")
def test_a_run_that_is_not_there_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["logs", "shop", "--run", "shop-c7-1"]) == 2
    assert capsys.readouterr().err == (
        "icdc: --run shop-c7-1: its driver no longer exists; runs with a driver: shop-c1-1, "
        "shop-c2-1, shop-c3-1\n"
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "icdc: no run that has a log is retained\n"),
        ({"currentRun": {"name": "shop-e1-1"}}, "icdc: shop-e1-1 has no driver yet\n"),
    ],
)
def test_where_there_is_no_log_it_is_said_why(
    status: Object, said: str, shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = status
    assert main.main(["logs", "shop"]) == 3
    assert capsys.readouterr().err == said


@pytest.mark.usefixtures("drivers")
@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ((400, "container is waiting to start: ImagePullBackOff"), "ImagePullBackOff"),
        ((404, 'pods "shop-c2-1-driver" not found'), "shop-c2-1-driver no longer exists"),
        ((503, "the kubelet does not answer"), "the kubelet does not answer"),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["-f"]])
def test_a_log_that_cannot_be_had_yet_may_be_had_later(
    arguments: list[str],
    failure: tuple[int, str],
    said: str,
    api: ApiStub,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.log_failure = failure
    assert main.main(["logs", "shop", *arguments]) == 3
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("drivers")
@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "icdc: the driver shop-c2-1-driver has not started yet\n"),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available",
                    }
                ]
            },
            "0/3 nodes are available",
        ),
    ],
)
def test_a_driver_that_has_not_begun_says_what_it_waits_for(
    status: Object, said: str, api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    for pod in api.pods:
        pod["status"] = {"phase": "Pending", **status}
    assert main.main(["logs", "shop"]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err


@pytest.mark.usefixtures("drivers")
def test_a_reader_that_has_had_enough_is_no_error(api: ApiStub) -> None:
    # More than a pipe holds, so that the writer notices that nobody reads.
    api.logs["shop-c2-1-driver"] = [f"{'x' * 1000}\n"] * 1000
    code = "import sys; from icdc_cli.main import main; sys.exit(main(['logs', 'shop']))"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("lines", ["-1", "x"])
def test_a_number_of_lines_is_checked(lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(["logs", "shop", f"--tail={lines}"])
    assert left.value.code == 2
    assert "--tail" in capsys.readouterr().err
