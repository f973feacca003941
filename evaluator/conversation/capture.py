"""The spans that an agent emits in one turn of a test, told apart from those of any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from spangrade import tracer
from spangrade.tracer.exporter import stored_spans
from spangrade.tracer.instrument import Turn
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

_LOCK_PATIENCE_S = 30.0  # for all the workers of a test run write to one file


class TurnSpans:
    """One turn that is under way: its own span, and the spans that have ended inside it."""

    def __init__(self, root: Turn) -> None:
        self.root = root
        self._ended: list[ReadableSpan] = []

    def add(self, span: ReadableSpan) -> None:
        """Take a span that has ended."""
        self._ended.append(span)

    def read(self) -> list[Span]:
        """Return the spans as they are stored; the turn's own is among them once it is over."""
        return stored_spans(self._ended)


@contextmanager
def recorded_turn(conversation_id: str, text: str, spans: list[Span]) -> Iterator[TurnSpans]:
    """Open a turn that is a trace of its own, and add the spans of that trace to `spans` when it is over.

    What flows with OpenTelemetry's context belongs to it, into tasks and `asyncio.to_thread`; turns of
    other tests at the same time do not.
    """
    collected = _collected()
    turn = TurnSpans(tracer.turn(text))
    trace_id = 0
    token = otel.attach(otel.Context())  # whatever span is around the test is not part of the conversation
    try:
        with tracer.session(conversation_id), turn.root:
            trace_id = turn.root.span.get_span_context().trace_id
            collected[trace_id] = turn
            yield turn
    finally:
        collected.pop(trace_id, None)
        spans += turn.read()
        otel.detach(token)


class _Collector(SpanProcessor):
    """Hands each span that ends to the turn that its trace is."""

    def __init__(self) -> None:
        self.turns: dict[int, TurnSpans] = {}

    def on_end(self, span: ReadableSpan) -> None:
        if span.context and (turn := self.turns.get(span.context.trace_id)):
            turn.add(span)

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002
        return True


_collectors: WeakKeyDictionary[TracerProvider, _Collector] = WeakKeyDictionary()


def _collected() -> dict[int, TurnSpans]:
    """Return the turns, by trace id, whose spans the process's tracer provider hands over."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    if not isinstance(provider, TracerProvider):
        return {}  # it takes no span processor: its spans are not seen
    if provider not in _collectors:
        _collectors[provider] = _Collector()
        provider.add_span_processor(_collectors[provider])
    return _collectors[provider].turns


def keep(spans: Sequence[Span], db: str | Path) -> None:
    """Write spans to a database, waiting while another process writes to it.

    Raises:
        StoreError: the database cannot be used, or not within 30 s.
    """
    with Store.open(db, wait_s=_LOCK_PATIENCE_S) as store:
        store.add(spans)
