"""Run coroutines side by side that end together. It must not know what they do."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_until_first(*works: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
    """Run all until one ends; cancel the others and wait for them.

    Raises what the one that ended raised.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
