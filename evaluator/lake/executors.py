"""Where the tasks of a lake run.

An executor is a function like the built-in `map`: it calls a task for each of some jobs, wherever it likes,
and yields the results in the order of the jobs. A task may run more than once. Another engine needs no more.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from spangrade.evaluator.workers import InOrder, workers_in_order


def local(workers: int) -> AbstractContextManager[InOrder]:
    """Give an executor of so many processes, or of this one.

    Raises SpangradeError if one is killed: run the update again.
    """
    return workers_in_order(workers)
