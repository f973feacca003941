"""Capture the spans of a turn with an agent, apart from those of any other turn, and what is unseen of it."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
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
from spangrade.evaluator.session import outside_text
from spangrade.tracer import semconv
from spangrade.tracer._operation import CurrentSession
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

    `strays` are spans that it may have started, and that are not captured: in no turn, or of another tracer
    provider; an agent in another process has none (`has_strays`). `reported` are the names of the calls that
    only the agent's reply has. `processes` are processes with Python that it started.
    """

    def __init__(self, root: CurrentTurn, dialects: Sequence[Vendor], *, has_strays: bool) -> None:
        self.root = root
        self._begin_ns = time.time_ns()
        self.has_strays = has_strays
        self.strays: list[ReadableSpan] = []
        self.reported: Counter[str] = Counter()
        self.processes: list[str] = []
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

    def started_process(self, name: str) -> None:
        """Note a process with Python, unless a tool of the turn starts it: its calls are that tool's."""
        by_id = {span.span_id: o for span, o in self._of_agents(list(self._open.values()))}
        current: object = trace.get_current_span()
        while isinstance(current, ReadableSpan):
            if isinstance(by_id.get(_id(current)), ToolUse):
                return
            current = self._open.get(current.parent.span_id) if current.parent else None
        self.processes.append(name)

    def elsewhere(self) -> str | None:
        """Return in which processes it may have called what no span has; None if it started none."""
        if not self.processes:
            return None
        names = ", ".join(dict.fromkeys(self.processes))
        return f"started a process of its own, whose calls are not captured: {names}"

    def outside(self) -> tuple[str, ...]:
        """Return the tools of calls that are not captured, and may be this turn's.

        A span of another tracer provider is one of a call that is known if it has the id of that call, or one
        is below the other; if the reply alone has the call, it is by its name.
        """
        strays, self.strays = self.strays, []
        if not strays:
            return ()
        captured = [*list(self._open.values()), *list(self._ended)]
        parents = {_id(span): span.parent and f"{span.parent.span_id:016x}" for span in (*captured, *strays)}
        known = list(self._of_agents(captured))
        ids = {one for _, o in known for one in _call_ids(o)}
        tools = [(span.span_id, o.name) for span, o in known if isinstance(o, ToolUse)]
        reported, met = Counter(self.reported), set[tuple[str, str | None]]()
        found: dict[str, None] = {}
        for span, o in self._of_agents(strays):
            if not isinstance(o, ToolUse) or o.call_id in ids:
                continue
            name = o.name or span.name
            around = [one for one, of in tools if of == name and _are_nested(one, span.span_id, parents)]
            pair = next((one for one in around if (one, span.scope_name) not in met), None)
            if pair is not None:
                met.add((pair, span.scope_name))
                if _is_below(pair, span.span_id, parents):  # else a span is missing around the call
                    self._ended += [stray for stray in strays if _id(stray) == span.span_id]
            elif reported[name] and int(span.trace_id, 16) == self.root.span.get_span_context().trace_id:
                reported[name] -= 1
            else:
                found[name] = None
        return tuple(found)

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
        """Return a span that says what is not seen of the turn once it is over, none if nothing."""
        outside = self.outside()
        called = outside_text(outside) if outside else None
        unseen = "; ".join(filter(None, (self.running(), called)))
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


def _call_ids(o: Observation) -> Iterator[str]:
    """Yield the ids of the calls that a span of a tool, or of a model, records."""
    calls = (o,) if isinstance(o, ToolUse) else o.exchange.tool_calls if isinstance(o, ModelCall) else ()
    return (call.call_id for call in calls if call.call_id)


def _are_nested(one: str, other: str, parents: Mapping[str, str | None]) -> bool:
    """Return whether one of two spans is inside the other."""
    return _is_below(one, other, parents) or _is_below(other, one, parents)


def _is_below(span_id: str, above: str, parents: Mapping[str, str | None]) -> bool:
    parent = parents.get(span_id)
    while parent is not None and parent != above:
        parent = parents.get(parent)
    return parent is not None


