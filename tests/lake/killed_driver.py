"""An update whose process kills itself at a step: `python killed_driver.py STEP CATALOG LANDING FOLDER`.

FOLDER is for the files of the lake. A step with tasks is left when the first result is there; of the commit,
all is done but COMMIT.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from spangrade.evaluator.apps.lake import job
from spangrade.evaluator.apps.lake.catalog import lake_at
from spangrade.evaluator.apps.lake.job import Sizes, update_lake

STEPS = ("scan", "gather", "assign", "split", "derive", "commit", "clean")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(step: str, catalog: str, landing: str, folder: str) -> None:
    """Update a lake; die at a step."""
    reached = ""

    def on_step(name: str) -> None:
        nonlocal reached
        reached = name
        if name == step and step in ("assign", "clean"):
            _die()

    def one_task(function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        for one in jobs:
            yield function(one)
            if reached == step:
                _die()

    advance = job.advance

    def advance_and_die(*arguments: Any) -> None:
        advance(*arguments)
        if step == "commit":
            _die()

    job.advance = advance_and_die
    update_lake(
        lake_at(catalog, folder), landing, one_task, sizes=Sizes(part=200, slice=100), on_step=on_step
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
