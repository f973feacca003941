"""Flush spans when a process exits: also a worker of `multiprocessing`, which runs no `atexit` functions.

Such a worker ends with `os._exit` after the finalizers that were made in it. Other processes run `atexit`
functions, forked ones too. Nothing here handles SIGTERM, with which a `Pool` ends its workers: a handler in
Python would run on the main thread, which may never wake for it if the signal arrives just before it waits
for a task, and the pool would wait for ever. `tracer/_workers.py` keeps spans without one.
"""

from __future__ import annotations

import atexit
import multiprocessing
from multiprocessing import util
from typing import Protocol


class _Processor(Protocol):
    def force_flush(self) -> bool: ...


_processors: list[_Processor] = []


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
    """Flush when this worker of `multiprocessing` ends."""
    util.Finalize(None, _flush_all, exitpriority=0)


def _flush_all() -> None:
    for processor in _processors:
        processor.force_flush()
