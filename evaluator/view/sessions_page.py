"""The list of sessions: a page of it, and how many there are."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from spangrade.evaluator.grading.stored_grades import LATEST_VERDICTS
from spangrade.evaluator.session_list import GRAVEST_FIRST, SessionSort
from spangrade.evaluator.view.filters import ERRORS, VERDICTS, SessionFilter, session_filter
from spangrade.evaluator.view.queries import page_query, query_rows
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store

PAGE = 50  # sessions
MAX_SUGGESTIONS = 500
# Sessions in which a page is looked for first: a filter that looks into other tables is quick for so few.
_CANDIDATES = 2_000
_LONGEST_ID = 256  # characters in a cursor; ids that are alike beyond may be listed twice

SUGGESTIONS = {
    "agent": "suggest_agents",
    "tool": "suggest_tools",
    "model": "suggest_models",
    "version": "suggest_versions",
}


class _Order(NamedTuple):
    key: str
    descending: bool


_ORDERS = {
    SessionSort.NEWEST: _Order("start_ns", True),
    SessionSort.START: _Order("start_ns", False),
    SessionSort.LATENCY: _Order("total_s", True),
    SessionSort.COST: _Order("cost_usd", True),
    SessionSort.TOKENS: _Order("input_tokens + output_tokens", True),
    SessionSort.ERRORS: _Order("errors", True),
    SessionSort.VERDICT: _Order(f"list_position({[*map(str, GRAVEST_FIRST)]}, latest.verdict)", False),
}
_COLUMNS = (
    "session_id, batch, question_id, start_ns, turns, agents, models, tool_interactions, total_s, cost_usd, "
    "input_tokens + output_tokens AS tokens, errors, agent_version, assembly_error"
)


def sessions_page(store: Store, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `sessions.html`: the page that the parameters of a URL ask for.

    They are filters, `sort`, and `after` or `before`, a cursor. Raises InputError for a value that cannot be
    used.
    """
    chosen = session_filter(texts)
    sort = _sort(texts.get("sort") or SessionSort.NEWEST)
    after, before = texts.get("after"), texts.get("before")
    rows = _page(store, chosen, _ORDERS[sort], after, before)
    more = len(rows) > PAGE
    rows = rows[1:] if more and before else rows[:PAGE]
    given = {**chosen.given, **({} if sort is SessionSort.NEWEST else {"sort": str(sort)})}
    return {
        "sessions": _with_details(store, rows, chosen.given.get("run")),
        "given": given,
        "sort": str(sort),
        "sorts": [str(one) for one in SessionSort],
        "verdicts": VERDICTS,
        "errors": ERRORS,
        "next": {**given, "after": _cursor(rows[-1])} if rows and (more or before) else None,
        "previous": {**given, "before": _cursor(rows[0])} if rows and (after or (before and more)) else None,
    }


def count_page(store: Store, texts: Mapping[str, str]) -> int:
    """Return how many sessions the filters in the parameters of a URL leave."""
    chosen = session_filter(texts)
    query = f"SELECT count(*) FROM derived.sessions AS listed WHERE {chosen.condition}"  # noqa: S608 (our own text)
    return int(store.query(query, dict(chosen.parameters))[0][0])


def suggestions(store: Store, name: str) -> list[str]:
    """Return the values to choose from for a filter in `SUGGESTIONS`, at most `MAX_SUGGESTIONS`."""
    rows = store.query(page_query(SUGGESTIONS[name]), {"limit": MAX_SUGGESTIONS})
    return [value for (value,) in rows]


def _sort(text: str) -> SessionSort:
    try:
        return SessionSort(text)
    except ValueError:
        raise InputError(f"cannot sort by {text!r}: expected one of {', '.join(SessionSort)}") from None


