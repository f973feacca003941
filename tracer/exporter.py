"""Export this process's finished spans to a DuckDB file, behind OpenTelemetry's `BatchSpanProcessor`."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace import Span as SDKSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, get_current_span

from spangrade.tracer import semconv
from spangrade.tracer._operation import current_session, session_attributes
from spangrade.tracer.base.canonical_json import json_value
from spangrade.tracer.base.errors import StoreError, StoreLockedError
from spangrade.tracer.redaction import Redaction, redaction
from spangrade.tracer.span import Attributes, Span
from spangrade.tracer.store import Store, spool
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.locks import retry_while_locked
from spangrade.tracer.store.store import database_file

_log = logging.getLogger("spangrade")
_WARN_EVERY_S = 60.0
_DRAIN_S = 0.5

# A child forked while DuckDB has a file open inherits its locks but not its threads, so a fork waits for the
# write in progress.
_writing = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_writing.acquire, after_in_parent=_writing.release, after_in_child=_writing.release
    )
_MOST_PENDING = 512


class DuckDBSpanExporter(SpanExporter):
    """Writes batches of spans to the database at `db`, which is opened for each batch and closed after it.

    Between two batches the file is free for a grade, a DuckDB client or another process's spans.
    While another process has it open, a batch waits for `lock_timeout_s` seconds and then goes to the spool
    beside it, for the next writer; later batches do not wait until one has reached the database again.
    A batch that cannot be written at all is dropped and counted in `dropped`; the logger "spangrade" gets a
    warning, at most once a minute. `export` never raises.

    `redact` is a setting for `redaction()`. Raises InputError if it is unknown.
    """

    def __init__(
        self, db: str | Path, *, lock_timeout_s: float = 1.0, redact: str | Redaction | None = None
    ) -> None:
        self.db = database_file(Path(db).expanduser().absolute())
        self._redact = redaction(redact)
        self._lock_timeout_s = lock_timeout_s
        self._wait_s = lock_timeout_s
        self._dropped = 0
        self._dropped_since_warning = 0
        self._last_warning_s = float("-inf")
        self._stopped = threading.Event()
        self._kept: deque[tuple[Path, set[str]]] = deque()  # by `keep`, with the ids of spans not yet stored

    @property
    def dropped(self) -> int:
        """The number of spans that could not be stored so far."""
        return self._dropped

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Store the spans; return FAILURE if they were dropped."""
        try:
            self._write(self._redacted(spans))
        except Exception as error:  # noqa: BLE001 (the agent must go on)
            self._drop(len(spans), error)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def keep(self, spans: Sequence[ReadableSpan]) -> None:
        """Write the spans to the spool until `export` has stored them: this process may be killed before.

        They are not synced to disk: they outlive the process, not a crash of the machine.
        """
        with suppress(Exception):  # `export` reports what is wrong
            kept = self._redacted(spans)
            segment = spool.write(self.db, rows_of(kept), sync=False)
            self._kept.append((segment, {span.span_id for span in kept}))

    def _redacted(self, spans: Sequence[ReadableSpan]) -> list[Span]:
        stored = stored_spans(spans)
        return [self._redact(span) for span in stored] if self._redact else stored

    def _discard_kept(self, stored: Sequence[Span]) -> None:
        """Remove the files of `keep` whose spans are stored by now."""
        ids = {span.span_id for span in stored}
        for _ in range(len(self._kept)):
            segment, waiting = self._kept.popleft()
            waiting -= ids
            if waiting:
                self._kept.append((segment, waiting))
            else:
                with suppress(OSError):  # another process has loaded it, or the next one will
                    segment.unlink()

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002
        """Return True: nothing is buffered between two calls of `export`."""
        return True

    def shutdown(self) -> None:
        """Stop waiting for a locked database, and log the spans dropped since the last warning."""
        self._stopped.set()
        if self._dropped_since_warning:
            self._warn("the exporter was shut down")

    def _write(self, spans: list[Span]) -> None:
        """Write the spans to the database or, if it stays locked, to the spool beside it."""
        try:
            retry_while_locked(lambda: self._write_once(spans), self._wait_s, self._stopped)
        except StoreLockedError:
            self._wait_s = 0.0
            with _writing:
                spool.write(self.db, rows_of(spans))
            self._discard_kept(spans)

    def _write_once(self, spans: list[Span]) -> None:
        with _writing, Store.open(self.db) as store:
            store.add(spans)
            self._wait_s = self._lock_timeout_s
            self._discard_kept(spans)
            self._drain(store)

    def _drain(self, store: Store) -> None:
        try:
            spool.drain(store, until_s=time.monotonic() + _DRAIN_S)
        except (StoreError, OSError) as error:  # this batch is stored; the spool keeps the rest
            _log.warning("%s", error)

    def _drop(self, count: int, error: Exception) -> None:
        with _writing:
            self._dropped += count
            self._dropped_since_warning += count
        if time.monotonic() - self._last_warning_s >= _WARN_EVERY_S:
            self._warn(error)

    def _warn(self, reason: object) -> None:
        _log.warning(
            "%d spans were not stored in %s (%d in all): %s",
            self._dropped_since_warning,
            self.db,
            self._dropped,
            reason,
        )
        self._dropped_since_warning = 0
        self._last_warning_s = time.monotonic()


