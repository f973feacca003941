"""Take one turn with an agent and capture the spans that it emits, apart from those of any other turn."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from spangrade import tracer
from spangrade.converters.spans.observation import ModelCall, Observation, RunSpan, ToolUse
from spangrade.converters.spans.registry import observe
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.agents.adapters import Answer, Reply
from spangrade.evaluator.agents.exchange import Exchange, ObservedCall, observed, why_unknown
from spangrade.evaluator.turn import Turn as ConversationTurn
from spangrade.tracer import semconv
from spangrade.tracer._operation import CurrentSession
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.exporter import UnbufferedSpanProcessor, stored_spans
from spangrade.tracer.instrument import CurrentTurn
from spangrade.tracer.redaction import Redaction
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

_STRAY_NS = 1_000_000_000  # after a turn, in which a call in no turn may be its own
_STARTED_NS = "_spangrade_started_ns"  # of a thread: when it, or the one that started it, was started
_LOCK_PATIENCE_S = 30.0  # all workers of a test run write to one file


class CapturedTurn:
    """A turn: its own span as `root`, and the spans inside it that have started and ended.

    `calls` are the names of the tools that it is known to have called. `strays` are spans that it may have
    started, and that are not captured: in no turn, or of another tracer provider; an agent in another
    process has none (`has_strays`).
    """

    def __init__(self, root: CurrentTurn, dialects: Sequence[Vendor]) -> None:
        self.root = root
        self._begin_ns = time.time_ns()
        self.calls: Collection[str] = ()
        self.has_strays = True
        self.strays: list[ReadableSpan] = []
        self._dialects = dialects
        self._open: dict[int, ReadableSpan] = {}
        self._ended: list[ReadableSpan] = []

    def started(self, span: ReadableSpan) -> None:
        """Add a span that has started."""
        self._open[span.context.span_id] = span

    def ended(self, span: ReadableSpan) -> None:
        """Add a span that has ended."""
        self._ended.append(span)
        self._open.pop(span.context.span_id, None)

    def spans(self) -> list[Span]:
        """Return the ended spans in the form in which they are stored; `root` is one once it is over."""
        return stored_spans(list(self._ended))

    def take(self) -> list[Span]:
        """Return the ended spans, each of them once."""
        taken = list(self._ended)
        del self._ended[: len(taken)]
        return stored_spans(taken)

    def running(self) -> str | None:
        """Return what has not ended, None if all agents, model calls and tools have."""
        names = [span.name for span, _ in self._of_agents(list(self._open.values()))]
        return f"started and never ended: {', '.join(names)}" if names else None

    def outside(self) -> str | None:
        """Return which calls that are not captured may be this turn's, unless it is known to call them."""
        own_trace = self.root.span.get_span_context().trace_id
        outside: set[str] = set()
        elsewhere: set[str] = set()
        for span, o in self._of_agents(self.strays):
            if isinstance(o, ToolUse) and (name := o.name or span.name) not in self.calls:
                (elsewhere if int(span.trace_id, 16) == own_trace else outside).add(name)
        self.strays = []
        found = {
            "called outside the turn's context, as in a thread of its own": outside,
            "recorded by a tracer provider that is not the process's": elsewhere,
        }
        return (
            "; ".join(f"{what}: {', '.join(sorted(names))}" for what, names in found.items() if names) or None
        )

    def was_open(self, at_ns: int) -> bool:
        """Return whether the turn was in progress at a time."""
        return self._begin_ns <= at_ns and (self.root.end_ns is None or at_ns <= self.root.end_ns)

    def _of_agents(self, spans: Sequence[ReadableSpan]) -> Iterator[tuple[Span, Observation]]:
        """Yield the spans of agents, model calls and tools, and what they are."""
        now_ns = time.time_ns()
        stored = [span._replace(end_ns=now_ns) for span in stored_spans(spans)]
        for span, o in zip(stored, observe(stored, {}, self._dialects), strict=True):
            if isinstance(o, ModelCall | ToolUse) or (isinstance(o, RunSpan) and o.is_agent):
                yield span, o

    def marks(self) -> list[Span]:
        """Return a span that says what is not seen of the turn, none if nothing."""
        unseen = "; ".join(filter(None, (self.running(), self.outside())))
        if not unseen or not isinstance(self.root.span, ReadableSpan):  # or that is not recorded
            return []
        (root,) = stored_spans([self.root.span])
        return [
            root._replace(
                span_id=uuid.uuid4().hex[:16],
                parent_span_id=root.span_id,
                name="unseen",
                attributes={semconv.UNFINISHED: unseen},
                events=[],
                scope_name=semconv.SCOPE,
            )
        ]


