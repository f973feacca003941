"""The event loop of the process's judge, in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import functools
import threading
from concurrent.futures import Future

_starting = threading.Lock()


def own_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, started when it is first asked for; at exit, what still runs on it is cancelled.

    Whoever has a loop already, or none, can use it alike: connections outlive the loops that pytest makes for
    each test.
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
