"""A database that is opened for each piece of work: a DuckDB file, or a lake.

Code that reads or writes derived tables, runs, scores, labels and messages gets a `Stored`, opens it, and
works on its `Store`. A lake has the same tables without keys, sequences, indexes and defaults: no statement
relies on them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from spangrade.tracer.store.store import Store


class Stored(Protocol):
    """A database, and how it is opened."""

    @property
    def path(self) -> Path:
        """The path, as messages name it."""
        ...

    @property
    def file(self) -> Path:
        """The file, for what needs one. Raises InputError for a lake."""
        ...

    def exists(self) -> bool:
        """Return whether there is such a database."""
        ...

    def reading(
        self, *, wait_s: float = ..., confined: bool = False, derived: bool = True
    ) -> AbstractContextManager[Store]:
        """Give the store to be read, with `derived` once its sessions are up to date.

        With `confined` it is for a query of someone else. Raises StoreLockedError if another process has it
        open for longer than `wait_s`, StoreError if it cannot be read.
        """
        ...

    def writing(self, *, wait_s: float = ...) -> AbstractContextManager[Store]:
        """Give the store to be written. Raises StoreLockedError and StoreError as `reading` does."""
        ...
