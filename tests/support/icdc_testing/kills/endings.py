"""How a trial ended, in a form in which two endings can be compared, and what each must be.

Times, epochs and identities differ from one trial to the next; nothing else may.
"""

from dataclasses import dataclass
from typing import Any

from icdc_api.status import parse_status
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.runs import applications
from icdc_testing.kills.seeds import OWNED
from icdc_testing.kills.trial import Trial

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
    """What is there at the end."""

    status: dict[str, Any] | None
    """None when the pipeline is gone."""
    applications: dict[str, str]
    """States by name."""
    config_maps: tuple[str, ...]
    drivers: dict[str, str]
    """Phases by name of the pod."""


async def _ending(trial: Trial, pipeline: dict[str, Any] | None) -> Ending:
    listed = {kind: await trial.listed(kind) for kind in OWNED}

    def named(kind: kinds.Kind) -> dict[str, dict[str, Any]]:
        return {_short(each["metadata"]["name"], trial): each for each in listed[kind]}

    return Ending(
        status=None if pipeline is None else _compared(pipeline["status"], trial),
        applications={n: applications.state(a) for n, a in named(kinds.APPLICATION).items()},
        config_maps=tuple(sorted(named(kinds.CONFIG_MAP))),
        drivers={n: pod["status"]["phase"] for n, pod in named(kinds.POD).items()},
    )


async def check(trial: Trial) -> Ending:
    """What must hold of every ending of the story, disturbed or not; the ending."""
    story, witness = trial.story, trial.witness
    assert not witness.complaints, witness.complaints
    assert [_short(name, trial) for name in witness.created] == list(story.runs)
    # One that is played whole begins before others do.
    assert tuple(witness.verdicts[-len(story.verdicts) :]) == story.verdicts, witness.verdicts
    assert trial.whole or len(witness.verdicts) == len(story.verdicts), witness.verdicts
    pipeline = await trial.api.get_pipeline(trial.site.namespace, trial.name)
    found = await _ending(trial, pipeline)
    assert sorted(found.applications) == sorted(story.kept)
    assert found.config_maps == tuple(sorted(story.kept))
    if story.deletes:
        assert found == Ending(None, {}, (), {})
        return found
    assert pipeline is not None
    status, generation = parse_status(pipeline["status"]), pipeline["metadata"]["generation"]
    assert status == witness.status
    assert status.observed_generation == generation
    assert {each.observed_generation for each in status.conditions} == {generation}
    assert status.current_run is None
    assert [_short(run.name, trial) for run in reversed(status.recent_runs)] == list(story.runs)
    return found


def _short(name: str, trial: Trial) -> str:
    return name.removeprefix(f"{trial.name}-").removesuffix("-driver")


def _compared(value: Any, trial: Trial) -> Any:
    if isinstance(value, dict):
        return {k: _compared(v, trial) for k, v in value.items() if k not in _OF_ITS_OWN}
    if isinstance(value, list):
        return [_compared(each, trial) for each in value]
    return value.replace(trial.name, "shop") if isinstance(value, str) else value
