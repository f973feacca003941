"""What was observed of traces that are not derived yet, in a temporary file: memory does not grow with it."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterable, Sequence

from spangrade.evaluator.derive.settings import Settings
from spangrade.evaluator.derive.sync.observed import ObservedTrace

_CACHE_KB = 65_536  # of what is kept in memory; a span has about 600 bytes, and reading it again takes 30 µs


class Observations:
    """What was observed of the records of a database since its last derivation.

    `derived` is the state of what is derived by which they were observed: another process that derives in
    between makes them useless. The records up to the arrival `seq` are observed, except those in `missed`:
    ranges of arrivals, each after one number and up to another. `again` are the ranges in which the
    records of traces that were derived before are still to be observed, by what they are needed for; None
    where these are few.
    """

    def __init__(self) -> None:
        # A database without a name is a temporary file of SQLite's own, which it removes.
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KB}"):
            self._db.execute(f"PRAGMA {setting}")
        self._db.execute(
            "CREATE TABLE observed "
            "(trace_id TEXT NOT NULL, trace BLOB, can_be_joined INTEGER, observations BLOB, whole INTEGER)"
        )
        self.derived: tuple[int, Settings] | None = None
        self.seq = 0
        self.missed: list[tuple[int, int]] = []
        self.again: dict[str, list[tuple[int, int]] | None] = {}

    def start(self, revision: int, settings: Settings, seq: int) -> None:
        """Forget what was observed unless it is of this state; `seq` is the last arrival that is derived."""
        if self.derived != (revision, settings):
            self._db.execute("DROP INDEX IF EXISTS by_trace")
            self._db.execute("DELETE FROM observed")
            self.derived, self.seq, self.missed, self.again = (revision, settings), seq, [], {}

    def advance(self, revision: int) -> None:
        """Remember that this process changed what is derived."""
        if self.derived is not None:
            self.derived = (revision, self.derived[1])

    def add(self, observed: Iterable[ObservedTrace], *, whole: bool = False) -> None:
        """Add what some records show, which come from any batch, or (`whole`) all records of their traces."""
        rows = (
            (one.trace.trace_id, pickle.dumps(one.trace, pickle.HIGHEST_PROTOCOL), *one[1:], whole)
            for one in observed
        )
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO observed VALUES (?, ?, ?, ?, ?)", rows)
        self._db.execute("COMMIT")

    def add_arrived(self, observed: Iterable[ObservedTrace], after: int, upto: int) -> None:
        """Add what the records show that arrived after one number and up to another."""
        if self.seq < after:  # another process wrote in between
            self.missed.append((self.seq, after))
        self.add(observed)
        self.seq, self.again = upto, {}

    def replace(self, observed: Sequence[ObservedTrace]) -> None:
        """Put what all records of traces show in place of what some of them showed."""
        self._index()
        self._db.execute("BEGIN")
        self._db.executemany(
            "DELETE FROM observed WHERE trace_id = ?", [(one.trace.trace_id,) for one in observed]
        )
        self._db.execute("COMMIT")
        self.add(observed, whole=True)

    def mark_whole(self, trace_ids: Iterable[str]) -> None:
        """Remember that all records of traces are observed."""
        self._db.execute("BEGIN")
        self._db.executemany(
            "UPDATE observed SET whole = 1 WHERE trace_id = ?", ((trace_id,) for trace_id in trace_ids)
        )
        self._db.execute("COMMIT")

    def of(self, trace_id: str) -> list[ObservedTrace]:
        """Return what each batch showed of a trace."""
        self._index()
        rows = self._db.execute(
            "SELECT trace, can_be_joined, observations FROM observed WHERE trace_id = ?", (trace_id,)
        )
        return [
            ObservedTrace(pickle.loads(trace), bool(can_be_joined), observations)  # noqa: S301 (made by `add`)
            for trace, can_be_joined, observations in rows
        ]

    def whole(self, trace_id: str) -> bytes | None:
        """Return the packed observations of a trace, None unless all its records are observed.

        A record that the database has already may have been observed again, alone.
        """
        self._index()
        rows = self._db.execute(
            "SELECT observations FROM observed WHERE trace_id = ? AND whole", (trace_id,)
        ).fetchall()
        return rows[0][0] if len(rows) == 1 else None

    def whole_traces(self) -> list[str]:
        """Return the ids of the traces of which all records are observed."""
        return [
            trace_id for (trace_id,) in self._db.execute("SELECT DISTINCT trace_id FROM observed WHERE whole")
        ]

    def _index(self) -> None:
        self._db.execute("CREATE INDEX IF NOT EXISTS by_trace ON observed (trace_id)")
