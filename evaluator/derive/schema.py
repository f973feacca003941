"""Sessions as rows of the derived tables, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_args, get_type_hints

import nanoarrow as na
import orjson

from spangrade.evaluator.session import (
    Error,
    Latency,
    LLMCall,
    Session,
    Step,
    ToolInteraction,
    Turn,
    Usage,
)
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.store import Store

Row = tuple[Any, ...]

_SESSION_COLUMNS = {
    "session_id_source": na.string(),
    "question_id": na.string(),
    "start_ns": na.int64(),
    "turns": na.int64(),
    "tool_calls": na.int64(),
    "agents": na.string(),
    "handoffs": na.string(),
    "models": na.string(),
    "llm_calls": na.int64(),
    "input_tokens": na.int64(),
    "output_tokens": na.int64(),
    "cached_input_tokens": na.int64(),
    "reasoning_tokens": na.int64(),
    "complete": na.bool_(),
    "cost_usd": na.float64(),
    "cost_unknown": na.string(),
    "total_s": na.float64(),
    "llm_s": na.float64(),
    "tool_s": na.float64(),
    "framework_s": na.float64(),
    "first_response_s": na.float64(),
    "state": na.string(),
    "errors": na.int64(),
    "missing_spans": na.int64(),
    "sampled": na.bool_(),
}
_KEY = {"batch": na.int64(), "session_id": na.string()}


def _columns(row: type) -> dict[str, Any]:
    """Return a row type's columns: what is no number, text or truth value is kept as JSON text."""
    scalars = {int: na.int64(), float: na.float64(), bool: na.bool_()}
    found = {}
    for name, hint in get_type_hints(row).items():
        plain = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
        found[name] = scalars.get(plain[0], na.string())
    return _KEY | found


TABLES: dict[str, dict[str, Any]] = {
    "sessions": _KEY | _SESSION_COLUMNS,
    "turns": _columns(Turn),
    "steps": _columns(Step),
    "tool_interactions": _columns(ToolInteraction),
    "llm_calls": _columns(LLMCall),
    "errors": _columns(Error),
}
TRACES = {
    "trace_id": na.string(),
    "first_seq": na.int64(),
    "last_seq": na.int64(),
    "session_id": na.string(),
    "start_ns": na.int64(),
    "history": na.string(),
    "asked": na.string(),
}
REACHED = {
    "session_id": na.string(),
    "trace_id": na.string(),
    "start_ns": na.int64(),
    "key": na.string(),
}


def rows_of(sessions: Iterable[Session], batch: int) -> dict[str, list[Row]]:
    """Return the rows that sessions make, by table."""
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    for s in sessions:
        key = (batch, s.session_id)
        rows["sessions"].append(key + _session_row(s))
        rows["turns"] += [(*key, *turn[:-1], _json(turn.trace_ids)) for turn in s.turns]
        rows["steps"] += [key + step for step in s.trajectory]
        rows["tool_interactions"] += [
            key
            + tool._replace(
                input_arguments=canonical(tool.input_arguments) if tool.arguments_known else None,
                output=canonical(tool.output) if tool.output_known else None,
            )
            for tool in s.tool_interactions
        ]
        rows["llm_calls"] += [key + call for call in s.llm_calls]
        rows["errors"] += [key + error for error in s.errors]
    return rows


def _session_row(s: Session) -> Row:
    u, t = s.usage, s.latency
    return (
        s.session_id_source,
        s.question_id,
        s.turns[0].start_ns if s.turns else None,
        len(s.turns),
        len(s.tool_interactions),
        _json(s.agents),
        _json(s.handoffs),
        _json(s.models),
        u.llm_calls,
        u.input_tokens,
        u.output_tokens,
        u.cached_input_tokens,
        u.reasoning_tokens,
        u.complete,
        s.cost_usd,
        s.cost_unknown,
        t.total_s,
        t.llm_s,
        t.tool_s,
        t.framework_s,
        t.first_response_s,
        _json(s.state_variables),
        len(s.errors),
        s.missing_spans,
        s.sampled,
    )


def _json(value: Any) -> str | None:
    return None if value is None else canonical(value)


BATCHES_AT_ONCE = 2_000  # sessions


def load_batches(store: Store, first: int, last: int) -> Iterator[Session]:
    """Yield the sessions of the batches from `first` to `last`, in the order in which they were derived."""
    yield from _load(store, "batch BETWEEN $low AND $high", first, last)


def load_sessions(store: Store, session_ids: Sequence[str]) -> Iterator[Session]:
    """Yield the sessions of some ids, in the order in which they were derived; unknown ids are left out."""
    yield from _load(store, "session_id IN (SELECT unnest($low)) AND $high IS NULL", list(session_ids), None)


def load(store: Store, session_id: str | None = None) -> Iterator[Session]:
    """Yield the derived sessions (or the one of an id) in the order in which they were derived."""
    if session_id is not None:
        yield from _load(store, "session_id = $low AND session_id = $high", session_id, session_id)
        return
    sizes = store.query("SELECT batch, count(*) FROM derived.sessions GROUP BY batch ORDER BY batch")
    low, size = None, 0
    for batch, count in sizes:
        low = batch if low is None else low
        size += count
        if size >= BATCHES_AT_ONCE:
            yield from _load(store, "batch BETWEEN $low AND $high", low, batch)
            low, size = None, 0
    if low is not None:
        yield from _load(store, "batch BETWEEN $low AND $high", low, sizes[-1][0])


def _load(store: Store, where: str, low: Any, high: Any) -> Iterator[Session]:
    def rows(table: str) -> list[Row]:
        columns = ", ".join(f'"{name}"' for name in TABLES[table] if name != "batch")
        # In the order of insertion, which DuckDB preserves: a session's rows were written in their order.
        return store.query(
            f"SELECT {columns} FROM derived.{table} WHERE {where}",  # noqa: S608 (our own names)
            {"low": low, "high": high},
        )

    turns = _by_session(rows("turns"), _turn)
    steps = _by_session(rows("steps"), Step._make)
    tools = _by_session(rows("tool_interactions"), _tool)
    calls = _by_session(rows("llm_calls"), LLMCall._make)
    errors = _by_session(rows("errors"), Error._make)
    for r in rows("sessions"):
        session_id = r[0]
        handoffs = _value(r[7])
        yield Session(
            session_id,
            r[1],
            r[2],
            tuple(turns.get(session_id, ())),
            tuple(steps.get(session_id, ())),
            _tuple(r[6]),
            tuple(tools.get(session_id, ())),
            None if handoffs is None else tuple((pair[0], pair[1]) for pair in handoffs),
            _value(r[22]),
            tuple(calls.get(session_id, ())),
            Usage(*r[9:15]),
            _tuple(r[8]),
            r[15],
            r[16],
            Latency(*r[17:22]),
            tuple(errors.get(session_id, ())),
            r[24],
            r[25],
        )


def _by_session(rows: Iterable[Row], make: Callable[[Row], Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(make(row[1:]))
    return found


def _turn(row: Row) -> Turn:
    return Turn._make((*row[:-1], tuple(orjson.loads(row[-1]))))


def _tool(row: Row) -> ToolInteraction:
    position, turn, name, arguments, output, *rest = row
    return ToolInteraction(position, turn, name, _value(arguments), _value(output), *rest)


def _value(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def _tuple(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(orjson.loads(text))