def _id(span: ReadableSpan) -> str:
    return f"{span.context.span_id:016x}"


class LateSpans:
    """The turns of a driver that are over, whose spans may still end."""

    def __init__(self) -> None:
        self._turns: list[tuple[int, CapturedTurn]] = []

    def add(self, trace_id: int, turn: CapturedTurn) -> None:
        """Add a turn, whose spans are captured further on."""
        self._turns.append((trace_id, turn))

    def end(self) -> list[Span]:
        """Capture no further; return the spans that ended after their turns, and marks of what is unseen."""
        found = []
        for trace_id, turn in self._turns:
            marks = turn.marks()
            found += [*turn.take(), *marks]
            _capture().turns.pop(trace_id, None)
        self._turns.clear()
        return found


@contextmanager
def captured_turn(
    session: CurrentSession,
    text: str,
    spans: list[Span],
    late: LateSpans,
    dialects: Sequence[Vendor] = (),
    *,
    has_strays: bool = True,
) -> Iterator[CapturedTurn]:
    """Open a turn that is a trace of its own, and add the spans of that trace to `spans` when it is over.

    Those that end later are for `late`. Spans belong to it wherever OpenTelemetry's context goes, into tasks
    and `asyncio.to_thread`; turns of other conversations at the same time do not.
    """
    capture = _capture()
    turn = CapturedTurn(tracer.turn(text), dialects, has_strays=has_strays)
    trace_id = 0
    token = otel.attach(otel.Context())  # a span around the test is not part of the conversation
    try:
        with session, turn.root:
            trace_id = turn.root.span.get_span_context().trace_id
            capture.turns[trace_id] = turn
            yield turn
    finally:
        spans += turn.take()
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

    def in_progress(self) -> list[CapturedTurn]:
        """Return the turns that may have done what is done now: that of the context, else those not over."""
        turn = self.turns.get(trace.get_current_span().get_span_context().trace_id)
        turns = list(self.turns.values()) if turn is None else [turn]
        return [turn for turn in turns if turn.has_strays and turn.root.end_ns is None]


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
        _note_starts_of_processes()
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


@functools.cache
def _note_starts_of_processes() -> None:
    """Let turns have the processes with Python that are started in them: what these call is not captured."""

    def note(process: str | None) -> None:
        for capture in list(_processors.values()) if process else ():
            for turn in capture.in_progress():
                turn.started_process(process or "")

    def noted(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STARTS:
            note(_STARTS[event](*arguments))

    start = BaseProcess.start

    @functools.wraps(start)
    def started(process: BaseProcess) -> None:
        note(process.name)
        start(process)

    sys.addaudithook(noted)
    setattr(BaseProcess, "start", started)  # noqa: B010 (mypy lets no method be assigned)


def _python_in(command: Any, arguments: Any = (), *_: object) -> str | None:
    """Return the name of the Python that a command runs, which may have the agent's tools; None if none."""
    words = [command, *(arguments if isinstance(arguments, Iterable) else ())]
    texts = (os.fsdecode(word) for word in words if isinstance(word, str | bytes | os.PathLike))
    names = (Path(word).name for text in texts for word in text.split())
    return next((name for name in names if name.startswith("python")), None)


# The events of Python's audit by which a process starts another one.
_STARTS: Mapping[str, Callable[..., str | None]] = {
    "os.fork": lambda: "os.fork",
    "os.forkpty": lambda: "os.forkpty",
    "os.posix_spawn": _python_in,
    "os.spawn": lambda _, *command: _python_in(*command),
    "os.system": _python_in,
    "subprocess.Popen": _python_in,
}


def keep(spans: Sequence[Span], db: str | Path, redact: Redaction | None = None) -> None:
    """Write spans to a database, redacted if so; wait while another process writes to it.

    Raises:
        StoreError: the database cannot be used, or not within 30 s.
    """
    with Store.open(db, wait_s=_LOCK_PATIENCE_S) as store:
        store.add(spans if redact is None else [redact(span) for span in spans])
