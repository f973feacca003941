"""Opening a database once its sessions are up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from spangrade.evaluator.derive.settings import apply
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.update import bring_up_to_date, forget, is_behind, new_spans
from spangrade.evaluator.derive.sync.workers import default_workers, workers_in_order
from spangrade.tracer.base.errors import OldSchemaError
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain

# How long to wait for another process to close the database. A receiver or an agent has it open for a second
# at most, and closes it for a second then.
WAIT_S = 5.0
# The same in the middle of a run, whose judge calls are paid for.
RUN_WAIT_S = 60.0


class DatabaseFile(NamedTuple):
    """A DuckDB file."""

    path: Path
    callbacks: Callbacks = DEFAULT

    @property
    def file(self) -> Path:
        """The file."""
        return self.path

    def exists(self) -> bool:
        """Return whether the file is there."""
        return self.path.exists()

    def reading(
        self, *, wait_s: float = WAIT_S, confined: bool = False, derived: bool = True
    ) -> AbstractContextManager[Store]:
        """Give the store to be read; see `Stored`."""
        if derived:
            return up_to_date(self.path, self.callbacks, wait_s=wait_s, confined=confined)
        return _open_to_read(self.path, confined, wait_s)

    def writing(self, *, wait_s: float = WAIT_S) -> AbstractContextManager[Store]:
        """Give the store to be written; the file is created if it is not there."""
        return Store.open(self.path, wait_s=wait_s)


@contextmanager
def up_to_date(
    db: Path, callbacks: Callbacks = DEFAULT, *, wait_s: float = WAIT_S, confined: bool = False
) -> Iterator[Store]:
    """Open a database for reading, once it is up to date: settings, rows in its spool, new spans.

    That is done in short windows. With `confined` it is open for a query of someone else. Raises
    StoreLockedError if another process has it open for longer than `wait_s`.
    """
    with _open_to_read(db, confined, wait_s) as store:
        if not is_behind(store, callbacks.configured):
            yield store
            return
    callbacks.on_progress("deriving sessions")
    bring_up_to_date(partial(Store.open, db, wait_s=wait_s), callbacks.configured)
    with Store.open(db, read_only=True, confined=confined, wait_s=wait_s) as store:
        yield store


def derive(db: Path, *, again: bool = False, workers: int | None = 1, callbacks: Callbacks = DEFAULT) -> int:
    """Derive the sessions that are out of date, or all of them again; return how many.

    `workers` processes read spans; None is as many as are worth it. The database is open in short windows.
    Raises StoreLockedError if another process has it open for longer than `RUN_WAIT_S` in between.
    """
    with Store.open(db, wait_s=WAIT_S) as store:
        drain(store)
        apply(store, callbacks.configured)
        if again:
            forget(store)
        workers = workers or default_workers(new_spans(store))
    with workers_in_order(workers) as in_order:
        opened = partial(Store.open, db, wait_s=RUN_WAIT_S)
        return bring_up_to_date(opened, in_order=in_order, on_share=callbacks.on_share)


def _open_to_read(db: Path, confined: bool, wait_s: float) -> Store:
    """Open a database for reading; one of an earlier version is upgraded first."""
    try:
        return Store.open(db, read_only=True, confined=confined, wait_s=wait_s)
    except OldSchemaError:
        Store.open(db, wait_s=wait_s).close()
        return Store.open(db, read_only=True, confined=confined, wait_s=wait_s)
