"""Reading sessions in batches, with the database open only while one is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from spangrade.evaluator.derive import load_batches, load_sessions
from spangrade.evaluator.derive.session_rows import SessionRows
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.recorded import Place, spans_at
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S
from spangrade.evaluator.session import Session
from spangrade.tracer.span import Problem, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.store import Stored

SESSIONS_AT_ONCE = 4_000
_NO_ROWS = SessionRows([], {})


class SessionReader:
    """The sessions that a database holds when the reader is made, each once, read in batches.

    The first batch is read at once, from its open `store`; the database is open for each other one only while
    it is read. A session that is derived again in between moves out of its batch: it is read by its id at the
    end.
    """

    def __init__(self, db: Stored, store: Store, only: Collection[str] | None = None) -> None:
        self._db = db
        self._unread: set[str] = set()
        self._ranges: list[tuple[int, int]] = []
        low, size = None, 0
        rows = store.query(
            "SELECT batch, list(session_id) FROM derived.sessions GROUP BY batch ORDER BY batch"
        )
        for batch, ids in rows:
            wanted = ids if only is None else [session_id for session_id in ids if session_id in only]
            if not wanted:
                continue
            self._unread.update(wanted)
            low = batch if low is None else low
            size += len(ids)
            if size >= SESSIONS_AT_ONCE:
                self._ranges.append((low, batch))
                low, size = None, 0
        if low is not None:
            self._ranges.append((low, batch))
        self._ranges.reverse()
        self.ids = frozenset(self._unread)
        self._first = self._next_batch(store)

    def read(self, callbacks: Callbacks = DEFAULT, *, wait_s: float = RUN_WAIT_S) -> Iterator[Session]:
        """Yield the sessions in the order in which they were derived; once.

        One that was deleted since is reported and left out. Raises StoreLockedError if another process has
        the database open for longer than `wait_s`.
        """
        for rows in self.read_rows(callbacks, wait_s=wait_s):
            yield from rows.decoded()

    def read_rows(
        self, callbacks: Callbacks = DEFAULT, *, wait_s: float = RUN_WAIT_S
    ) -> Iterator[SessionRows]:
        """Yield the rows of the sessions as `read` yields the sessions, many at a time."""
        yield self._taken(self._first)
        self._first = _NO_ROWS
        while self._ranges:
            with self._db.reading(derived=False, wait_s=wait_s) as store:
                batch = self._next_batch(store)
            yield self._taken(batch)
        moved_ids = sorted(self._unread)
        for start in range(0, len(moved_ids), SESSIONS_AT_ONCE):
            ids = moved_ids[start : start + SESSIONS_AT_ONCE]
            with self._db.reading(wait_s=wait_s) as store:
                moved = load_sessions(store, ids)
            yield self._taken(moved)
        for session_id in sorted(self._unread):
            callbacks.on_problem(
                Problem(f"session {session_id}", "deleted before it was read", dropped=False)
            )

    def spans_at(self, places: Iterable[Place]) -> Mapping[Place, Span]:
        """Return the spans at places, as far as they identify their instrumentation."""
        with self._db.reading(derived=False, wait_s=RUN_WAIT_S) as store:
            return spans_at(store, places)

    def _next_batch(self, store: Store) -> SessionRows:
        return load_batches(store, *self._ranges.pop()) if self._ranges else _NO_ROWS

    def _taken(self, rows: SessionRows) -> SessionRows:
        """Return the rows of the sessions that were not read yet, and count them as read."""
        taken = rows.only(self._unread)
        self._unread.difference_update(row[0] for row in taken.sessions)
        return taken