class LateSpans:
    """The turns of a run that are over, whose spans may still end."""

    def __init__(self) -> None:
        self._turns: list[tuple[int, CapturedTurn]] = []

    def add(self, trace_id: int, turn: CapturedTurn) -> None:
        """Add a turn, whose spans are captured further on."""
        self._turns.append((trace_id, turn))

    def end(self) -> list[Span]:
        """Capture no further; return the spans that ended after their turns, and marks of what is unseen."""
        found = []
        for trace_id, turn in self._turns:
            found += [*turn.take(), *turn.marks()]
            _capture().turns.pop(trace_id, None)
        self._turns.clear()
        return found


async def take_turn(
    answer: Answer,
    text: str,
    history: Sequence[ConversationTurn],
    session: CurrentSession,
    spans: list[Span],
    *,
    is_stored: bool,
    agent: str | None = None,
    at_end: Callable[[CurrentTurn, Exchange | None], None] = lambda *_: None,
    dialects: Sequence[Vendor] = (),
    late: LateSpans | None = None,
    in_process: bool = True,
) -> Exchange:
    """Pass the user's text to an agent, and return what came back; add the spans of the turn to `spans`.

    What the agent raises, of whatever kind, is the exchange's `error`. If the spans are stored, what the
    agent reported without spans is recorded in spans too, and `agent` is the name of an agent whose spans
    have none. `at_end` is called with the turn's own span just before it ends, and the exchange, None if the
    turn is interrupted. `dialects` are those of the project's settings; `late` captures what ends later.
    Without `in_process`, spans of this process that are in no turn are not the agent's.
    """
    task = asyncio.current_task()
    with captured_turn(session, text, spans, late, dialects) as captured:
        captured.has_strays = in_process
        exchange = None
        try:
            start_ns = time.time_ns()
            error: BaseException | None = None
            try:
                reply = await answer(text, history)
            except BaseException as raised:
                if _is_interruption(raised, task):
                    raise
                reply, error = Reply(), raised
            end_ns = captured.root.end_ns = time.time_ns()  # what is done from here on is not the agent's
            exchange = observed(captured.spans(), reply, dialects)._replace(
                sent=text, error=error, start_ns=start_ns, end_ns=end_ns
            )
            captured.calls = [call.name for call in exchange.calls or ()]
            outside = captured.outside() or (why_unknown(reply) if reply.disputed else None)
            if error is None and exchange.text is not None:
                captured.root.respond(exchange.text)
            if is_stored:
                _record(captured.root, exchange, reply, agent or reply.agent, outside)
            if unseen := outside or (captured.running() if late is None else None):
                exchange = exchange._replace(calls=None, calls_unknown=unseen)
        finally:
            at_end(captured.root, exchange)
    return exchange


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


@contextmanager
def captured_turn(
    session: CurrentSession,
    text: str,
    spans: list[Span],
    late: LateSpans | None = None,
    dialects: Sequence[Vendor] = (),
) -> Iterator[CapturedTurn]:
    """Open a turn that is a trace of its own, and add the spans of that trace to `spans` when it is over.

    Those that end later are for `late`.

    Spans belong to it wherever OpenTelemetry's context goes, into tasks and `asyncio.to_thread`; turns of
    other tests at the same time do not.
    """
    capture = _capture()
    turn = CapturedTurn(tracer.turn(text), dialects)
    trace_id = 0
    token = otel.attach(otel.Context())  # a span around the test is not part of the conversation
    try:
        with session, turn.root:
            trace_id = turn.root.span.get_span_context().trace_id
            capture.turns[trace_id] = turn
            yield turn
    finally:
        spans += turn.take()
        if late is None:
            spans += turn.marks()
            capture.turns.pop(trace_id, None)
        else:
            late.add(trace_id, turn)
        otel.detach(token)


