"""Play worlds on one or more cores: `python -m icdc_testing.simulation.command`.

It ends by itself: after so many worlds, or so many minutes, whichever comes first; with 1 at a
broken promise.
"""

import argparse
import gc
import logging
import os
import resource
import sys
import time
from multiprocessing import get_context

from icdc_testing.simulation import border

border.install()
logging.disable(logging.CRITICAL)

from icdc_testing.simulation import playing  # noqa: E402  the border comes first

PART = 200
"""Worlds that a core plays at a time."""
REPORT_SECONDS = 30.0


def main() -> int:
    """Play the worlds that are asked for."""
    asked = _parse()
    if asked.story:
        events = playing.draw(asked.seed)
        _print(playing.write_story(playing.BrokenWorld(asked.seed, "", events)))
        return 0
    # Worlds leave few circles behind; they are looked for once in PART worlds.
    gc.freeze()
    gc.disable()
    if asked.cores == 1:
        return _play_here(asked)
    return _play_on_cores(asked)


def _play_here(asked: argparse.Namespace) -> int:
    begun = reported = time.perf_counter()
    seeds = asked.seeds or range(asked.seed, asked.seed + asked.worlds)
    number = 0
    for number, seed in enumerate(seeds, 1):
        failure = playing.try_world(seed)
        if failure is not None:
            return _report(failure, number, shrinks=not asked.find)
        if number % PART == 0:
            gc.collect()
            if time.perf_counter() - reported > REPORT_SECONDS or number == PART:
                reported = time.perf_counter()
                _print(_format_figures(number, reported - begun))
        if asked.minutes and time.perf_counter() - begun > asked.minutes * 60:
            break
    _print(_format_figures(number, time.perf_counter() - begun))
    return 0


def _play_on_cores(asked: argparse.Namespace) -> int:
    begun = reported = time.perf_counter()
    end, done, failure = asked.seed + asked.worlds, 0, None
    parts = (range(first, min(first + PART, end)) for first in range(asked.seed, end, PART))
    with get_context("fork").Pool(asked.cores or os.cpu_count()) as pool:
        for failure, count, kilobytes in pool.imap_unordered(_play_part, parts):
            done += count
            if failure is not None:
                break
            if time.perf_counter() - reported > REPORT_SECONDS:
                reported = time.perf_counter()
                _print(f"{_format_figures(done, reported - begun)}, worker {kilobytes // 1024} MB")
            if asked.minutes and time.perf_counter() - begun > asked.minutes * 60:
                break
    # Without the others beside it.
    if failure is not None:
        return _report(failure, done, shrinks=True)
    _print(_format_figures(done, time.perf_counter() - begun))
    return 0


def _play_part(seeds: range) -> tuple[playing.BrokenWorld | None, int, int]:
    """Return the first that failed, how many were played, and the greatest memory so far."""
    for number, seed in enumerate(seeds, 1):
        failure = playing.try_world(seed)
        if failure is not None:
            return failure, number, 0
    gc.collect()
    return None, len(seeds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _report(failure: playing.BrokenWorld, number: int, *, shrinks: bool) -> int:
    _print(f"world {number}, seed {failure.seed}: {failure.problem}")
    if shrinks:
        _print(playing.write_story(playing.shrink(failure)))
    return 1


def _format_figures(worlds: int, seconds: float) -> str:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return f"{worlds} worlds, {worlds / seconds:.0f} worlds/s, resident {most} MB"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000, help="how many")
    parser.add_argument("--minutes", type=float, default=0.0, help="0: no limit")
    parser.add_argument("--seed", type=int, default=0, help="of the first world")
    parser.add_argument("--seeds", type=int, nargs="+", help="these worlds and no others")
    parser.add_argument("--cores", type=int, default=1, help="0: all")
    parser.add_argument("--find", action="store_true", help="do not shrink what is found")
    parser.add_argument("--story", action="store_true", help="print the story of --seed")
    return parser.parse_args()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
