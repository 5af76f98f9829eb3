import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from icdc_api.errors import BadSpec, Fenced
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.status.pipeline_status import TableStatus
from icdc_api.status.runs import Failure

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 21, 13, 53, 59, 123456, tzinfo=UTC)
REQUEST = RunRequest(
    run_id="shop-e1-1",
    pipeline={"spec": {"tables": [{"mapping": {"a": {"null_value": None}}}]}},
    owner="default/shop",
    epoch=7,
    report_path="report.json",
)
REPORT = RunReport(
    run_id="shop-e1-1",
    started_at=NOW,
    updated_at=NOW,
    tables=(TableStatus(name="a.b", index="a"),),
    outcome=Failure.of(Fenced("another run owns the index")),
    result={"tables": [{"missing": None}]},
)


@pytest.mark.parametrize("value", [REQUEST, REPORT], ids=["request", "report"])
def test_a_file_is_read_as_it_was_written(tmp_path: Path, value: RunRequest | RunReport) -> None:
    path = tmp_path / "file.json"
    value.write(path)
    value.write(path)
    assert type(value).read(path) == value
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


def test_the_names_in_a_request_are_fixed(tmp_path: Path) -> None:
    REQUEST.write(tmp_path / "r.json")
    written = json.loads((tmp_path / "r.json").read_text())
    assert set(written) == {
        "runId", "mode", "pipeline", "owner", "epoch", "continuous", "pollSeconds", "reportPath",
        "endWithStdin",
    }  # fmt: skip
    assert written["mode"] == "run"


def test_a_request_can_be_read_by_nobody_else(tmp_path: Path) -> None:
    REQUEST.write(tmp_path / "r.json")
    assert (tmp_path / "r.json").stat().st_mode & 0o077 == 0


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    REPORT.write(path)
    blocked = REPORT.model_copy(update={"result": {"a": object()}})
    with pytest.raises(ValueError, match="object"):
        blocked.write(path)
    assert RunReport.read(path) == REPORT
    assert len(list(tmp_path.iterdir())) == 1


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RunReport.read(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not a RunReport of this version: document: Invalid JSON"),
        ('{"runId": 5}', "is not a RunReport of this version: runId: Input should be"),
        ('{"zzz": 5}', "is not a RunReport of this version: runId: Field required"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(BadSpec) as caught:
        RunReport.read(path)
    assert caught.value.message.startswith(f"{path} {expected}")


def test_the_modes_are_the_words_of_the_command_line() -> None:
    assert [mode.value for mode in RunMode] == [
        *("run", "plan", "verify", "repair", "delete", "letters", "replay", "preview")
    ]
