"""Threads work a few at a time, and none that asks again goes before one that waits."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from icdc_spark.process.scheduling import fair_semaphore
from icdc_spark.process.scheduling.fair_semaphore import FairSemaphore
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.unit

SECONDS = 120.0


def test_no_more_threads_than_there_are_turns_are_inside() -> None:
    semaphore, inside, most = FairSemaphore(2), 0, 0
    lock, both = threading.Lock(), threading.Barrier(2)

    def work(name: str) -> None:
        nonlocal inside, most
        with semaphore.acquire(name):
            with lock:
                inside += 1
                most = max(most, inside)
            both.wait(SECONDS)  # never alone either
            with lock:
                inside -= 1

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, name) for name in "abcd"]:
            future.result(SECONDS)
    assert most == 2


def test_a_thread_that_asks_again_comes_after_those_that_wait() -> None:
    semaphore, order = FairSemaphore(1), []

    def work(name: str) -> None:
        with semaphore.acquire(name):
            order.append(name)

    with ThreadPoolExecutor(2) as pool:
        with semaphore.acquire("holder"):
            waiting = []
            for number, name in enumerate(("first", "second"), start=1):
                waiting.append(pool.submit(work, name))
                wait_until(lambda n=number: semaphore.waiting == n, f"{name} waits")  # type: ignore[misc]
        work("again")
        for future in waiting:
            future.result(SECONDS)
    assert order == ["first", "second", "again"]


def test_a_turn_is_given_back_by_an_error() -> None:
    semaphore = FairSemaphore(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="x"), semaphore.acquire("x"):
            raise ValueError("x")


def test_a_turn_is_given_away_once_for_a_thread_that_does_not_come_out() -> None:
    semaphore, inside = FairSemaphore(1), []

    def work(name: str) -> None:
        with semaphore.acquire(name):
            inside.append(name)

    with ThreadPoolExecutor(2) as pool:
        with semaphore.acquire("stuck"):
            first = pool.submit(work, "first")
            wait_until(lambda: semaphore.waiting == 1, "somebody waits")
            semaphore.release("stuck")
            first.result(SECONDS)
        # It came out after all: there is still one turn, and not two.
        with semaphore.acquire("holder"):
            second = pool.submit(work, "second")
            wait_until(lambda: semaphore.waiting == 1, "somebody waits")
        second.result(SECONDS)
    assert inside == ["first", "second"]


def test_places_go_by_turns_to_the_furthest_behind_and_to_the_longest_waiting() -> None:
    lags = {"polls": 0.0, "hour": 3600.0, "also polls": 0.0, "day": 86_400.0, "minute": 60.0}
    semaphore, order = FairSemaphore(1, lag=lags.__getitem__), []

    def work(name: str) -> None:
        with semaphore.acquire(name):
            order.append(name)

    with ThreadPoolExecutor(len(lags)) as pool:
        with semaphore.acquire("holder"):
            waiting = []
            for number, name in enumerate(lags, start=1):
                waiting.append(pool.submit(work, name))
                wait_until(lambda n=number: semaphore.waiting == n, f"{name} waits")  # type: ignore[misc]
        for future in waiting:
            future.result(SECONDS)
    assert order == ["day", "polls", "hour", "also polls", "minute"]


def test_tables_that_are_always_behind_do_not_keep_out_one_that_polls() -> None:
    lags = {"a": 9e9, "b": 8e9, "polls": 0.0}
    semaphore, order = FairSemaphore(1, lag=lags.__getitem__), []
    done = threading.Event()

    def work(name: str) -> None:
        while not done.is_set():
            with semaphore.acquire(name):
                order.append(name)
                # Or the one that left last would not wait yet.
                wait_until(lambda: done.is_set() or semaphore.waiting == 2, "two wait", pause=0.001)

    with ThreadPoolExecutor(len(lags)) as pool:
        running = [pool.submit(work, name) for name in lags]
        try:
            wait_until(lambda: order.count("polls") >= 5, "it is admitted again and again")
        finally:
            done.set()
        for future in running:
            future.result(SECONDS)


def test_a_thread_that_gives_up_is_not_inside_and_takes_no_permit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_semaphore, "POLL_SECONDS", 0.01)
    semaphore = FairSemaphore(1)
    with semaphore.acquire("holder"):
        with semaphore.acquire("other", give_up=lambda: True) as admitted:
            assert not admitted
        assert semaphore.waiting == 0
    for _ in range(2):
        with semaphore.acquire("other", give_up=lambda: True) as admitted:
            assert admitted, "the permit is free"


def test_a_thread_that_is_admitted_while_it_gives_up_has_its_permit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_semaphore, "POLL_SECONDS", 0.01)
    semaphore = FairSemaphore(1)

    def give_up() -> bool:
        semaphore.release("holder")
        return True

    with semaphore.acquire("holder"), semaphore.acquire("other", give_up=give_up) as admitted:
        assert admitted
    with semaphore.acquire("next", give_up=lambda: True) as admitted:
        assert admitted
