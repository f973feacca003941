"""Opening a database to read what is derived in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spangrade.evaluator.cli.output import progress
from spangrade.evaluator.derive import stale, update
from spangrade.tracer.store import Store


@contextmanager
def up_to_date(db: Path) -> Iterator[Store]:
    """Open a database for reading, what is derived in it brought up to date first."""
    with Store.open(db, read_only=True) as store:
        behind = stale(store)
    if behind:
        with Store.open(db) as store, progress("deriving sessions"):
            update(store)
    with Store.open(db, read_only=True) as store:
        yield store
