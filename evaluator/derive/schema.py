"""Tables, views and their documentation, made of the `Column`s of the record types in `evaluator.session`.

Each record type is a table of the schema `derived` and a view of the same name. All of it is computed once,
when the module is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import nanoarrow as na
import orjson

from spangrade.evaluator.results.views import VIEWS, sessions_query, view_query
from spangrade.evaluator.session import Column, Session, StateVariable
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.store.sql import text_literal


class ColumnType(NamedTuple):
    """How the values of a Python type are stored in a table and shown in a view.

    `expression` is of the view, over the table's column. `encode` and `decode` convert a value, never None,
    to the table's cell and back; None where the value is stored as it is. `decode` raises ValueError for a
    cell of another form, which someone else may have written.
    """

    sql: str
    arrow: Any
    shown: str
    expression: str = "{}"
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[str], Any] | None = None


def _strings(text: str) -> tuple[str, ...]:
    values = orjson.loads(text)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("expected a list of texts")
    return tuple(values)


def _pairs(text: str) -> tuple[tuple[Any, ...], ...]:
    pairs = orjson.loads(text)
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("expected a list of pairs")
    return tuple(tuple(pair) for pair in pairs)


def _object(text: str) -> dict[str, Any]:
    value = orjson.loads(text)
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    return value


def _json(shown: str, expression: str, decode: Callable[[str], Any]) -> ColumnType:
    # As text: `VARIANT` takes 18 s to read on DuckDB 1.5 what takes 21 ms in typed columns.
    return ColumnType("VARCHAR", na.string(), shown, expression, canonical, decode)


_TEXT = ColumnType("VARCHAR", na.string(), "VARCHAR")
_INTEGER = ColumnType("BIGINT", na.int64(), "BIGINT")
TIME = ColumnType("BIGINT", na.int64(), "TIMESTAMP", "make_timestamp({} // 1000)")
_COUNT = ColumnType("BIGINT", na.int64(), "BIGINT", encode=len)
_TYPES: dict[Any, ColumnType] = {
    str: _TEXT,
    int: _INTEGER,
    float: ColumnType("DOUBLE", na.float64(), "DOUBLE"),
    bool: ColumnType("BOOLEAN", na.bool_(), "BOOLEAN"),
    Any: _json("JSON", "{}::JSON", orjson.loads),
    dict[str, Any]: _json("JSON", "{}::JSON", _object),
    tuple[str, ...]: _json("VARCHAR[]", "{}::JSON::VARCHAR[]", _strings),
    tuple[tuple[str | None, str], ...]: _json("VARCHAR[][]", "{}::JSON::VARCHAR[][]", _pairs),
}


class TableColumn(NamedTuple):
    """One column of a table. `path` leads from the record to its value: `cost_usd`, `usage.llm_calls`."""

    name: str
    path: str
    type: ColumnType
    nullable: bool
    meaning: Column

    @property
    def shown_as(self) -> str:
        """The column's name in the view."""
        return self.meaning.shown_as or self.name

    @property
    def defined(self) -> str:
        """The column in the table's definition."""
        return f'"{self.name}" {self.type.sql}{"" if self.nullable else " NOT NULL"}'

    @property
    def selected(self) -> str:
        """The column in the view's definition."""
        stored = f'"{self.name}"'
        return f'{self.type.expression.format(stored)} AS "{self.shown_as}"'


class DerivedTable(NamedTuple):
    """The table `derived.NAME` and the view NAME.

    A row begins with the cells of `keys`; those of `columns` are the record's own.
    """

    name: str
    description: str
    keys: tuple[TableColumn, ...]
    columns: tuple[TableColumn, ...]

    @property
    def arrow_types(self) -> dict[str, Any]:
        """The Arrow type of each cell of a row, by column."""
        return {column.name: column.type.arrow for column in (*self.keys, *self.columns)}

    @property
    def selected(self) -> str:
        """The columns of the view, over the table."""
        return ", ".join(column.selected for column in self.shown)

    @property
    def select(self) -> str:
        """The query of the view; of sessions, that of the derived columns."""
        return f"SELECT {self.selected} FROM derived.{self.name}"  # noqa: S608 (our own names)

    @property
    def shown(self) -> list[TableColumn]:
        """The columns of the view."""
        return [column for column in (*self.keys, *self.columns) if column.meaning.shown]


def _field(hint: Any) -> tuple[Any, bool, Column | None]:
    """Return a field's type without None, whether it may be None, and its `Column`."""
    hint, column = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
    options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind, *_ = (option for option in options if option is not NoneType)
    if get_origin(kind) is Literal:
        kind = str
    return kind, kind is Any or NoneType in options, column