class UnbufferedSpanProcessor(SpanProcessor):
    """A processor with nothing to flush. (The SDK's default of None stops the later processors.)"""

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002
        """Return True."""
        return True


class SessionSpanProcessor(UnbufferedSpanProcessor):
    """Adds the session's attributes to every span that starts inside a `session()`, also to a library's own.

    Raw model clients make one trace per call: nothing else links the call to its conversation. What the
    application gave to `session()` takes precedence over what a library has on its spans; an id that was
    made up does not.
    """

    def on_start(self, span: SDKSpan, parent_context: Context | None = None) -> None:
        """Add the conversation's id and version, and to outermost spans the session's other attributes."""
        session = current_session(parent_context)
        if session is None:
            return
        scope = span.instrumentation_scope
        if scope is not None and scope.name == semconv.SCOPE:
            return  # it started with them
        enclosing = getattr(get_current_span(parent_context), "attributes", None) or {}
        outermost = semconv.CONVERSATION_ID not in enclosing  # a web server's span may enclose them
        attributes = session_attributes(session, root=outermost)
        if session.is_named:
            # A library may set its own id later, or have it under another name.
            attributes[semconv.SESSION_ID] = session.conversation_id
        elif semconv.CONVERSATION_ID in (span.attributes or {}):
            del attributes[semconv.CONVERSATION_ID]
        span.set_attributes(attributes)


class VersionSpanProcessor(UnbufferedSpanProcessor):
    """Adds the version of the agent and of its prompts to every span, unless the span has its own.

    A session's own version comes before it: `session(version=…)`.
    """

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self.attributes = attributes

    def on_start(self, span: SDKSpan, parent_context: Context | None = None) -> None:
        """Add the attributes that the span and its session do not have."""
        session = current_session(parent_context)
        of_session = {} if session is None else session_attributes(session, root=False)
        own = {**of_session, **(span.attributes or {})}
        span.set_attributes({name: value for name, value in self.attributes.items() if name not in own})


def stored_spans(spans: Sequence[ReadableSpan]) -> list[Span]:
    """Return spans of the OpenTelemetry SDK as the records that are stored."""
    resources: dict[int, Attributes] = {}  # one object for all spans of a provider: converted once
    stored = []
    for span in spans:
        context = cast(SpanContext, span.get_span_context())  # a finished span has one
        scope = span.instrumentation_scope
        resource = resources.get(id(span.resource))
        if resource is None:
            resource = resources[id(span.resource)] = _attributes(span.resource.attributes)
        stored.append(
            Span(
                trace_id=format(context.trace_id, "032x"),
                span_id=format(context.span_id, "016x"),
                parent_span_id=format(span.parent.span_id, "016x") if span.parent else None,
                name=json_value(span.name),
                kind=span.kind.name,
                start_ns=span.start_time or 0,
                end_ns=span.end_time or 0,
                status=span.status.status_code.name,
                status_message=json_value(span.status.description),
                attributes=_attributes(span.attributes),
                events=[
                    {
                        "name": event.name,
                        "time_ns": event.timestamp,
                        "attributes": _attributes(event.attributes),
                    }
                    for event in span.events
                ],
                links=[
                    {
                        "trace_id": format(link.context.trace_id, "032x"),
                        "span_id": format(link.context.span_id, "016x"),
                        "attributes": _attributes(link.attributes),
                    }
                    for link in span.links
                ],
                resource=resource,
                scope_name=(scope.name or None) if scope else None,
                scope_version=(scope.version or None) if scope else None,
                trace_state=context.trace_state.to_header() or None,
            )
        )
    return stored


def _attributes(attributes: Mapping[str, Any] | None) -> Attributes:
    return {str(key): json_value(value) for key, value in (attributes or {}).items()}


class WorkerSpanProcessor(UnbufferedSpanProcessor):
    """In workers of `multiprocessing`, writes spans to the spool when the outermost of them ends.

    At the end of its `with` block, a `Pool` sends its workers SIGTERM as soon as it has their results: what a
    worker did is on disk before it can return one. The batch processor stores the same spans in the database
    later, and the exporter removes them from the spool then. In other processes it does nothing.
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
