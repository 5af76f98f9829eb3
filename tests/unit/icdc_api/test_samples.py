from pathlib import Path

import pytest

from icdc_api.errors import BadSpec
from icdc_testing.kube.stored_pipelines import load_pipeline

pytestmark = pytest.mark.unit

SAMPLES = Path(__file__).parents[3] / "crds" / "samples"
GOOD = sorted(SAMPLES.glob("*.yaml"))
BAD = sorted((SAMPLES / "bad").glob("*.yaml"))
EXPECTED = "# expected: "


def _name_sample(path: Path) -> str:
    return path.stem


def test_there_are_samples_of_both_kinds() -> None:
    assert {"minimal", "full", "multi-table", "append-only"} == {path.stem for path in GOOD}
    assert len(BAD) > 50


@pytest.mark.parametrize("path", GOOD, ids=_name_sample)
def test_a_good_sample_is_accepted(path: Path) -> None:
    assert load_pipeline(path, {}).spec.tables


@pytest.mark.parametrize("path", BAD, ids=_name_sample)
def test_a_bad_sample_is_refused_with_exactly_one_line_that_says_why(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(EXPECTED)
    with pytest.raises(BadSpec) as caught:
        load_pipeline(path, {})
    assert caught.value.message.startswith(f"{path}: ")
    assert first.removeprefix(EXPECTED) in caught.value.message
    assert "\n" not in caught.value.message


def test_a_password_in_a_host_is_not_repeated() -> None:
    with pytest.raises(BadSpec) as caught:
        load_pipeline(SAMPLES / "bad" / "host-with-password.yaml", {})
    assert "secret" not in caught.value.message
