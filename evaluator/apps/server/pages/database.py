"""What the pages read: a database, opened for each request and brought up to date in between, or a lake."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from spangrade.evaluator.derive.settings import NOT_CONFIGURED, Configured
from spangrade.evaluator.derive.sync.up_to_date import DatabaseFile
from spangrade.evaluator.derive.sync.update import bring_up_to_date, is_behind
from spangrade.evaluator.grading.selection import chosen_ids
from spangrade.evaluator.grading.spec import Selection
from spangrade.tracer.base.errors import SpangradeError, StoreError, StoreLockedError
from spangrade.tracer.store import Store
from spangrade.tracer.store.locks import deriving, turns_at
from spangrade.tracer.store.spool import waiting
from spangrade.tracer.store.store import Stored

WAIT_S = 5.0  # for another process, which has the database open for a second at most
_DERIVING = "New spans are being derived."

_log = logging.getLogger("spangrade")


class UpgradingError(StoreError):
    """A database whose sessions are derived again, because an earlier version did so: no page is made yet."""


class _StoppedError(SpangradeError):
    """The server stops."""


class Viewed(Protocol):
    """What pages are made of: its name, a store for each page, and a notice for all pages ("": none)."""

    @property
    def name(self) -> str:
        """What pages call it."""
        ...

    @property
    def notice(self) -> str:
        """What the user should know."""
        ...

    @property
    def mark(self) -> str:
        """A text that changes when pages may show something new; always the same where that is not known."""
        ...

    @property
    def only(self) -> Collection[str] | None:
        """The ids of the sessions that lists have, as of the store that was given last; None is all."""
        ...

    def reading(self) -> AbstractContextManager[Store]:
        """Give a store for a page."""
        ...

    def writing(self) -> AbstractContextManager[Store]:
        """Give a store for what a reviewer writes, in transactions of the caller."""
        ...

    def prepare(self) -> None:
        """Do what is needed before the first page."""
        ...

    def stop(self) -> None:
        """End what is done in the background."""
        ...


class ViewedLake:
    """A lake that pages read while updates write: each page is made of one commit."""

    notice = ""
    mark = ""

    def __init__(self, lake: Stored, select: Selection = Selection()) -> None:
        self.only: Collection[str] | None = None
        self._select = select
        self.name = str(lake.path)
        self._lake = lake
        self._one_at_a_time = threading.Lock()  # they share a connection

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """Give the lake for a page. Raises StoreError if it cannot be read."""
        with self._one_at_a_time:
            if self._select != Selection():
                with self._lake.reading(confined=True) as store:
                    self.only = chosen_ids(store, self._select)
            with self._lake.reading() as store:
                yield store

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """Give the lake for what a reviewer writes. Raises StoreError if it cannot be written."""
        with self._one_at_a_time, self._lake.writing() as store:
            yield store

    def prepare(self) -> None:
        """Raise StoreError if the lake cannot be read."""
        with self.reading():
            pass

    def stop(self) -> None:
        """Do nothing: nothing is done in the background."""


class ViewedDatabase:
    """A database that pages read while other processes write.

    It is open only while a page is made, one page at a time, and read-only then. New spans are derived in
    another thread, in short windows; `notice` says so, or why they cannot be derived. While sessions of an
    earlier version are derived again there is no page, and `upgrading` says how far that is. The settings
    `configured` are applied once, at the start: later ones of another process are not undone.
    """

    def __init__(
        self, path: Path, configured: Configured = NOT_CONFIGURED, select: Selection = Selection()
    ) -> None:
        self.only: Collection[str] | None = None
        self._select = select
        self.path = path
        self._configured = configured  # until it is applied
        self.name = path.name
        self.notice = ""
        self.upgrading = ""
        self._was_locked = False  # what the notice says
        self._known_mark = ""  # of the file as a reviewer left it
        self._one_at_a_time = threading.Lock()  # a process can open a file once: where nothing takes turns
        self._stopping = threading.Event()
        self._upgraded = 0  # sessions, while they are derived again
        self._deriving: threading.Thread | None = None

    @property
    def mark(self) -> str:
        """A text that changes when the file is written: it is not opened for that."""
        marks = []
        for file in (self.path, self.path.with_name(f"{self.path.name}.wal")):
            with suppress(OSError):
                status = file.stat()
                marks.append(f"{status.st_mtime_ns}.{status.st_size}")
        return "-".join(marks)

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """Open the database for a page.

        Raises UpgradingError as long as `upgrading` says something, StoreLockedError if others have it open
        for longer than `WAIT_S`, StoreError if it cannot be used.
        """
        if self.upgrading:
            raise UpgradingError(self.upgrading)
        with self._turn():
            if self._select != Selection():
                with Store.open(self.path, read_only=True, confined=True, wait_s=WAIT_S) as store:
                    self.only = chosen_ids(store, self._select)
            with Store.open(self.path, read_only=True, wait_s=WAIT_S, stop=self._stopping) as store:
                behind = is_behind(store, self._configured)
                self._drop_notice(behind)
                if behind and not self.notice:
                    self.notice = _DERIVING
                yield store
            if behind:
                self._derive_in_background()

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """Open the database for what a reviewer writes. Raises what `reading` does.

        New spans are noticed here, too: someone who only labels reads nothing else.
        """
        mark = self.mark
        with self._window() as store:
            written = mark != self._known_mark  # by another process
            behind = bool(waiting(self.path)) or (written and is_behind(store, self._configured))
            yield store
        self._known_mark = "" if behind else self.mark
        if behind:
            self._derive_in_background()

    def prepare(self) -> None:
        """Bring the database up to date before the first page; upgrade one of an earlier version.

        If it cannot be written, what was derived before is shown. Raises StoreError if there is nothing to
        show.
        """
        shown = False
        try:
            with DatabaseFile(self.path).reading(wait_s=WAIT_S, derived=False) as store:
                if not is_behind(store, self._configured):
                    return
                shown = _has_sessions(store)
            self._derive()
        except StoreError as error:
            if not shown:
                raise
            self._note(error)

    def upgrade(self, sessions: int) -> None:
        """Derive in the background what an earlier version derived, a number of sessions."""
        self._upgraded = sessions
        self._note_share(0.0)
        self._derive_in_background()

    def _note_share(self, share: float) -> None:
        if self._upgraded:
            one = "session is" if self._upgraded == 1 else "sessions are"
            self.upgrading = f"{self._upgraded:,} {one} being brought up to this version: {share:.0%}"

    def stop(self) -> None:
        """Stop deriving, and wait for the end of the window."""
        self._stopping.set()
        if self._deriving is not None:
            self._deriving.join()

    def _derive_in_background(self) -> None:
        if self._stopping.is_set() or (self._deriving is not None and self._deriving.is_alive()):
            return
        self._deriving = threading.Thread(target=self._derive_and_note, name="spangrade-view-derive")
        self._deriving.start()

    def _derive_and_note(self) -> None:
        self.notice = _DERIVING
        try:
            self._derive()
        except _StoppedError:
            return
        except SpangradeError as error:
            self._note(error)
            _log.warning("%s", self.notice)
        else:
            self.notice = ""
        finally:
            self._upgraded, self.upgrading = 0, ""

    def _derive(self) -> None:
        with deriving(self.path, self._stopping):
            bring_up_to_date(self._window, self._configured, on_share=self._note_share, stop=self._stopping)
        self._configured = NOT_CONFIGURED

    def _note(self, error: SpangradeError) -> None:
        self.notice = f"New spans are not derived: {error}"
        self._was_locked = isinstance(error, StoreLockedError)

    def _drop_notice(self, behind: bool) -> None:
        """Drop a notice whose cause is gone: whoever derived the new spans, or closed the database."""
        if not behind:
            self.notice = ""
        elif self._was_locked:  # it is open now
            self.notice = _DERIVING
        self._was_locked = False

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one page at a time open the database. Raises StoreLockedError after `WAIT_S`."""
        if turns_at(self.path) is not None:  # opening it waits for the turn
            yield
            return
        if not self._one_at_a_time.acquire(timeout=WAIT_S):
            raise StoreLockedError(f"{self.path}: other pages have it open: try again")
        try:
            yield
        finally:
            self._one_at_a_time.release()

    @contextmanager
    def _window(self) -> Iterator[Store]:
        if self._stopping.is_set():
            raise _StoppedError
        with self._turn(), Store.open(self.path, wait_s=WAIT_S, stop=self._stopping) as store:
            yield store


def viewed(stored: Stored, select: Selection = Selection()) -> Viewed:
    """Return what the pages of a database are made of; lists have the sessions that are selected."""
    if not isinstance(stored, DatabaseFile):
        return ViewedLake(stored, select)
    return ViewedDatabase(stored.path, stored.callbacks.configured, select)


def _has_sessions(store: Store) -> bool:
    return bool(
        store.query("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'derived' AND table_name = 'sessions'")
    )
