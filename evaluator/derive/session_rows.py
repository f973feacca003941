"""Sessions as rows of the derived tables, and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from hashlib import blake2b
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import nanoarrow as na
import orjson

from spangrade.evaluator.derive.schema import PARTS, RECORDS, SESSIONS, TABLES, DerivedTable, TableColumn
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column

Row = tuple[Any, ...]

BATCHES_AT_ONCE = 2_000  # sessions
LONGEST_FIRST_INPUT = 300  # characters
_AGAIN = "`spangrade doctor --derive-all` derives it again"


def _encoder(columns: Sequence[TableColumn]) -> Callable[[Sequence[Any]], Row]:
    """Return the function from a record's values to its cells.

    None is NULL, but the JSON text `null` where `known_by` says that the value is known.
    """
    names = [column.name for column in columns]
    steps = [
        (i, column.type.encode, names.index(column.meaning.known_by) if column.meaning.known_by else i)
        for i, column in enumerate(columns)
        if column.type.encode is not None
    ]

    def encode(values: Sequence[Any]) -> Row:
        cells = list(values)
        for i, convert, known in steps:
            is_known = cells[i] is not None if known == i else cells[known]
            cells[i] = convert(cells[i]) if is_known else None
        return tuple(cells)

    return encode if steps else tuple


def _decoder(table: DerivedTable, make: Callable[[Sequence[Any]], Any]) -> Callable[[Row], Any]:
    """Return the function that decodes a record's cells and passes them to `make`.

    It raises StoreError, which does not show the value, for a cell that no session is stored with.
    """
    columns = enumerate(table.columns)
    steps = [(i, column.name, column.type.decode) for i, column in columns if column.type.decode is not None]

    def decode(row: Row) -> Any:
        values = list(row)
        for i, name, convert in steps:
            if values[i] is not None:
                try:
                    values[i] = convert(values[i])
                except ValueError as error:
                    expected = "expected JSON" if isinstance(error, orjson.JSONDecodeError) else str(error)
                    place = f"a value in derived.{table.name}.{name}"
                    raise StoreError(f"the database has {place}: {expected}: {_AGAIN}") from None
        return make(values)

    return decode if steps else make


def _session_decoder() -> Callable[[Row, Iterable[Any]], Session]:
    """Return the function from a session's cells, and its records in the order of RECORDS, to the session."""
    paths = [column.path for column in SESSIONS.columns]
    values_of = _decoder(SESSIONS, list)
    parts = [
        (part, itemgetter(*(paths.index(f"{name}.{field.name}") for field in fields(part))))
        for name, part in PARTS.items()
    ]
    names = [*(path if path not in RECORDS else "" for path in paths), *PARTS, *RECORDS]
    in_order = itemgetter(*(names.index(field.name) for field in fields(Session)))

    def decode(row: Row, records: Iterable[Any]) -> Session:
        values = values_of(row)
        values += [part(*values_of_part(values)) for part, values_of_part in parts]
        values += records
        return Session(*in_order(values))

    return decode


_ENCODERS = {name: _encoder(table.columns) for name, table in TABLES.items()}
_DECODERS = {name: _decoder(TABLES[name], record._make) for name, record in RECORDS.items()}
_OWN_COLUMNS = {
    name: [column.name for column in table.columns if column.name != "session_id"]
    for name, table in TABLES.items()
}
_not_compared = {one.name for one in fields(Session) if not one.compare}
_compared = itemgetter(*(i for i, one in enumerate(SESSIONS.columns) if one.name not in _not_compared))
_session_values = attrgetter(*(column.path for column in SESSIONS.columns))
_decode_session = _session_decoder()


def rows_of(sessions: Iterable[Session], batch: int) -> dict[str, list[Row]]:
    """Return the rows of sessions, by table."""
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    encode_session = _ENCODERS["sessions"]
    records = [(rows[name], attrgetter(name), _ENCODERS[name]) for name in RECORDS]
    for session in sessions:
        rows["sessions"].append((batch, *_list_cells(session), *encode_session(_session_values(session))))
        key = (batch, session.session_id)
        for table, records_of, encode in records:
            table += [key + encode(record) for record in records_of(session)]
    return rows


def _list_cells(session: Session) -> tuple[str | None, str | None]:
    """Return the names of a session's tools, as JSON, and the beginning of its first message."""
    tools = dict.fromkeys(call.tool_name for call in session.tool_interactions)
    first = session.turns[0].user_input if session.turns else None
    return canonical(list(tools)) if tools else None, first and first[:LONGEST_FIRST_INPUT]


