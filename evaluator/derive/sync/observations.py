"""The observations of traces that are not derived yet: in memory, beyond a bound in a temporary file."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Generic, NamedTuple, TypeVar

import nanoarrow as na

from spangrade.evaluator.derive.settings import Settings
from spangrade.evaluator.derive.sync.observed import Observed, ObservedTrace, size_of
from spangrade.evaluator.derive.sync.sessions import BuiltSessions
from spangrade.tracer.store.arrow import bytes_of, joined

# Of observations, and of rows of sessions, in memory: some 30,000 spans, and 20,000 sessions.
_MOST_BYTES = 48_000_000
_ORDERED = 16  # of the sessions in a batch, at most 1 in 16 is in an earlier one: the rest are whole

_Value = TypeVar("_Value")


class _Place(NamedTuple):
    """Where a value is in the file."""

    offset: int
    size: int


class _Bounded(Generic[_Value]):
    """Values by number: up to a number of bytes in memory, the first of them in a temporary file then."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[_Value, int]] = {}  # with their sizes, the first one first
        self._places: dict[int, _Place] = {}
        self._size = 0
        self._number = 0
        self._file: IO[bytes] | None = None

    def add(self, value: _Value, size: int) -> int:
        """Return the number that a value gets."""
        self._number += 1
        self._values[self._number] = value, size
        self._size += size
        if self._size > _MOST_BYTES:
            self._write()
        return self._number

    def get(self, number: int) -> _Value:
        """Return a value."""
        if (held := self._values.get(number)) is not None:
            return held[0]
        if self._file is None:
            raise KeyError(number)
        place = self._places[number]
        self._file.seek(place.offset)
        value: _Value = pickle.loads(self._file.read(place.size))  # noqa: S301 (made by `_write`)
        return value

    def drop(self, number: int) -> None:
        """Forget a value."""
        if (held := self._values.pop(number, None)) is not None:
            self._size -= held[1]
        self._places.pop(number, None)

    def _write(self) -> None:
        """Write the first half of the observations in memory to the file."""
        self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115 (it goes with this object)
        offset = self._file.seek(0, 2)
        while self._size > _MOST_BYTES // 2:
            number = next(iter(self._values))
            value, size = self._values.pop(number)
            content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
            self._file.write(content)
            self._places[number] = _Place(offset, len(content))
            offset += len(content)
            self._size -= size


class Order:
    """Whether sessions follow one another: those of a batch are mostly whole in it, and are built at once."""

    def __init__(self) -> None:
        self._session_ids: set[str] = set()
        self.is_by_session = False

    def add(self, observed: Observed) -> None:
        """Look at the sessions of the next batch of records."""
        session_ids = {one.trace.session_id for one in observed.traces}
        again = len(session_ids & self._session_ids)
        self.is_by_session = bool(self._session_ids) and again * _ORDERED <= len(session_ids)
        self._session_ids |= session_ids