def _page(
    store: Store, chosen: SessionFilter, order: _Order, after: str | None, before: str | None
) -> list[dict[str, Any]]:
    """Return the rows of a page and, if there are more, one of the next page in the direction of reading."""
    backwards = bool(before)
    condition, parameters = "true", dict(chosen.parameters)
    if cursor := before or after:
        key, parameters["cursor_id"] = _position(cursor)
        if key is not None:
            parameters["cursor_key"] = key
        condition = _beyond(key is not None, order.descending, backwards)
    key_order = (
        f"{'DESC' if order.descending != backwards else 'ASC'} NULLS {'FIRST' if backwards else 'LAST'}"
    )
    ordered = f"ORDER BY sort_key {key_order}, session_id {'DESC' if backwards else 'ASC'}"
    latest = f"LEFT JOIN ({LATEST_VERDICTS}) AS latest USING (session_id)" if "latest." in order.key else ""
    listed = (
        f"SELECT {_COLUMNS}, sort_key "  # noqa: S608 (our own text)
        f"FROM (SELECT sessions.*, {order.key} AS sort_key FROM derived.sessions {latest}) AS listed "
        f"WHERE ({condition}) AND {{}} {ordered} LIMIT {{}}"
    )
    rows: list[dict[str, Any]] = []
    if chosen.candidate_lookups:
        query = (
            f"WITH candidates AS MATERIALIZED ({listed.format(chosen.own, _CANDIDATES)}) "  # noqa: S608 (ours)
            f"SELECT *, (SELECT count(*) FROM candidates) AS of_candidates FROM candidates AS listed "
            f"WHERE {chosen.candidate_lookups} {ordered} LIMIT {PAGE + 1}"
        )
        rows = query_rows(store, query, parameters)
    if len(rows) <= PAGE and not (rows and rows[0]["of_candidates"] < _CANDIDATES):
        rows = query_rows(store, listed.format(chosen.condition, PAGE + 1), parameters)
    return rows[::-1] if backwards else rows


def _beyond(known: bool, descending: bool, backwards: bool) -> str:
    """Return the condition of the rows after a cursor or, backwards, before it; unknown keys come last."""
    beyond_id = f"session_id {'<' if backwards else '>'} $cursor_id"
    if not known:
        return f"sort_key IS NOT NULL OR {beyond_id}" if backwards else f"sort_key IS NULL AND {beyond_id}"
    smaller = descending != backwards
    condition = f"sort_key {'<' if smaller else '>'} $cursor_key OR (sort_key = $cursor_key AND {beyond_id})"
    return condition if backwards else f"{condition} OR sort_key IS NULL"


def _cursor(row: Mapping[str, Any]) -> str:
    content = orjson.dumps([row["sort_key"], row["session_id"][:_LONGEST_ID]])
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def _position(cursor: str) -> tuple[float | None, str]:
    try:
        content = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        key, session_id = orjson.loads(content)
    except ValueError:
        key, session_id = "", ""
    if not (key is None or isinstance(key, int | float)) or not isinstance(session_id, str):
        raise InputError("this address of a page is damaged: open the list again")
    return key, session_id


def _with_details(store: Store, rows: Sequence[dict[str, Any]], run_id: str | None) -> list[dict[str, Any]]:
    """Return rows with the verdict of a run, else of the latest, and the first message."""
    ids = {f"id{number}": row["session_id"] for number, row in enumerate(rows)}
    # Values, not a table: DuckDB reads half as much for a list of values.
    page = ", ".join(f"${name}" for name in ids) or "NULL"
    batches = ", ".join(str(row["batch"]) for row in rows) or "NULL"
    verdicts = dict(store.query(_details("page_verdicts", page), {**ids, "run": run_id}))
    inputs = dict(store.query(_details("page_inputs", page, batches), ids))
    return [
        {
            **row,
            "agents": orjson.loads(row["agents"] or "[]"),
            "models": orjson.loads(row["models"] or "[]"),
            "verdict": verdicts.get(row["session_id"]),
            "user_input": inputs.get(row["session_id"]),
        }
        for row in rows
    ]


def _details(name: str, ids: str, batches: str = "") -> str:
    return page_query(name).replace("$page_ids", ids).replace("$page_batches", batches)
