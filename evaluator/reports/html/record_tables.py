"""What is derived of a session as tables: each value as text, with the query that shows the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from spangrade.evaluator.derive.schema import RECORDS, TABLES
from spangrade.evaluator.reports.html.texts import LONGEST, Place, Text, TextLimits, text
from spangrade.evaluator.session import Session
from spangrade.tracer.store.sql import text_literal

_STATE = "state_variables"


class RecordTable(NamedTuple):
    """Rows of one table; a cell is None where the value is unknown.

    `sql` is the query that shows the table, `total` the number of its rows, `next_skip` the row to go on
    from, None at the end.
    """

    name: str
    description: str
    sql: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Text | None, ...], ...]
    total: int
    next_skip: int | None


def table_names(session: Session) -> Iterator[tuple[str, int]]:
    """Yield the tables of a session that have rows, with their number."""
    yield "sessions", 1
    for name in RECORDS:
        if records := getattr(session, name):
            yield name, len(records)
    if session.state_variables:
        yield _STATE, len(session.state_variables)


def record_table(
    session: Session, name: str, skip: int = 0, most_rows: int = TextLimits().rows, longest: int = LONGEST
) -> RecordTable | None:
    """Return a table of a session from the row `skip` on; None if there is no such table."""
    values = session.to_json()
    if name == "sessions":
        rows = [{key: value for key, value in values.items() if key not in RECORDS and key != _STATE}]
        description, order = "The session itself", ""
        numbers = [1]
    elif name == _STATE:
        state = values[_STATE] or {}
        rows = [{"name": key, "value": value} for key, value in state.items()]
        description, order = "The variables of the session's state at the end", ""
        numbers = list(range(1, len(rows) + 1))
    elif name in RECORDS:
        rows = values[name]
        description = TABLES[name].description
        number = _number_column(name)
        order = f" ORDER BY {number}" if number else ""
        numbers = _numbers(session, name)
    else:
        return None
    shown = rows[skip : skip + most_rows]
    end = skip + len(shown)
    return RecordTable(
        name,
        description,
        f"SELECT * FROM {name} WHERE {_is_session(session.session_id)}{order};",  # noqa: S608 (it is shown)
        tuple(rows[0]) if rows else (),
        tuple(
            tuple(
                None if value is None else text(value, Place(name, at, key), longest)
                for key, value in row.items()
            )
            for row, at in zip(shown, numbers[skip:end], strict=True)
        ),
        len(rows),
        end if end < len(rows) else None,
    )


def value_at(session: Session, place: Place) -> Any:
    """Return the value at a place of a session. Raises KeyError if there is none."""
    values = session.to_json()
    if place.table == "sessions":
        return values[place.field]
    if place.table == _STATE:
        state = list((values[_STATE] or {}).items())
        rows: Iterable[tuple[int, Any]] = enumerate(({"name": k, "value": v} for k, v in state), 1)
    elif place.table in RECORDS:
        rows = zip(_numbers(session, place.table), values[place.table], strict=True)
    else:
        raise KeyError(place.table)
    return dict(rows)[place.number][place.field]


def _numbers(session: Session, table: str) -> list[int]:
    """Return the number of each record of a table: its position or turn, else its place in the table."""
    column = _number_column(table)
    records = getattr(session, table)
    return [number if column is None else getattr(one, column) for number, one in enumerate(records, 1)]


def _number_column(table: str) -> str | None:
    names = {column.name for column in TABLES[table].shown}
    return next((name for name in ("position", "turn") if name in names), None)


def _is_session(session_id: str) -> str:
    """Return a condition in SQL; one on the hash for an id that a page cannot show as it is."""
    if session_id.isprintable():
        return f"session_id = {text_literal(session_id)}"
    return f"sha256(session_id) = '{sha256(session_id.encode()).hexdigest()}'"
