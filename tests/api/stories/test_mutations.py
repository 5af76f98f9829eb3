"""Acto's question: does the end depend on nothing but the spec that was declared last?

Each field is changed, changed back and changed again, each time once all has settled. The spec that
was changed back must come to the same by every way, and so must each changed spec.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from icdc_api.spec.pipeline import PipelineSpec
from icdc_operator.manifests.config_map import UNREAD
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.kube.stored_pipelines import Resource
from icdc_testing.operator.kills.playing import StoryScope, play_all
from icdc_testing.operator.kills.stories import STORIES, Story
from icdc_testing.operator.kills.trial import TrialSite

from .mutations import MISTAKES, MUTATIONS, ONE_WAY, MutationTrial, Spec, change

pytestmark = pytest.mark.api

LEFT_OUT = {"deletionPolicy", "verify"}
"""The first matters only when the pipeline is deleted. The second leaves a comparison behind, which
`Verified` shows also after the field is removed: that end depends on what came before."""


@dataclass
class Lived:
    """The trials by what was changed in them."""

    trials: dict[str, MutationTrial] = field(default_factory=dict)

    def list_endings(self, what: str) -> list[Resource]:
        """Return the outcome of each spec of the trial."""
        return self.trials[what].endings


@pytest.fixture(scope="module")
def story() -> Story:
    """Return the story of this file, whose acts are changes of the spec."""
    return STORIES[0]


def play_specs(scope: StoryScope, specs: Mapping[str, Sequence[Spec]]) -> Lived:
    """Return a pipeline for each list of specs, which it is given one after the other."""
    lived = Lived()

    async def play(site: TrialSite, name: str, what: str) -> None:
        trial = MutationTrial(site, name, specs[what])
        try:
            await trial.run()
        except (AssertionError, ExceptionGroup, TimeoutError) as error:
            raise AssertionError(f"{what}: {error}") from error
        assert not trial.witness.complaints, f"{what}: {trial.witness.complaints}"
        lived.trials[what] = trial

    play_all(scope, list(specs), play)
    return lived


def test_every_field_that_matters_is_changed() -> None:
    names = {(model_field.alias or name) for name, model_field in PipelineSpec.model_fields.items()}
    tried = {name for mutation in (*MUTATIONS.values(), *ONE_WAY.values()) for name in mutation}
    assert names == tried | LEFT_OUT


def test_the_end_depends_only_on_the_last_spec(scope: StoryScope) -> None:
    base = change()
    ways = {
        what: [base, spec, base, spec]
        for what, mutation in MUTATIONS.items()
        for spec in [change(mutation)]
    }
    lived = play_specs(scope, {**ways, "nothing": [base, base]})
    (first, unchanged) = lived.list_endings("nothing")
    assert first == unchanged
    for what, mutation in MUTATIONS.items():
        fresh, once, back, again = lived.list_endings(what)
        assert not lived.trials[what].refusals, what
        assert fresh == back == first, what
        assert once == again, what
        # A run does not even get what it does not read.
        differs = not mutation.keys() <= set(UNREAD)
        assert (once != first) == differs, f"{what}: {'no' if differs else 'a'} difference"
        assert once["verdict"] == Verdict.CURRENT, what


def test_what_is_asked_for_once_is_done_once(scope: StoryScope) -> None:
    base = change()
    lived = play_specs(
        scope, {what: [base, change(mutation), base] for what, mutation in ONE_WAY.items()}
    )
    for what, trial in lived.trials.items():
        fresh, asked, refused = trial.endings
        assert fresh["conditions"] == asked["conditions"] == refused["conditions"], what
        assert asked == refused, what
        assert len(trial.witness.created) == 2, what
        (refusal,) = trial.refusals
        assert "cannot be lowered" in refusal


def test_a_mistake_is_refused_with_a_reason_and_mended(scope: StoryScope) -> None:
    base = change()
    ways = {what: [base, change(spec), base] for what, (spec, _) in MISTAKES.items()}
    lived = play_specs(scope, ways)
    for what, (_, named) in MISTAKES.items():
        trial = lived.trials[what]
        good, bad, mended = trial.endings
        assert good == mended, what
        if trial.refusals:
            assert bad == good, what
            reported_reason = trial.refusals[0]
        else:
            assert bad["verdict"] == Verdict.FAILED, what
            status, reason, reported_reason = bad["conditions"]["SpecValid"]
            assert (status, reason) == ("False", "InvalidSpec"), what
        assert named in reported_reason, f"{what}: {reported_reason}"