class SessionRows(NamedTuple):
    """The rows of some sessions, of which any process can make the sessions: once."""

    sessions: list[Row]
    records: dict[str, dict[str, list[Row]]]

    def digests(self) -> dict[str, str]:
        """Return a digest of each session, by its id: the same as long as the same is known of it."""
        records = self.records.values()
        return {
            row[0]: blake2b(
                orjson.dumps((_compared(row), [of.get(row[0]) for of in records])), digest_size=16
            ).hexdigest()
            for row in self.sessions
        }

    def only(self, session_ids: Collection[str]) -> SessionRows:
        """Return the rows of those of the sessions that have one of the ids."""
        return SessionRows([row for row in self.sessions if row[0] in session_ids], self.records)

    def slices(self, size: int) -> Iterator[SessionRows]:
        """Yield the rows of `size` sessions at a time."""
        for start in range(0, len(self.sessions), size):
            rows = self.sessions[start : start + size]
            records = {
                name: {row[0]: by_session.pop(row[0]) for row in rows if row[0] in by_session}
                for name, by_session in self.records.items()
            }
            yield SessionRows(rows, records)

    def decoded(self) -> Iterator[Session]:
        """Yield the sessions, each made when it is asked for: its memory is that of the one before."""
        records = [(_DECODERS[name], by_session) for name, by_session in self.records.items()]
        for row in self.sessions:
            own = [tuple(map(decoder, by_session.pop(row[0], ()))) for decoder, by_session in records]
            yield _decode_session(row, own)


def load_batches(store: Store, first: int, last: int) -> SessionRows:
    """Return the sessions of the batches from `first` to `last`, in the order of their derivation."""
    return _load(store, "batch BETWEEN $low AND $high", {"low": first, "high": last})


def load_sessions(store: Store, session_ids: Sequence[str]) -> SessionRows:
    """Return those of the sessions of some ids that there are, in the order of their derivation."""
    if len(session_ids) == 1:  # to join a table takes twice as long
        one = {"session_id": session_ids[0]}
        batches = "SELECT min(batch) FROM derived.sessions WHERE session_id = $session_id"
        ((batch,),) = store.query(batches, one)
        return _load(store, "batch = $batch AND session_id = $session_id", {"batch": batch, **one})
    wanted = arrow_column("session_id", list(session_ids))  # as a parameter it takes a quarter more
    batches = "SELECT min(batch), max(batch) FROM derived.sessions WHERE session_id IN (FROM wanted)"
    ((low, high),) = store.query(batches, wanted=wanted)  # most row groups are of other batches
    where = "batch BETWEEN $low AND $high AND session_id IN (FROM wanted)"
    return _load(store, where, {"low": low, "high": high}, wanted=wanted)


def load(store: Store, session_id: str | None = None) -> Iterator[Session]:
    """Yield the derived sessions (or the one of an id) in the order in which they were derived."""
    for rows in load_rows(store, session_id):
        yield from rows.decoded()


def load_rows(store: Store, session_id: str | None = None) -> Iterator[SessionRows]:
    """Yield the rows of the sessions that `load` yields, many at a time."""
    if session_id is not None:
        yield _load(store, "session_id = $session_id", {"session_id": session_id})
        return
    sizes = store.query("SELECT batch, count(*) FROM derived.sessions GROUP BY batch ORDER BY batch")
    low, size = None, 0
    for batch, count in sizes:
        low = batch if low is None else low
        size += count
        if size >= BATCHES_AT_ONCE:
            yield load_batches(store, low, batch)
            low, size = None, 0
    if low is not None:
        yield load_batches(store, low, sizes[-1][0])


def _load(store: Store, where: str, parameters: dict[str, Any], **tables: na.Array) -> SessionRows:
    def rows(table: str) -> list[Row]:
        columns = ", ".join(f'"{name}"' for name in ("session_id", *_OWN_COLUMNS[table]))
        # In the order of insertion, which DuckDB preserves: a session's rows were written in their order.
        return store.query(
            f"SELECT {columns} FROM derived.{table} WHERE {where}",  # noqa: S608 (our own names)
            parameters,
            **tables,
        )

    records = {name: _by_session(rows(name)) for name in RECORDS}
    return SessionRows(rows("sessions"), records)


def _by_session(rows: Iterable[Row]) -> dict[str, list[Row]]:
    by_session: dict[str, list[Row]] = {}
    for row in rows:
        by_session.setdefault(row[0], []).append(row[1:])
    return by_session
