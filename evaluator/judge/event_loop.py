"""The process's event loop for judges, in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import functools
import threading

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
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_run, args=(loop,), name="spangrade-judge", daemon=True)
    thread.start()

    @atexit.register
    def stop() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel its tasks.

    asyncio.run would also shut the loop's executor down, in a new thread, which Python 3.12 does not start at
    exit any more. The executor's threads are joined at exit in any case.
    """
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
