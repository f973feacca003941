"""Measure what a decorator adds to a call, in a tight loop.

Run: `python tests/benchmarks/decorators.py off|unsampled|recorded`. Prints µs of the calling thread's CPU
time per call of a function and of a coroutine decorated with `@tool`, over the same without: the smallest of
ten counts. `recorded` writes nothing within the measured time.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spangrade import configure, tool

CALLS = 3_000
COUNTS = 10


def look_up(order_id: str) -> str:
    """Return the order."""
    return order_id


async def look_up_later(order_id: str) -> str:
    """Return the order."""
    return order_id


def of_function(function: Callable[[str], str]) -> float:
    """Return µs per call."""
    counts = []
    for _ in range(COUNTS):
        started = time.thread_time()
        for _ in range(CALLS):
            function("A-1")
        counts.append(time.thread_time() - started)
    return min(counts) / CALLS * 1e6


async def of_coroutine(function: Callable) -> float:
    """Return µs per call."""
    counts = []
    for _ in range(COUNTS):
        started = time.thread_time()
        for _ in range(CALLS):
            await function("A-1")
        counts.append(time.thread_time() - started)
    return min(counts) / CALLS * 1e6


def main(mode: str) -> None:
    """Print both figures of a mode."""
    if mode != "off":
        os.environ |= dict.fromkeys(
            ("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY"),
            "1000000",
        )
        sample = 0.0 if mode == "unsampled" else None
        configure(db=Path(tempfile.mkdtemp()) / "spans.duckdb", sample=sample)
    function = of_function(tool(look_up)) - of_function(look_up)
    coroutine = asyncio.run(of_coroutine(tool(look_up_later))) - asyncio.run(of_coroutine(look_up_later))
    print(f"{mode}: a function {function:.1f} µs, a coroutine {coroutine:.1f} µs")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
