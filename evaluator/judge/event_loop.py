"""The process's event loop for judges, in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import functools
import threading
from concurrent.futures import Future

_starting = threading.Lock()


def own_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, started at the first call; tasks that still run at exit are cancelled.

    It works for callers with and without a loop of their own, and connections stay open although pytest
    makes a new loop for each test.
    """
    with _starting:
        return _start_loop()


@functools.cache
def _start_loop() -> asyncio.AbstractEventLoop:
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def until_exit() -> None:
        at_exit = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), at_exit))
        await at_exit.wait()

    thread = threading.Thread(target=asyncio.run, args=(until_exit(),), name="spangrade-judge", daemon=True)
    thread.start()
    loop, at_exit = started.result()

    @atexit.register
    def stop() -> None:
        loop.call_soon_threadsafe(at_exit.set)
        thread.join()

    return loop
