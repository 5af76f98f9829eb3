"""What a report leaves out of an answer is said, in words that no terminal acts on."""

import json
import zlib
from base64 import b64encode

import pytest

from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_cli.cluster import asking

pytestmark = pytest.mark.unit

NOW = "2026-03-01T12:00:00Z"


def test_nothing_that_a_driver_says_it_left_out_acts_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = RunReport(run_id="r", started_at=NOW, updated_at=NOW, finished=True)
    document = report.to_resource() | {report_text.OMITTED: "\x1b]0;owned\x07\x1b[2J"}
    text = b64encode(zlib.compress(json.dumps(document).encode())).decode()
    asking.say_what_is_left_out({report_text.ANNOTATION_REPORT: text})
    output = capsys.readouterr().err
    assert "owned" in output
    assert not {"\x1b", "\x07"} & set(output)
