"""The operator's real process is killed again and again, at calls that nobody chose with care."""

import asyncio
import functools
import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from icdc_api.status.conditions import ConditionType
from icdc_operator.cluster.kube import connect
from icdc_testing.kube import operator_process
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.kubectl import write_kubeconfig
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.operator.kills.cuts import Cut, make_connector, open_client
from icdc_testing.operator.kills.endings import Ending, check
from icdc_testing.operator.kills.playing import SOAK_VARIABLE
from icdc_testing.operator.kills.stories import STORIES, Story
from icdc_testing.operator.kills.trial import Trial, TrialSite
from icdc_testing.waiting import leaping_clock, wait
from icdc_testing.waiting.leaping_clock import LeapingClock

from .proxy import Aim, KillProxy

pytestmark = pytest.mark.api

KILLS = 5 if os.environ.get(SOAK_VARIABLE) else 3
STEP_SECONDS = 0.25
LIFE_SECONDS = 120.0
MOST_CALLS = 40
"""Of one life: a process asks for its lists and watches first, with some ten calls."""

(SUSPENDED,) = (story for story in STORIES if story.name.startswith("suspended"))


class ProcessTrial(Trial):
    """A story with an operator that is a process of its own."""

    def __init__(
        self, site: TrialSite, story: Story, rng: random.Random, account: Path, folder: Path
    ) -> None:
        super().__init__(site, story, Cut(), "shop")
        self.player.step_seconds = STEP_SECONDS
        self._rng, self._account, self._folder = rng, account, folder
        self.killed_at: list[str] = []
        self.expired = 0
        """Watches that were told to begin anew."""

    async def _run_operators(self) -> None:
        settings = await connect.load_configuration({connect.KUBECONFIG: str(self._account)})
        token = json.loads(self._account.read_text())["users"][0]["user"]["token"]
        async with aiohttp.ClientSession(connector=make_connector(settings)) as session:
            proxy = KillProxy(settings.host, session, self.note_operator)
            self.killed_at = proxy.killed_at
            async with proxy.serve() as address:
                path = self._folder / "kubeconfig"
                write_kubeconfig(path, {"server": address}, token, self.site.namespace)
                for _ in range(KILLS):
                    await self._run_process(path, proxy, self._rng.randint(1, MOST_CALLS))
                try:
                    await self._run_process(path, proxy, 0)
                finally:
                    self.expired = proxy.watches // 3

    async def _run_process(self, kubeconfig: Path, proxy: KillProxy, calls: int) -> None:
        """Run one process until it is killed, at its so manieth call; never by 0."""
        name = f"operator-{len(proxy.killed_at)}"
        flags = ["--namespace", self.site.namespace]
        with operator_process.run_operator(kubeconfig, self._folder, name, flags) as operator:
            after = self._rng.random() < 0.5
            proxy.aim = Aim(calls, after, lambda: operator.send(signal.SIGKILL))
            ended = functools.partial(_has_ended, operator)
            await asyncio.to_thread(wait.wait_until, ended, "it is killed", seconds=LIFE_SECONDS)
            assert operator.ended == -signal.SIGKILL, operator.messages[-5:]

    def _is_idle(self) -> bool:
        return True


def _clear_caught_up_message(ending: Ending) -> Ending:
    """Empty the message of CaughtUp: a process asks a catalog, where nobody answers here.

    It may or may not have given up before the end; the operators of a trial ask none.
    """
    assert ending.status is not None
    conditions = [
        {**condition, "message": ""} if condition["type"] == ConditionType.CAUGHT_UP else condition
        for condition in ending.status["conditions"]
    ]
    return replace(ending, status={**ending.status, "conditions": conditions})


def _has_ended(operator: OperatorProcess) -> bool:
    return operator.ended is not None


def test_a_process_that_is_killed_again_and_again_makes_the_same_of_it(
    kube: KubeApi,
    account: Path,
    pipelines: Pipelines,
    tmp_path: Path,
    rng: random.Random,
    record_property: Callable[[str, object], None],
) -> None:
    async def main(clock: LeapingClock) -> None:
        async with open_client(kube.kubeconfig) as admin, open_client(account) as operator:
            site = TrialSite(clock, pipelines.namespace, admin, operator)
            undisturbed = Trial(site, SUSPENDED, Cut(), "undisturbed")
            await undisturbed.run()
            wanted = await check(undisturbed)
            pipelines.run_ok("delete", "icdc", undisturbed.name)
            real = replace(site, start=datetime.now(UTC))
            trial = ProcessTrial(real, SUSPENDED, rng, account, tmp_path)
            with clock.walk():
                await trial.run()
            for position in trial.killed_at:
                record_property("kill", f"{SUSPENDED}: {position}")
            assert _clear_caught_up_message(await check(trial)) == wanted
            assert trial.killed_at
            record_property("tried", f"{trial.expired} expired watches in processes: {SUSPENDED}")
            assert trial.expired

    leaping_clock.run(main)
