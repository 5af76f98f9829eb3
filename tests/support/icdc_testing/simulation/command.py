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
from multiprocessing.pool import AsyncResult
from typing import Any

from icdc_testing.simulation import border

# Before the border replaces them: these are about the process, not about a world.
_seconds, _pause = time.perf_counter, time.sleep

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
    begun = reported = _seconds()
    seeds = asked.seeds or range(asked.seed, asked.seed + asked.worlds)
    number = 0
    for number, seed in enumerate(seeds, 1):
        failure = playing.try_world(seed)
        if failure is not None:
            return _report(failure, number, shrinks=not asked.find)
        if number % PART == 0:
            gc.collect()
            if _seconds() - reported > REPORT_SECONDS or number == PART:
                reported = _seconds()
                _print(_format_figures(number, reported - begun))
        if asked.minutes and _seconds() - begun > asked.minutes * 60:
            break
    _print(_format_figures(number, _seconds() - begun))
    return 0


def _play_on_cores(asked: argparse.Namespace) -> int:
    begun = reported = _seconds()
    firsts = iter(range(asked.seed, asked.seed + asked.worlds, PART))
    done, waiting = 0, list[AsyncResult[Any]]()
    with get_context("fork").Pool(asked.cores) as pool:
        while True:
            out_of_time = asked.minutes and _seconds() - begun > asked.minutes * 60
            while not out_of_time and len(waiting) < 2 * asked.cores:
                first = next(firsts, None)
                if first is None:
                    break
                count = min(PART, asked.seed + asked.worlds - first)
                waiting.append(pool.apply_async(_play_part, (first, count)))
            if not waiting:
                break
            if waiting[0].ready():
                failure, count, kilobytes = waiting.pop(0).get()
                done += count
                if failure is not None:
                    return _report(failure, done, shrinks=True)
                if _seconds() - reported > REPORT_SECONDS:
                    reported = _seconds()
                    _print(
                        f"{_format_figures(done, reported - begun)}, worker {kilobytes // 1024} MB"
                    )
            _pause(0.02)
    _print(_format_figures(done, _seconds() - begun))
    return 0


def _play_part(first: int, count: int) -> tuple[playing.BrokenWorld | None, int, int]:
    for seed in range(first, first + count):
        failure = playing.try_world(seed)
        if failure is not None:
            return failure, seed - first + 1, 0
    gc.collect()
    return None, count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


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
    parser.add_argument("--cores", type=int, default=1, help=f"of {os.cpu_count()}")
    parser.add_argument("--find", action="store_true", help="do not shrink what is found")
    parser.add_argument("--story", action="store_true", help="print the story of --seed")
    return parser.parse_args()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