def _record_in(kind: Any) -> Any:
    """Return the record type of a tuple of records, None for any other type."""
    item: Any = get_args(kind)[0] if get_origin(kind) is tuple else None
    return item if hasattr(item, "_fields") else None


def _columns(record: type, prefix: str = "") -> Iterator[TableColumn]:
    """Yield the columns of a record type.

    In place of a dataclass stand its fields, in place of a tuple of records their number. What has no
    `Column` is stored and not shown.
    """
    for name, hint in get_type_hints(record, include_extras=True).items():
        kind, nullable, column = _field(hint)
        path = prefix + name
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _columns(kind, f"{name}.")
        elif _record_in(kind) is not None:
            if column is not None:
                yield TableColumn(name, path, _COUNT, False, column)
        else:
            column = column or Column("", shown=False)
            yield TableColumn(name, path, TIME if column.unit == "ns" else _TYPES[kind], nullable, column)


_BATCH = TableColumn("batch", "", _INTEGER, False, Column("the run of derivation", shown=False))
_SESSION_ID = TableColumn("session_id", "session_id", _TEXT, False, Column("the session"))
# What lists of sessions show and filter by that is in other tables: looking there takes 0.1 s more.
_TOOLS = TableColumn(
    "tools",
    "",
    _TYPES[tuple[str, ...]],
    True,
    Column("names of the tools that were called, by first call", shown=False),
)
_FIRST_INPUT = TableColumn(
    "first_input", "", _TEXT, True, Column("the beginning of the first user message", shown=False)
)


def table(name: str, record: type, keys: tuple[TableColumn, ...] = (_BATCH, _SESSION_ID)) -> DerivedTable:
    """Return the table of a record type."""
    return DerivedTable(name, (record.__doc__ or "").partition("\n")[0], keys, tuple(_columns(record)))


_FIELDS: dict[str, Any] = {name: _field(hint)[0] for name, hint in get_type_hints(Session).items()}
# The record types of a session by the name of their field, which is that of their table and view.
RECORDS = {name: record for name, kind in _FIELDS.items() if (record := _record_in(kind)) is not None}
# The dataclasses inside a session: their fields are columns of the session's own table.
PARTS: dict[str, Any] = {name: kind for name, kind in _FIELDS.items() if is_dataclass(kind)}

SESSIONS = table("sessions", Session, (_BATCH, _TOOLS, _FIRST_INPUT))
TABLES = {"sessions": SESSIONS} | {name: table(name, record) for name, record in RECORDS.items()}


@cache
def create_statements() -> tuple[str, ...]:
    """Return the statements that create the tables of sessions and the views over them."""
    return tuple(_create_statements())


def _create_statements() -> Iterator[str]:
    for one in TABLES.values():
        defined = ", ".join(column.defined for column in (*one.keys, *one.columns))
        if one is SESSIONS:
            defined += ", PRIMARY KEY (session_id)"  # a session has one row; 3 µs and 70 bytes per session
        yield f"CREATE TABLE derived.{one.name} ({defined})"
        query = sessions_query(one.selected) if one is SESSIONS else one.select
        yield f"CREATE OR REPLACE VIEW {one.name} AS {query}"
    for name in VIEWS:
        yield f"CREATE OR REPLACE VIEW {name} AS {view_query(name)}"


class QuestionMetadata(NamedTuple):
    """One key of the metadata of a golden question, as a run had it."""

    run_id: Annotated[str, Column("the run that graded by the question")]
    question_id: Annotated[str, Column("id of the golden question")]
    key: Annotated[str, Column("the key in `metadata`")]
    value: Annotated[str | None, Column("its value: a text as it is, any other value as JSON")]


class ShownVerdict(NamedTuple):
    """The columns that the view of sessions adds to the derived ones."""

    verdict: Annotated[
        str | None, Column("the one that it shows (see `grades`); unknown if it was not graded")
    ]
    arrived_since: Annotated[bool, Column("whether spans or logs of it arrived after that verdict")]


class RunCell(NamedTuple):
    """Every verdict of every run: a row per session, and one per golden question that no session answers."""

    run_id: Annotated[str, Column("the run")]
    run: Annotated[str, Column("its name, else the beginning of its id")]
    session_id: Annotated[str | None, Column("the session; unknown where none answers the question")]
    question_id: Annotated[str | None, Column("id of the golden question")]
    cell: Annotated[str, Column("what two runs have in common: the question, else the session")]
    verdict: Annotated[str, Column("`passed`, `failed`, `inconclusive`, `broken` or `unmatched`")]
    reason: Annotated[str, Column("what decided the verdict")]
    graded_at: Annotated[int, Column("when it was graded, UTC", "ns")]
    place: Annotated[
        int | None, Column("1: the session shows it, 2: the latest of the other kind; unknown: an older one")
    ]
    records: Annotated[int | None, Column("how many spans and logs the session had then")]


