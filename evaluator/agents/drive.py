"""Drive an agent: pass it texts turn by turn, and see what it does in and after each turn.

A run, a test, a server's client, a simulated user and a replay drive an agent by this module alone: what it
does has one recorder, one time limit, and one rule for what comes late.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import thread as thread_pools
from types import FrameType
from typing import Any

from spangrade import tracer
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.agents.adapters import Answer, Reply, converse
from spangrade.evaluator.agents.adapters.reading import beyond_known
from spangrade.evaluator.agents.adapters.remote import ChatAgent, HttpAgent
from spangrade.evaluator.agents.capture import LateSpans, captured_turn
from spangrade.evaluator.agents.exchange import REPORTED, Exchange, ObservedCall, observed, why_unknown
from spangrade.evaluator.agents.in_time import Clock, in_time
from spangrade.evaluator.turn import Turn
from spangrade.tracer import semconv
from spangrade.tracer._operation import CurrentSession
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.instrument import CurrentTurn
from spangrade.tracer.span import Span

_LOOK_AGAIN_S = 0.02
_WITH_OWN_THREADS = (
    *("opentelemetry", "pytest", "_pytest", "xdist", "execnet"),
    *("spangrade.evaluator.judge", "spangrade.tracer"),
)


class Driver:
    """Drives one agent in one event loop, in any number of conversations, until `end`.

    A turn may take `timeout_s`. What an agent in this process does is captured as long as it may do something
    more, at most `late_s` after its last reply. `dialects` are those of the project's settings, `name` that
    of an agent whose spans have none.
    """

    def __init__(
        self,
        agent: Any,
        *,
        timeout_s: float,
        late_s: float,
        dialects: Sequence[Vendor] = (),
        name: str | None = None,
    ) -> None:
        self._agent = agent
        self.is_elsewhere = isinstance(agent, HttpAgent | ChatAgent)  # its spans end in another process
        self._timeout_s = timeout_s
        self._late_s = late_s
        self._dialects = dialects
        self._name = name
        self._clock = Clock()
        self._late = LateSpans()
        self._last_reply_s = 0.0

    def open(self, session_id: str) -> Answer:
        """Open a conversation with the agent, with an instance of its own if that is a class.

        An exception there is raised at the first turn. Raises InputError if no adapter supports the agent.
        """
        try:
            return converse(self._agent() if inspect.isclass(self._agent) else self._agent, session_id)
        except InputError:
            raise
        except BaseException as error:  # noqa: BLE001 (third-party code: the agent's class)
            raised = error

        async def answer(text: str, history: Sequence[Turn]) -> Reply:  # noqa: ARG001
            raise raised

        return answer

    async def take_turn(
        self,
        answer: Answer,
        text: str,
        history: Sequence[Turn],
        session: CurrentSession,
        spans: list[Span],
        *,
        is_stored: bool = True,
        at_end: Callable[[CurrentTurn, Exchange | None], None] = lambda *_: None,
    ) -> Exchange:
        """Pass the user's text to the agent, and return what came back; add the spans of the turn to `spans`.

        What the agent raises, of whatever kind, is the exchange's `error`. If the spans are stored, what the
        agent reported without spans is recorded in spans too. `at_end` is called with the turn's own span
        just before it ends, and the exchange, None if the turn is interrupted.
        """
        task = asyncio.current_task()
        with captured_turn(
            session, text, spans, self._late, self._dialects, has_strays=not self.is_elsewhere
        ) as captured:
            exchange = None
            try:
                start_ns = time.time_ns()
                error: BaseException | None = None
                try:
                    reply = await in_time(answer(text, history), self._timeout_s, self._clock)
                except BaseException as raised:
                    if _is_interruption(raised, task):
                        raise
                    reply, error = Reply(), raised
                end_ns = captured.root.end_ns = time.time_ns()  # what is done from here on is not the agent's
                exchange = observed(captured.spans(), reply, self._dialects)._replace(
                    sent=text, error=error, start_ns=start_ns, end_ns=end_ns
                )
                captured.reported = Counter(call.name for call in exchange.unrecorded)
                trace_id = f"{captured.root.span.get_span_context().trace_id:032x}"
                disputed = beyond_known(reply.disputed, exchange.calls or ())
                unseen = captured.elsewhere() or (why_unknown(reply) if disputed else None)
                exchange = exchange._replace(
                    calls_unseen=unseen, calls_outside=captured.outside(), trace_id=trace_id
                )
                if error is None and exchange.text is not None:
                    captured.root.respond(exchange.text)
                if is_stored:
                    _record(captured.root, exchange, self._name or reply.agent)
            finally:
                at_end(captured.root, exchange)
        self._last_reply_s = time.monotonic()
        return exchange

    async def end(self) -> list[Span]:
        """Wait for what the agent may still do, and return what came after the replies: see `give_up`."""
        if not self.is_elsewhere:
            until_s = self._last_reply_s + self._late_s
            await asyncio.sleep(0)  # for what the loop does next
            while (left_s := until_s - time.monotonic()) > 0 and _may_go_on():
                await asyncio.sleep(min(left_s, _LOOK_AGAIN_S))
        return self.give_up()

    def give_up(self) -> list[Span]:
        """Capture no further; return the spans that ended after their turns, and marks of what is unseen."""
        return self._late.end()


def _may_go_on() -> bool:
    """Return whether anything in this process may act for an agent: a thread, a task, a timer of the loop."""
    waiting = (threading.current_thread(), threading.main_thread())
    others = [
        thread for thread in threading.enumerate() if thread not in waiting and not _is_tools_own(thread)
    ]
    frames = sys._current_frames() if others else {}
    if any(not _waits_in_pool(frames.get(one.ident or 0)) for one in others):
        return True
    if any(task is not asyncio.current_task() for task in asyncio.all_tasks()):
        return True
    timers = getattr(asyncio.get_running_loop(), "_scheduled", None)  # of loops of other packages not known
    return timers is None or any(not timer.cancelled() for timer in timers)


def _waits_in_pool(frame: FrameType | None) -> bool:
    """Return whether a thread, by its innermost frame, is one of a pool that has no work.

    It does nothing before another gives it some. A loop's pool is there from the first name that is looked
    up, or the first `asyncio.to_thread`.
    """
    if frame is None or frame.f_code is not thread_pools._worker.__code__:
        return False
    held = frame.f_locals
    return held.get("work_item") is None and held["work_queue"].empty()


def _is_tools_own(thread: threading.Thread) -> bool:
    """Return whether a thread is of what exports spans, or of what runs tests."""
    runs = getattr(thread, "_target", None) or getattr(thread, "function", None)
    return (getattr(runs, "__module__", None) or "").startswith(_WITH_OWN_THREADS)


def _is_interruption(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return whether an error ends the task of a turn from outside, and is not one that the agent raised."""
    kind = type(error)  # of an exception whose `__class__` raises, isinstance raises
    if issubclass(kind, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    if issubclass(kind, GeneratorExit):  # one that closes a coroutine comes when its task does not run
        try:
            return asyncio.current_task() is not task
        except RuntimeError:  # nor does an event loop
            return True
    return False


def _record(root: CurrentTurn, exchange: Exchange, agent: str | None) -> None:
    """Record an exchange on the turn in progress, and what the agent reported without spans in spans.

    The times of these are not the agent's.
    """
    driven = {
        "error": exchange.failure,
        "calls_unknown": exchange.calls_unknown,
        "calls_unseen": exchange.calls_unseen,
        "calls_outside": exchange.calls_outside,
        "reply_withheld": bool(exchange.text) and not root.records_content,
    }
    root.span.set_attribute(semconv.DRIVEN, dumps({key: value for key, value in driven.items() if value}))
    if exchange.error is not None:
        root.failed(exchange.error)
    if agent is not None and not exchange.agents:
        with tracer.agent(agent) as named:
            named.span.set_attribute(semconv.DRIVEN, REPORTED)
            _record_calls(exchange.unrecorded)
    else:
        _record_calls(exchange.unrecorded)
    if exchange.reply.state:
        tracer.set_state(exchange.reply.state)


def _record_calls(calls: Iterable[ObservedCall]) -> None:
    """Record calls as far as they are known."""
    for call in calls:
        with tracer.tool(call.name) as tool:
            tool.span.set_attribute(semconv.DRIVEN, REPORTED)
            if call.arguments_known:
                tool.arguments(call.arguments)
            if call.result_known:
                tool.result(call.result)
