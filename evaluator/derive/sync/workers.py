"""Work in several processes, with the results in the order of the work."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spangrade.tracer.base.errors import SpangradeError
from spangrade.tracer.store.untrusted import end_idle

if TYPE_CHECKING:
    from concurrent.futures import Future

MOST_WORKERS = 4  # the one process that writes the database is the limit then
FEW_SPANS = 20_000  # below them, starting processes takes longer than they save

_RARELY = (1_000_000, 50, 100)  # the values that are kept until they are written are fewer
_few = threading.Lock()
_usual: list[tuple[int, int, int]] = []  # the thresholds before, once for each thread that has changed them

_given: list[Any] = []  # in a worker: what its functions share

InOrder = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def default_workers(spans: float) -> int:
    """Return how many processes a number of spans is worth: the number of CPUs, up to `MOST_WORKERS`."""
    return 1 if spans < FEW_SPANS else min(os.cpu_count() or 1, MOST_WORKERS)


@contextmanager
def workers_in_order(workers: int, given: Any = None) -> Iterator[InOrder]:
    """Give a function like the built-in `map` that calls functions in `workers` processes, itself for one.

    It takes the next argument while earlier ones are worked on, but at most `2 * workers` ahead. What all
    calls need is `given` to the processes, once: a copy of this process has it as it is. Raises
    SpangradeError if a process is killed. The processes have ended when the block ends, however it does.
    """
    if workers <= 1:
        yield map
        return
    # Here, because most commands need no other process.
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
    from multiprocessing import get_context

    forks = _has_one_thread()
    context = get_context("fork" if forks else "spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(given,))
    if forks:
        with _ctrl_c_later():
            pool.submit(int)  # forks all of them: later DuckDB may have threads

    def in_order(function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
        started: deque[Future[Any]] = deque()
        for argument in arguments:
            with _ctrl_c_later():  # it may start a process
                started.append(pool.submit(function, argument))
            if len(started) > 2 * workers:
                yield started.popleft().result()
        while started:
            yield started.popleft().result()

    try:
        yield in_order
    except BrokenProcessPool as error:
        raise SpangradeError(
            "a worker process ended unexpectedly (killed, or out of memory): what was complete is kept; "
            "run the command again, with SPANGRADE_WORKERS=1 if it happens again"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _has_one_thread() -> bool:
    """Return whether this process certainly has one thread, as a command has while no database is open.

    Then it may be forked, which takes a tenth of the time of a new process that imports everything again. A
    copy of a process with more, such as those of DuckDB, may wait forever for a lock that one of them had.
    """
    end_idle()
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:  # not Linux
        return False


@contextmanager
def few_collections() -> Iterator[None]:
    """Look for cyclic garbage rarely: spans become little of it, and looking takes a fifth of the time."""
    with _few:  # threads of a server overlap: the last one that leaves restores what the first one found
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        with _few:
            before = _usual.pop()
            if not _usual:
                gc.set_threshold(*before)


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Let Ctrl-C wait until the block ends; a process that is started in it does not get it at all."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def given_to_workers() -> Any:
    """Return what `workers_in_order` gave to this process."""
    return _given[-1]


def _start_worker(given: Any) -> None:
    """Leave Ctrl-C to the process that started this one, which ends its workers, also if it is killed."""
    _given.append(given)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(*_RARELY)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it has ended: it would wait for work forever."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
