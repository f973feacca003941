"""Let an agent answer within a time, the seconds of its own turn; functions have threads of their own."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import Any, Generic, TypeVar

CLEANUP_S = 1.0  # for an agent that is cancelled
_BLOCKING_S = 0.05  # a step of an agent that takes longer than this holds up the others

_T = TypeVar("_T")
_left_behind: list[asyncio.Task[Any]] = []  # so that their coroutines are not closed while they wait


class AgentTimeoutError(Exception):
    """The agent took longer for a turn than it may."""


class Clock:
    """The seconds of several turns in an event loop, without those in which another turn blocked it."""

    def __init__(self) -> None:
        self._blocked: list[tuple[float, float, object]] = []  # from when to when, by whom

    def stepped(self, begin_s: float, owner: object) -> None:
        """Note a step of a turn that has just ended."""
        end_s = time.monotonic()
        if end_s - begin_s > _BLOCKING_S:
            self._blocked.append((begin_s, end_s, owner))

    def took_s(self, begin_s: float, end_s: float, owner: object) -> float:
        """Return how long a turn took by itself."""
        others = (
            min(end_s, until_s) - max(begin_s, from_s)
            for from_s, until_s, by in self._blocked
            if by is not owner and from_s < end_s and until_s > begin_s
        )
        return end_s - begin_s - sum(others)


class _Stepped(Generic[_T]):
    """A coroutine whose steps a clock counts."""

    def __init__(self, coroutine: Coroutine[Any, Any, _T], clock: Clock) -> None:
        self._coroutine, self._clock = coroutine, clock

    def __await__(self) -> Generator[Any, Any, _T]:
        steps = self._coroutine.__await__()
        raised: BaseException | None = None
        while True:
            begin_s = time.monotonic()
            try:
                awaited = steps.send(None) if raised is None else steps.throw(raised)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self._clock.stepped(begin_s, self._coroutine)
            raised = None
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 (it is thrown into the coroutine)
                raised = error


async def in_time(coroutine: Coroutine[Any, Any, _T], limit_s: float, clock: Clock) -> _T:
    """Return the result of an agent's coroutine, or raise its exception.

    Raises AgentTimeoutError if its own seconds are more than the limit, also if it answers after that. At the
    limit it is cancelled; if it has not ended within `CLEANUP_S`, it is left behind.
    """
    begin_s = time.monotonic()
    end_s: list[float] = []

    async def ended() -> tuple[_T | None, BaseException | None]:
        try:
            return await _Stepped(coroutine, clock), None
        except BaseException as error:  # noqa: BLE001 (raised below: in a task some would end the event loop)
            return None, error
        finally:
            end_s.append(time.monotonic())

    task = asyncio.create_task(ended())
    try:
        while not task.done():
            left_s = limit_s - clock.took_s(begin_s, time.monotonic(), coroutine)
            if left_s <= 0:
                break
            await asyncio.wait({task}, timeout=left_s)
    except BaseException:
        await _end(task)
        raise
    is_in_time = task.done()
    has_ended = is_in_time or await _end(task)
    took_s = clock.took_s(begin_s, end_s[0] if end_s else time.monotonic(), coroutine)
    if is_in_time and took_s <= limit_s:
        value, error = task.result()
        if error is not None:
            raise error
        return value  # type: ignore[return-value]
    reason = f"it took {took_s:.1f} s, expected at most {limit_s:g} s (the setting run.timeout)"
    if not has_ended:
        reason += f"; cancelled, it had not ended after {CLEANUP_S:g} s more, and was left behind"
    raise AgentTimeoutError(reason)


async def _end(task: asyncio.Task[Any]) -> bool:
    """Cancel a task, and return whether it has ended after a moment; one that has not is left behind."""
    task.cancel()
    await asyncio.wait({task}, timeout=CLEANUP_S)
    if not task.done():
        # The end of the event loop waits for the tasks that are registered.
        asyncio.tasks._unregister_task(task)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        _left_behind.append(task)
    return task.done()


async def in_thread(function: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
    """Call a function in a thread of its own, which ends with it, with the context of the caller."""
    call = functools.partial(contextvars.copy_context().run, function, *arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(OWN_THREADS, call)


class ThreadPerCall(ThreadPoolExecutor):
    """Calls each function in a thread of its own, for which the process does not wait at its end.

    A pool would be full of functions that do not answer in time, and asyncio takes no other kind.
    """

    _numbers = itertools.count()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Call a function in a thread."""
        future: Future[Any] = Future()

        def call() -> None:
            try:
                result = function(*arguments, **named)
            except BaseException as error:  # noqa: BLE001 (the future has it)
                with suppress(Exception):  # nobody waits for it any more
                    future.set_exception(error)
            else:
                with suppress(Exception):
                    future.set_result(result)

        Thread(target=call, name=f"agent-{next(self._numbers)}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for no thread."""


OWN_THREADS = ThreadPerCall()
