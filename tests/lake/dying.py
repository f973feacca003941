"""A worker that is killed once, after it did its work and before anyone knows of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from spangrade.evaluator.derive.sync.workers import InOrder


def killing(in_order: InOrder, name: str, marker: Path) -> InOrder:
    """Return an executor in which the first process that does a task of a name is killed; once.

    A scan of certain traces is named `gather`.
    """

    def killed(function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterable[Any]:
        return in_order(partial(_work_and_die, function, name, str(marker)), jobs)

    return killed


def _work_and_die(function: Callable[[Any], Any], name: str, marker: str, job: Any) -> Any:
    result = function(job)
    gathers = getattr(job, "traces", None) is not None
    if ("gather" if gathers else function.__name__) == name and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result