class _CaptureProcessor(UnbufferedSpanProcessor):
    """Adds each span that starts, and that ends, to the turn with its trace id."""

    def __init__(self) -> None:
        self.turns: dict[int, CapturedTurn] = {}

    def on_end(self, span: ReadableSpan) -> None:
        if span.context and (turn := self.turns.get(span.context.trace_id)):
            turn.ended(span)

    def on_start(self, span: ReadableSpan, parent_context: otel.Context | None = None) -> None:  # noqa: ARG002
        if span.context and (turn := self.turns.get(span.context.trace_id)):
            turn.started(span)
        else:
            self.strayed(span)

    def strayed(self, span: ReadableSpan) -> None:
        """Add a span that is not captured to the turns that may have caused it.

        That is the turn of its trace, if there is one; else all open turns, and the turns that were open when
        its thread was started or, if none was, the turns that have just ended.
        """
        if span.context and (turn := self.turns.get(span.context.trace_id)):
            if turn.has_strays:
                turn.strays.append(span)
            return
        turns = [turn for turn in list(self.turns.values()) if turn.has_strays]
        thread_ns = getattr(threading.current_thread(), _STARTED_NS, 0)
        earlier = [turn for turn in turns if turn.was_open(thread_ns)]
        if not earlier:
            since_ns = max(thread_ns, (span.start_time or 0) - _STRAY_NS)
            earlier = [turn for turn in turns if (turn.root.end_ns or 0) > since_ns]
        for turn in turns:
            if turn.root.end_ns is None or turn in earlier:
                turn.strays.append(span)


_processors: WeakKeyDictionary[TracerProvider, _CaptureProcessor] = WeakKeyDictionary()


def _capture() -> _CaptureProcessor:
    """Return the capture of turns in progress, to which the process's tracer provider passes spans."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        provider = TracerProvider(sampler=ALWAYS_ON)  # whatever OTEL_TRACES_SAMPLER says
        trace.set_tracer_provider(provider)
    if not isinstance(provider, TracerProvider):
        return _CaptureProcessor()  # it takes no span processor, so its spans cannot be captured
    if provider not in _processors:
        _processors[provider] = _CaptureProcessor()
        provider.add_span_processor(_processors[provider])
        _notice_other_providers()
        _note_starts_of_threads()
    return _processors[provider]


@functools.cache
def _notice_other_providers() -> None:
    """Let the capture know of spans that start in other tracer providers, where it has no processor."""
    start = SdkSpan.start

    @functools.wraps(start)
    def noticed(span: SdkSpan, *arguments: Any, **named: Any) -> None:
        start(span, *arguments, **named)
        provider = trace.get_tracer_provider()
        capture = _processors.get(cast(TracerProvider, provider))
        if capture and span._span_processor is not getattr(provider, "_active_span_processor", None):
            capture.strayed(span)

    setattr(SdkSpan, "start", noticed)  # noqa: B010 (mypy lets no method be assigned)


@functools.cache
def _note_starts_of_threads() -> None:
    """Let each thread have the time at which it was started: it tells in which turn."""
    start = threading.Thread.start

    @functools.wraps(start)
    def noted(thread: threading.Thread) -> None:
        trace_id = trace.get_current_span().get_span_context().trace_id
        by = threading.current_thread().__dict__  # one of a pool may have been started in an earlier turn
        in_turn = any(trace_id in capture.turns for capture in list(_processors.values()))
        thread.__dict__[_STARTED_NS] = time.time_ns() if in_turn else by.get(_STARTED_NS, time.time_ns())
        start(thread)

    setattr(threading.Thread, "start", noted)  # noqa: B010 (mypy lets no method be assigned)


def _record(
    root: CurrentTurn, exchange: Exchange, reply: Reply, agent: str | None, outside: str | None
) -> None:
    """Record an exchange on the turn in progress, and what the agent reported without spans in spans.

    The times of these are not the agent's. `outside` says which further calls may be the turn's.
    """
    driven = {
        "error": exchange.failure,
        "calls_unknown": exchange.calls_unknown,
        "calls_outside": outside,
        "reply_withheld": bool(exchange.text) and not root.records_content,
    }
    root.span.set_attribute(semconv.DRIVEN, dumps({key: value for key, value in driven.items() if value}))
    if exchange.error is not None:
        root.failed(exchange.error)
    calls = exchange.unrecorded
    if agent is not None and not exchange.agents:
        with tracer.agent(agent) as named:
            named.span.set_attribute(semconv.DRIVEN, "{}")
            _record_calls(calls)
    else:
        _record_calls(calls)
    if reply.state:
        tracer.set_state(reply.state)


def _record_calls(calls: Iterable[ObservedCall]) -> None:
    """Record calls as far as they are known."""
    for call in calls:
        with tracer.tool(call.name) as tool:
            tool.span.set_attribute(semconv.DRIVEN, "{}")
            if call.arguments_known:
                tool.arguments(call.arguments)
            if call.result_known:
                tool.result(call.result)


def keep(spans: Sequence[Span], db: str | Path, redact: Redaction | None = None) -> None:
    """Write spans to a database, redacted if so; wait while another process writes to it.

    Raises:
        StoreError: the database cannot be used, or not within 30 s.
    """
    with Store.open(db, wait_s=_LOCK_PATIENCE_S) as store:
        store.add(spans if redact is None else [redact(span) for span in spans])
