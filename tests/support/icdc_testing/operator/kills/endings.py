"""Describe the end of a trial so that two can be compared, and check what each must be.

Times, epochs and identities differ from one trial to the next; nothing else may.
"""

from dataclasses import dataclass
from typing import Any

from icdc_api.status.pipeline_status import parse_status
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.runs import applications
from icdc_testing.operator.kills.seeds import OWNED
from icdc_testing.operator.kills.trial import Trial

_OF_ITS_OWN = frozenset(
    {
        "appliedAt",
        "epoch",
        "finishedAt",
        "id",
        "lastTransitionTime",
        "nextAttemptTime",
        "plannedAt",
        "runId",
        "startedAt",
    }
)


@dataclass(frozen=True)
class Ending:
    """The objects that exist at the end."""

    status: dict[str, Any] | None
    """None when the pipeline is gone."""
    applications: dict[str, str]
    """States by name."""
    config_maps: tuple[str, ...]
    drivers: dict[str, str]
    """Phases by name of the pod."""


async def _read_ending(trial: Trial, pipeline: dict[str, Any] | None) -> Ending:
    listed = {kind: await trial.list_owned(kind) for kind in OWNED}

    def index_by_name(kind: kinds.Kind) -> dict[str, dict[str, Any]]:
        return {_shorten(item["metadata"]["name"], trial): item for item in listed[kind]}

    return Ending(
        status=None if pipeline is None else _make_comparable(pipeline["status"], trial),
        applications={
            n: applications.get_state(a) for n, a in index_by_name(kinds.APPLICATION).items()
        },
        config_maps=tuple(sorted(index_by_name(kinds.CONFIG_MAP))),
        drivers={n: pod["status"]["phase"] for n, pod in index_by_name(kinds.POD).items()},
    )


async def check(trial: Trial) -> Ending:
    """Assert what must hold of every ending of the story, disturbed or not; return the ending."""
    story, witness = trial.story, trial.witness
    assert not witness.complaints, witness.complaints
    assert [_shorten(name, trial) for name in witness.created] == list(story.runs)
    # One that is played whole begins before others do.
    assert tuple(witness.verdicts[-len(story.verdicts) :]) == story.verdicts, witness.verdicts
    assert trial.whole or len(witness.verdicts) == len(story.verdicts), witness.verdicts
    pipeline = await trial.api.get_pipeline(trial.site.namespace, trial.name)
    ending = await _read_ending(trial, pipeline)
    assert sorted(ending.applications) == sorted(story.retained)
    assert ending.config_maps == tuple(sorted(story.retained))
    if story.deletes:
        assert ending == Ending(None, {}, (), {})
        return ending
    assert pipeline is not None
    status, generation = parse_status(pipeline["status"]), pipeline["metadata"]["generation"]
    assert status == witness.status
    assert status.observed_generation == generation
    assert {condition.observed_generation for condition in status.conditions} == {generation}
    assert status.current_run is None
    assert [_shorten(run.name, trial) for run in reversed(status.recent_runs)] == list(story.runs)
    return ending


def _shorten(name: str, trial: Trial) -> str:
    return name.removeprefix(f"{trial.name}-").removesuffix("-driver")


def _make_comparable(value: Any, trial: Trial) -> Any:
    if isinstance(value, dict):
        return {k: _make_comparable(v, trial) for k, v in value.items() if k not in _OF_ITS_OWN}
    if isinstance(value, list):
        return [_make_comparable(item, trial) for item in value]
    return value.replace(trial.name, "shop") if isinstance(value, str) else value
