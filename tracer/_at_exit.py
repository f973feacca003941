"""Flush spans when a process ends: at its exit, by a signal, and as a worker of `multiprocessing`.

- An exit (the end of `main`, an exception, SIGINT, `sys.exit`) runs `atexit` functions, in forked processes
  too.
- SIGTERM and SIGQUIT end a process without them. Servers such as uvicorn answer what is in flight, and then
  raise the signal once more without a handler. So a handler is chained before the one that is there: it
  flushes, and from then on whatever ends is flushed at once, on its own thread.
- A worker of `multiprocessing` ends with `os._exit` after the finalizers that were made in it. A `Pool` ends
  its workers with SIGTERM: a handler in Python would run on the main thread, which may never wake for it if
  the signal arrives just before it waits for a task, and the pool would wait for ever. So workers get a
  handler only before one of their own; `tracer/exporter.py` keeps the spans of the others.
"""

from __future__ import annotations

# `signal.getsignal` takes 7 µs where a handler is a function, as it looks for it among constants first.
import _signal  # type: ignore[import-not-found]
import atexit
import multiprocessing
import os
import signal
import threading
import time
from multiprocessing import util
from types import FrameType
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from spangrade.tracer import semconv

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span as SDKSpan

# With SIGQUIT, gunicorn ends uvicorn's workers at once.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGQUIT") if hasattr(signal, name))
_LONGEST_S = 10.0  # that the end of the process waits for a database or an endpoint


class FlushingSpanProcessor(BatchSpanProcessor):
    """Exports batches of spans, the last when the process ends."""

    def on_start(self, span: SDKSpan, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Look for signals: a server may have set its handlers after `configure`, or forked."""
        if _is_outermost(span):
            _ending.handle_signals()

    def on_end(self, span: ReadableSpan) -> None:
        """Add the span to the batch; flush it if the process is about to end."""
        super().on_end(span)
        if _ending.seconds_left > 0 and (_is_outermost(span) or (span.attributes or {}).get(semconv.TURN)):
            started_s = time.monotonic()
            self.force_flush()
            _ending.seconds_left -= time.monotonic() - started_s

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Export all spans that have ended."""
        _ending.flushing.add(thread := threading.get_ident())
        try:
            return super().force_flush(timeout_millis)
        finally:
            _ending.flushing.discard(thread)


def _is_outermost(span: ReadableSpan) -> bool:
    return span.parent is None or span.parent.is_remote


class _Ending:
    """Whether the process is about to end, by a signal."""

    def __init__(self) -> None:
        self.seconds_left = 0.0  # for flushing what ends after the signal
        self.flushing: set[int] = set()  # threads

    def handle_signals(self) -> None:
        """Set handlers, where a signal is not ignored and not handled outside Python.

        Only the main thread may: in another one this does nothing.
        """
        if threading.get_ident() != threading.main_thread().ident:
            return
        for number in _SIGNALS:
            there = _signal.getsignal(number)
            is_default = there == signal.SIG_DFL and multiprocessing.parent_process() is None
            if is_default or (callable(there) and not isinstance(there, _Handler)):
                signal.signal(number, _Handler(there))

    def after_fork(self) -> None:
        """Begin anew in a forked process."""
        self.seconds_left = 0.0
        self.flushing.clear()


class _Handler:
    """Flushes at a signal, and then calls the handler that the signal had before."""

    def __init__(self, there: object) -> None:
        self.there = there

    def __call__(self, number: int, frame: FrameType | None) -> None:
        is_first, _ending.seconds_left = _ending.seconds_left == 0, _LONGEST_S
        # In a thread: this one may have been interrupted while it held a lock that flushing needs.
        flush = threading.Thread(target=_flush_all, name="spangrade-flush", daemon=True)
        flush.start()
        is_flushing = threading.get_ident() in _ending.flushing
        if is_first and not is_flushing:
            flush.join(_LONGEST_S)
        if callable(self.there):
            self.there(number, frame)
            return
        signal.signal(number, signal.SIG_DFL)
        if is_flushing:  # it goes on, and then the process ends
            threading.Thread(target=_end, args=(number, flush), daemon=True).start()
        else:
            os.kill(os.getpid(), number)


def _end(number: int, flush: threading.Thread) -> None:
    flush.join(_LONGEST_S)
    os.kill(os.getpid(), number)


def _forget_in_worker() -> None:
    """Let a worker of `multiprocessing` end as without us, where there is no other handler."""
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if isinstance(handler, _Handler) and handler.there == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)


_processors: list[BatchSpanProcessor] = []
_ending = _Ending()


def flush_at_exit(processor: BatchSpanProcessor) -> None:
    """Flush the processor when this process ends, and when a process forked from it does."""
    if not _processors:
        # Of the objects registered here, `multiprocessing` keeps no reference.
        util.register_after_fork(_flush_all, _prepare_worker)
        if multiprocessing.parent_process() is not None:
            _prepare_worker()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_ending.after_fork)
    _processors.append(processor)
    atexit.register(processor.force_flush)
    _ending.handle_signals()


def _prepare_worker(_: object = None) -> None:
    """Flush when this worker of `multiprocessing` ends."""
    _forget_in_worker()
    util.Finalize(None, _flush_all, exitpriority=0)


def _flush_all() -> None:
    for processor in _processors:
        processor.force_flush()