class LatestGrade(NamedTuple):
    """The latest verdict on each session of each kind: at most two rows per session."""

    kind: Annotated[str, Column("`golden` if a golden question judged it, else `policy`")]
    shown: Annotated[
        bool, Column("whether it is the verdict that the session shows: the golden one, else the other")
    ]
    run_id: Annotated[str, Column("the run that graded it")]
    verdict: Annotated[str, Column("`passed`, `failed`, `inconclusive`, `broken` or `unmatched`")]
    reason: Annotated[str, Column("what decided the verdict")]
    question_id: Annotated[str | None, Column("id of the golden question")]
    graded_at: Annotated[int, Column("when it was graded, UTC", "ns")]
    records: Annotated[int | None, Column("how many spans and logs the session had then")]


class LatestScore(NamedTuple):
    """Each metric's outcome for each session, in the latest run that measured it."""

    metric: Annotated[str, Column("the metric")]
    run_id: Annotated[str, Column("the run that measured it")]
    question_id: Annotated[str | None, Column("id of the golden question by which it was measured")]
    value: Annotated[float | None, Column("the value, in the unit of the metric")]
    passed: Annotated[bool | None, Column("whether it met its threshold; unknown without one")]
    outcome: Annotated[str, Column("`score`, `bound`, `inconclusive`, `failure` or `judge_failure`")]
    reason: Annotated[str | None, Column("what the value is of")]
    graded_at: Annotated[int, Column("when it was measured, UTC", "ns")]


class ArrivedSince(NamedTuple):
    """The verdicts that are older than their sessions: spans or logs of these arrived since."""

    run_id: Annotated[str, Column("the run that graded it before")]


class Review(NamedTuple):
    """The sessions of which a label teaches the most: one row per session, reason and reviewer."""

    reason: Annotated[
        str,
        Column(
            "its verdict `failed` (or broke), gates are in `disagreement`, a value is `near a threshold`, or "
            "a label `disputed` one"
        ),
    ]
    reviewer: Annotated[str | None, Column("who labelled otherwise; unknown for the other reasons")]
    details: Annotated[str, Column("the reason of the verdict, the gates, or the labels")]
    distance: Annotated[float | None, Column("of the nearest value from its threshold, as a share of it")]


class DocumentedColumn(NamedTuple):
    """A view's column, for people: its DuckDB type, the unit of its values ("" without) and what it means."""

    name: str
    type: str
    unit: str
    description: str


class DocumentedView(NamedTuple):
    """A view, for people."""

    name: str
    description: str
    columns: tuple[DocumentedColumn, ...]


def documented_views() -> list[DocumentedView]:
    """Return every view with its columns, in their order."""
    others = (
        table("state_variables", StateVariable, (_SESSION_ID,)),
        table("question_metadata", QuestionMetadata, ()),
        table("run_cells", RunCell, ()),
        table("grades", LatestGrade, (_SESSION_ID,)),
        table("review_queue", Review, (_SESSION_ID,)),
        table("latest_scores", LatestScore, (_SESSION_ID,)),
        table("arrived_since", ArrivedSince, ())._replace(
            keys=(), columns=(*table("", ArrivedSince, ()).columns, _SESSION_ID)
        ),
    )
    sessions = SESSIONS._replace(columns=SESSIONS.columns + table("", ShownVerdict, ()).columns)
    return [
        DocumentedView(
            one.name,
            one.description,
            tuple(
                DocumentedColumn(
                    c.shown_as,
                    c.type.shown,
                    "" if c.type is TIME else c.meaning.unit,
                    c.meaning.description,
                )
                for c in one.shown
            ),
        )
        for one in (sessions, *(one for one in TABLES.values() if one is not SESSIONS), *others)
    ]


@cache
def comment_statements() -> tuple[str, ...]:
    """Return the statements that describe the views and their columns in the database itself."""
    return tuple(_comment_statements())


def _comment_statements() -> Iterator[str]:
    for view in documented_views():
        yield f"COMMENT ON VIEW {view.name} IS {text_literal(view.description)}"
        for column in view.columns:
            unit = f" ({column.unit})" if column.unit else ""
            text = text_literal(column.description + unit)
            yield f'COMMENT ON COLUMN {view.name}."{column.name}" IS {text}'
