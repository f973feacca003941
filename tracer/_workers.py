"""Keep the spans of `multiprocessing`'s workers, which are killed without notice.

At the end of its `with` block, a `Pool` sends its workers SIGTERM as soon as it has their results. So what a
worker did is on disk before it can return a result: whenever its outermost span ends.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan

from spangrade.tracer.exporter import DuckDBSpanExporter, UnbufferedSpanProcessor

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span as SDKSpan

_MOST_PENDING = 512


class WorkerSpanProcessor(UnbufferedSpanProcessor):
    """In workers of `multiprocessing`, writes spans to the spool when the outermost of them ends.

    That is on the worker's own thread. The batch processor stores the same spans in the database later, and
    the exporter removes them from the spool then. In other processes it does nothing.
    """

    def __init__(self, exporter: DuckDBSpanExporter) -> None:
        self._exporter = exporter
        self._open: set[int] = set()
        self._pending: deque[ReadableSpan] = deque()

    def on_start(self, span: SDKSpan, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Remember that the span is open in this process."""
        if multiprocessing.parent_process() is not None:
            self._open.add(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        """Write the finished spans to the spool if this one's parent is not open in this process."""
        context = span.get_span_context()
        if multiprocessing.parent_process() is None or not (context and context.trace_flags.sampled):
            return
        self._open.discard(context.span_id)
        self._pending.append(span)
        outermost = span.parent is None or span.parent.span_id not in self._open
        if outermost or len(self._pending) >= _MOST_PENDING:
            self._exporter.keep(self._taken())

    def _taken(self) -> list[ReadableSpan]:
        spans = []
        with suppress(IndexError):  # a deque needs no lock, which a fork could copy while it is held
            while True:
                spans.append(self._pending.popleft())
        return spans
