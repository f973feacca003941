"""Opening a database to read what is derived in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spangrade.evaluator.cli.output import progress
from spangrade.evaluator.derive import stale, update
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain, waiting

# For another process to be done. A receiver or an agent has the database for a second at most, then it is
# free for one.
WAIT_S = 5.0


@contextmanager
def up_to_date(db: Path) -> Iterator[Store]:
    """Open a database for reading, with what waited in its spool, and what is derived brought up to date.

    Raises StoreLockedError if another process has it open for longer than WAIT_S.
    """
    with Store.open(db, read_only=True, wait_s=WAIT_S) as store:
        behind = stale(store)
    if behind or waiting(db):
        with Store.open(db, wait_s=WAIT_S) as store, progress("deriving sessions"):
            drain(store)
            update(store)
    with Store.open(db, read_only=True, wait_s=WAIT_S) as store:
        yield store
