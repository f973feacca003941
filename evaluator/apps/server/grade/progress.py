"""Which sessions are to be graded, and since when each of them has been idle."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple

from spangrade.evaluator.apps.server.grade.tables import sql
from spangrade.evaluator.derive.sync.parts import in_batches
from spangrade.evaluator.derive.sync.update import changed_sessions
from spangrade.evaluator.results.origin import OriginFilter
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column


class Moment(NamedTuple):
    """A moment by two clocks: the time since the epoch, and one that nobody sets, which begins anywhere."""

    time_ns: int
    steady_ns: int


class Waiting(NamedTuple):
    """A session that is to be graded: its last arrival, and since when nothing has arrived for it.

    That is by the steady clock: no session is idle because a clock was set. It has `records` spans and logs.
    """

    seq: int
    idle_since_ns: int
    records: int


class Progress:
    """The sessions that are to be graded by some gates.

    A session waits until nothing has arrived for it for `idle_ns`. When something arrived is known to the
    time between two calls of `look`; if the last call is longer ago than `idle_ns`, as after a restart, the
    end of the session's last span counts. `includes(session_id, start_ns)` returns whether a session is
    graded at all; those of another `origin` are not. `since_ns` is when this process started, or another
    before by the same gates.
    """

    def __init__(
        self,
        gates: str,
        idle_ns: int,
        includes: Callable[[str, int | None], bool],
        since_ns: int | None = None,
        *,
        origin: OriginFilter = OriginFilter.PRODUCTION,
    ) -> None:
        self._origin = origin
        self._gates = gates
        self.since_ns = since_ns
        self._idle_ns = idle_ns
        self._includes = includes
        self._waiting: dict[str, Waiting] = {}
        self._seq: int | None = None  # arrivals up to here are in `_waiting`
        self._last_look: tuple[int, int] | None = None  # the last arrival then, and the steady time

    def __len__(self) -> int:
        return len(self._waiting)

    def is_current(self, store: Store, now: Moment) -> bool:
        """Return whether nothing was derived since the last look, and look is not needed."""
        if self._seq is None or self._seq != _derived_up_to(store):
            return False
        self._last_look = self._seq, now.steady_ns
        return True

    def look(self, store: Store, now: Moment) -> None:
        """Take in the sessions for which something has arrived since the last look."""
        derived = _derived_up_to(store)
        last_seq, last_ns = self._last_look or self._look_before_restart(store, now)
        arrived = [
            (session_id, seq, records)
            for session_id, seq, start_ns, records in store.query(
                sql("arrived"), {"seq": self._seq or 0, "gates": self._gates, "origin": self._origin}
            )
            if self._includes(session_id, start_ns)
        ]
        # Until they are built, sessions in `unfinished` are not what their spans say.
        unfinished = changed_sessions(store)
        recent = last_ns is not None and now.steady_ns - last_ns <= self._idle_ns
        is_new = {session_id for session_id, seq, _ in arrived if recent and seq > last_seq}
        ends = _ends(store, [session_id for session_id, *_ in arrived if session_id not in is_new])
        for session_id, seq, records in arrived:
            known = self._waiting.get(session_id)
            if session_id in unfinished or (known is not None and known.seq >= seq):
                continue
            end_ns = now.time_ns if session_id in is_new else ends.get(session_id, now.time_ns)
            self._waiting[session_id] = Waiting(seq, _steady(end_ns, now), records)
        for session_id in unfinished & self._waiting.keys():
            del self._waiting[session_id]
        if not unfinished:
            self._seq = derived
        self._last_look = derived, now.steady_ns
        if last_seq != derived:
            store.query("DELETE FROM watch_progress WHERE gates = $gates", {"gates": self._gates})
            store.query(
                "INSERT INTO watch_progress BY NAME "
                "SELECT $gates AS gates, $seq AS seq, $now AS time_ns, $since AS since_ns",
                {"gates": self._gates, "seq": derived, "now": now.time_ns, "since": self.since_ns},
            )

    def first_due_ns(self, without: Container[str] = ()) -> int | None:
        """Return when, by the steady clock, the first session is or was due; None without any."""
        since = (one.idle_since_ns for name, one in self._waiting.items() if name not in without)
        first = min(since, default=None)
        return None if first is None else first + self._idle_ns

    def is_any_idle(self, now: Moment, without: Container[str] = ()) -> bool:
        """Return whether any session is idle."""
        return next(self._idle(now, without), None) is not None

    def idle(
        self, now: Moment, limit: int, most_records: int, without: Container[str] = ()
    ) -> dict[str, Waiting]:
        """Return at most `limit` sessions that are idle, those that became so first.

        They have at most `most_records` spans and logs, or are one session.
        """
        first = nsmallest(limit, self._idle(now, without))
        waiting = [(session_id, self._waiting[session_id]) for _, session_id in first]
        return dict(next(in_batches(waiting, lambda one: one[1].records, most_records), ()))

    def _idle(self, now: Moment, without: Container[str]) -> Iterator[tuple[int, str]]:
        for session_id, waiting in self._waiting.items():
            if now.steady_ns - waiting.idle_since_ns >= self._idle_ns and session_id not in without:
                yield waiting.idle_since_ns, session_id

    def finish(self, sessions: Mapping[str, Waiting]) -> None:
        """Forget sessions that were graded, or that are gone, unless something has arrived since."""
        for session_id, waiting in sessions.items():
            if self._waiting.get(session_id) == waiting:
                del self._waiting[session_id]

    def _look_before_restart(self, store: Store, now: Moment) -> tuple[int, int | None]:
        rows = store.query(
            "SELECT seq, time_ns, since_ns FROM watch_progress WHERE gates = $gates", {"gates": self._gates}
        )
        if not rows:
            return 0, None
        self.since_ns = rows[0][2]
        return rows[0][0], _steady(rows[0][1], now)


def _steady(time_ns: int, now: Moment) -> int:
    """Return a time by the steady clock; one that is still to come, by a clock that was wrong, is now."""
    return now.steady_ns - max(0, now.time_ns - time_ns)


def contents(store: Store, gates: str, session_ids: Iterable[str]) -> dict[str, str]:
    """Return the digests with which sessions were graded last, by session."""
    wanted = arrow_column("session_id", list(session_ids))
    return dict(store.query(sql("contents"), {"gates": gates}, wanted=wanted))


def _derived_up_to(store: Store) -> int:
    rows = store.query("SELECT seq FROM derived.progress")
    return int(rows[0][0]) if rows else 0


def _ends(store: Store, session_ids: Sequence[str]) -> dict[str, int]:
    wanted = arrow_column("session_id", session_ids)
    return dict(store.query(sql("ends"), wanted=wanted)) if session_ids else {}
