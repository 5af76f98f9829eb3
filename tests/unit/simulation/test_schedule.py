"""Virtual time: whose turn it is, and what tells that a world stands still."""

import threading

import pytest

from icdc_testing.simulation import schedule
from icdc_testing.simulation.schedule import Schedule, StuckWorldError

pytestmark = pytest.mark.unit


def test_a_world_in_which_one_waits_with_a_lock_that_another_needs_ends_with_both_stacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "STUCK_SECONDS", 0.5)
    world, lock = Schedule(), threading.Lock()

    def ask_a_slow_server() -> None:
        with lock:
            world.sleep(60)

    def ask_it_too() -> None:
        with lock:
            pass

    world.start("first", ask_a_slow_server)
    world.start("second", ask_it_too)
    with pytest.raises(StuckWorldError) as stuck:
        world.run()
    world.close()
    assert "in ask_a_slow_server" in str(stuck.value)
    assert "in ask_it_too" in str(stuck.value)
