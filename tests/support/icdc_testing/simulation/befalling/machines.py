"""What befalls drivers and the operator, and what people ask of the pipeline."""

from typing import TYPE_CHECKING

from icdc_api.status.pipeline_status import PipelineStatus

if TYPE_CHECKING:
    from icdc_testing.simulation.applications import PlayedApplication
    from icdc_testing.simulation.world import World

ORPHAN_SECONDS = 60.0
"""The longest that a task goes on without its driver."""
FOR_EVER = 1e9
"""Seconds, of which no world has as many."""


def _find_driver(world: "World") -> "PlayedApplication | None":
    runs = world.cluster.applications.values()
    live = [run for run in runs if run.process is not None and run.process.alive]
    return live[-1] if live else None


def kill_driver(world: "World", share: float) -> None:
    """Kill the newest driver and its task."""
    run = _find_driver(world)
    if run is not None and run.process is not None:
        world.kill_driver(run.process)


def orphan_task(world: "World", share: float) -> None:
    """Kill the newest driver; the task that it waits for goes on for a while."""
    run = _find_driver(world)
    if run is not None and run.process is not None:
        world.kill_driver(run.process, task_after=share * ORPHAN_SECONDS)


def kill_task(world: "World", share: float) -> None:
    """Kill the task of the newest driver, which starts it again."""
    run = _find_driver(world)
    if run is not None and run.process is not None:
        run.process.loses_task = True


def pause_driver(world: "World", share: float) -> None:
    """Stop the newest driver and its task for up to five minutes (SIGSTOP)."""
    run = _find_driver(world)
    if run is not None and run.process is not None:
        run.process.paused_until = world.schedule.now + share * 300.0


def freeze_driver(world: "World", share: float) -> None:
    """Let the newest driver hang for an hour at most, or for ever; its node says that it runs."""
    run = _find_driver(world)
    if run is not None and run.process is not None:
        seconds = FOR_EVER if share < 0.5 else share * 3600.0
        world.cluster.freeze(run.process, seconds=seconds)


def lose_node(world: "World", share: float) -> None:
    """Cut the newest driver from the API server; it hangs, or loses the target, for a while."""
    run = _find_driver(world)
    if run is None or run.process is None:
        return
    if share < 0.5:
        world.cluster.lose(run.process, hangs_for=share * 600.0)
    else:
        world.cluster.lose(run.process)
        until = world.schedule.now + (share - 0.5) * 300.0
        run.process.cut_until = max(run.process.cut_until, until)


def kill_operator(world: "World", share: float) -> None:
    """Kill the operator before it stores its status, or before it acts."""
    world.operator.crash_at = "before status" if share < 0.4 else "before actions"


def show_old_view(world: "World", share: float) -> None:
    """Let the next reconcile see what is true now."""
    world.operator.stale = world.cluster.read()


def lose_status(world: "World", share: float) -> None:
    """Restore the pipeline from a backup without its status."""
    world.cluster.status = PipelineStatus()
    world.cluster.version += 1
    # Nobody knows any more whether the last request was honoured.
    world.export_asked_at = None
    world.owe_export("status lost")
    world.cluster.notify()


def recreate_pipeline(world: "World", share: float) -> None:
    """Delete the pipeline, retaining its indices, and create it again; nonces begin anew."""
    for run in list(world.cluster.applications.values()):
        if run.process is not None:
            world.kill_driver(run.process, task_after=10.0 if share < 0.5 else 0.0)
    world.cluster.applications.clear()
    world.cluster.status = PipelineStatus()
    world.cluster.edit(resync={"nonce": 0})
    world.export_asked_at = None


def ask_export(world: "World", share: float) -> None:
    """Raise spec.resync.nonce for a re-export."""
    nonce = world.cluster.resource["spec"].get("resync", {}).get("nonce", 0) + 1
    is_known = world.cluster.status.observed_triggers is not None
    world.cluster.edit(resync={"nonce": nonce, "mode": "Export"})
    if is_known:
        world.expect_export()
    else:
        # A pipeline that has never run may be a restored one, whose nonce was honoured before.
        world.owe_export("asked for")


def ask_rollback(world: "World", share: float) -> None:
    """Raise spec.resync.nonce for readers to go back to the index before."""
    nonce = world.cluster.resource["spec"].get("resync", {}).get("nonce", 0) + 1
    world.cluster.edit(resync={"nonce": nonce, "mode": "Rollback"})
    # A pipeline has one request at a time.
    world.export_asked_at = None


def ask_comparison(world: "World", share: float) -> None:
    """Raise spec.resync.nonce for a comparison."""
    nonce = world.cluster.resource["spec"].get("resync", {}).get("nonce", 0) + 1
    world.cluster.edit(resync={"nonce": nonce, "mode": "Verify"})
    world.export_asked_at = None


def tidy_request(world: "World", share: float) -> None:
    """Remove the mode from spec.resync, once it was answered."""
    status, resync = world.cluster.status, world.cluster.resource["spec"].get("resync")
    seen = status.observed_triggers
    if resync and seen is not None and seen.resync_nonce >= resync["nonce"]:
        world.cluster.edit(resync={"nonce": resync["nonce"]})