class Observations:
    """The observations of a database's records since its last derivation.

    `derived` is the state of the derived tables when they were made: if another process derives in between,
    they are useless. The records up to the arrival `seq` are observed, except the ranges of arrivals in
    `missed`, each after a first number and up to a last. `again` are the ranges in which records of traces
    that were derived before are still to be observed, by purpose; None for a few records. `order` tells in
    which order the sessions come. Once all of them `is_linked`, the sessions that changed are to be built.
    """

    def __init__(self) -> None:
        self.derived: tuple[int, Settings] | None = None
        self.seq = 0
        self.missed: list[tuple[int, int]] = []
        self.again: dict[str, list[tuple[int, int]] | None] = {}
        self.order = Order()
        self.forget()

    def forget(self) -> None:
        """Forget the observations: they are derived, or of no use."""
        self.is_linked = False
        self._traces: _Bounded[ObservedTrace] = _Bounded()
        self._by_trace: dict[str, tuple[int, ...]] = {}
        self._whole: set[str] = set()  # traces
        self._of_built: set[str] = set()  # traces whose observations were not kept
        self._built: _Bounded[BuiltSessions] = _Bounded()
        self._built_in: dict[str, int] = {}  # the newest batch, by session

    def start(self, revision: int, settings: Settings, seq: int) -> None:
        """Forget the observations unless they are of this state; `seq` is the last derived arrival."""
        if self.derived != (revision, settings):
            self.forget()
            self.derived, self.seq, self.missed, self.again = (revision, settings), seq, [], {}

    def advance(self, revision: int) -> None:
        """Remember that this process changed the derived tables."""
        if self.derived is not None:
            self.derived = (revision, self.derived[1])

    def add(self, observed: Observed) -> None:
        """Add the observations of a batch of records."""
        for one in observed.traces:
            self._add(one)
        if observed.built is not None:
            number = self._built.add(observed.built, bytes_of(observed.built.rows))
            self._built_in.update(dict.fromkeys(observed.built.traces, number))

    def _add(self, one: ObservedTrace) -> None:
        number = self._traces.add(one, size_of(one))
        self._by_trace[one.trace.trace_id] = (*self._by_trace.get(one.trace.trace_id, ()), number)
        if one.observations is None:
            self._of_built.add(one.trace.trace_id)
        else:
            self._of_built.discard(one.trace.trace_id)

    def add_arrived(self, observed: Iterable[Observed], after: int, upto: int) -> None:
        """Add the observations of the records that arrived after one number and up to another."""
        if self.seq < after:  # another process wrote in between
            self.missed.append((self.seq, after))
        for batch in observed:
            self.add(batch)
        self.seq, self.again = upto, {}

    def replace(self, observed: Sequence[ObservedTrace]) -> None:
        """Replace the observations of traces by those of all their records."""
        for one in observed:
            for number in self._by_trace.pop(one.trace.trace_id, ()):
                self._traces.drop(number)
            self._add(one)
            self._whole.add(one.trace.trace_id)

    def mark_whole(self, trace_ids: Iterable[str]) -> None:
        """Remember that all records of traces are observed."""
        self._whole.update(trace_ids)

    def of(self, trace_id: str) -> list[ObservedTrace]:
        """Return the observations of a trace, by batch."""
        return [self._traces.get(number) for number in self._by_trace.get(trace_id, ())]

    def whole(self, trace_id: str) -> ObservedTrace | None:
        """Return the observations of all records of a trace, None if some are missing.

        A record that the database has already may have been observed again, alone.
        """
        return self._traces.get(self._by_trace[trace_id][0]) if self._is_whole(trace_id) else None

    def _is_whole(self, trace_id: str) -> bool:
        return trace_id in self._whole and len(self._by_trace.get(trace_id, ())) == 1

    def has_whole(self, trace_id: str) -> bool:
        """Return whether the observations of all records of a trace are there."""
        return self._is_whole(trace_id) and trace_id not in self._of_built

    def whole_traces(self) -> Iterable[str]:
        """Return the ids of the traces of which all records are observed, and no session is built yet."""
        return self._whole - self._of_built

    def built(self, traces: Mapping[str, Iterable[str]]) -> BuiltSessions | None:
        """Return those of some sessions, given with all their traces, that were built where they were read.

        Its rows may be of other sessions, too. None if there are none of them.
        """
        by_batch: dict[int, list[str]] = {}
        for session_id in traces:
            if number := self._built_in.get(session_id):
                by_batch.setdefault(number, []).append(session_id)
        session_ids: list[str] = []
        rows: dict[str, list[na.Array]] = {}
        confirmed: dict[str, frozenset[str]] = {}
        for number, some in by_batch.items():
            built = self._built.get(number)
            sound = {s: built.traces[s] for s in some if self._is_confirmed(built.traces[s], traces[s])}
            confirmed |= sound
            session_ids += [session_id for session_id in built.session_ids if session_id in sound]
            for table, added in built.rows.items() if sound else ():
                rows.setdefault(table, []).append(added)
        together = {table: joined(parts) for table, parts in rows.items()}
        return BuiltSessions(session_ids, together, confirmed) if confirmed else None

    def _is_confirmed(self, built: frozenset[str], recorded: Iterable[str]) -> bool:
        return built == frozenset(recorded) and all(map(self._is_built, built))

    def _is_built(self, trace_id: str) -> bool:
        return self._is_whole(trace_id) and trace_id in self._of_built
