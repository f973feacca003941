"""Flush spans when a process exits: also a worker of `multiprocessing`, which runs no `atexit` functions.

Such a worker ends with `os._exit` after the finalizers that were made in it, and a `Pool` ends its workers
with SIGTERM. Other processes run `atexit` functions, forked ones too, unless a signal kills them.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from multiprocessing import util
from typing import Any, Protocol

# A flush that cannot proceed, because the signal interrupted one, must not keep the process from ending.
_FLUSH_S = 10.0


class _Processor(Protocol):
    def force_flush(self) -> bool: ...


_processors: list[_Processor] = []
_ending = threading.Event()  # this worker runs its finalizers
_terminated = threading.Event()  # and was sent SIGTERM then


def flush_at_exit(processor: _Processor) -> None:
    """Flush the processor when this process exits, and when a process forked from it does."""
    if not _processors:
        # Of the objects registered here, `multiprocessing` keeps no reference.
        util.register_after_fork(_flush_all, _prepare_worker)
        if multiprocessing.parent_process() is not None:
            _prepare_worker()
    _processors.append(processor)
    atexit.register(processor.force_flush)


def _prepare_worker(_: object = None) -> None:
    """Flush when this worker of `multiprocessing` ends or is sent SIGTERM."""
    util.Finalize(None, _flush_at_end, exitpriority=0)
    on_main_thread = threading.current_thread() is threading.main_thread()
    if on_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _flush_and_die)


def _flush_all() -> None:
    for processor in _processors:
        processor.force_flush()


def _flush_at_end() -> None:
    """Flush; if SIGTERM arrives in the meantime, end by it afterwards."""
    _ending.set()
    _flush_all()
    if signal.getsignal(signal.SIGTERM) is _flush_and_die:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if _terminated.is_set():
        _die(signal.SIGTERM)


def _flush_and_die(number: int, _: Any) -> None:
    """Flush, then end as the signal would have."""
    if _ending.is_set():
        _terminated.set()  # this is the thread that is flushing
        return
    # On another thread: the signal may have interrupted a flush on this one, which holds the locks.
    flush = threading.Thread(target=_flush_all, daemon=True)
    with suppress(RuntimeError):  # the interpreter is shutting down
        flush.start()
        flush.join(_FLUSH_S)
    _die(number)


def _die(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
