"""What is derived of a session as tables: each value as text, with the query that shows the same."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from spangrade.evaluator.derive.schema import RECORDS, TABLES
from spangrade.evaluator.reports.json import session_json
from spangrade.evaluator.session import Session
from spangrade.evaluator.view.texts import LONGEST, Limits, Place, Text, text

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
    session: Session, name: str, skip: int = 0, most_rows: int = Limits().rows, longest: int = LONGEST
) -> RecordTable | None:
    """Return a table of a session from the row `skip` on; None if there is no such table."""
    values = session_json(session)
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
        columns = {column.name: column.shown_as for column in TABLES[name].shown}
        number = next((column for column in ("position", "turn") if column in columns), None)
        order = f" ORDER BY {columns[number]}" if number else ""
        numbers = [getattr(r, number) if number else i for i, r in enumerate(getattr(session, name), 1)]
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
    if place.table == "sessions":
        return session_json(session)[place.field]
    if place.table == _STATE:
        state = session.state_variables or {}
        name = list(state)[place.number - 1] if 0 < place.number <= len(state) else ""
        return name if place.field == "name" else state[name]
    if place.table not in RECORDS:
        raise KeyError(place.table)
    column = "turn" if place.table == "turns" else "position"
    for number, record in enumerate(getattr(session, place.table), 1):
        if getattr(record, column, number) == place.number:
            return getattr(record, place.field, None)
    raise KeyError(place.number)


def _is_session(session_id: str) -> str:
    """Return a condition in SQL; one on the hash for an id that a page cannot show as it is."""
    if session_id.isprintable():
        return "session_id = '" + session_id.replace("'", "''") + "'"
    return f"sha256(session_id) = '{sha256(session_id.encode()).hexdigest()}'"
