"""The list of sessions: a page of it, and how many there are."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from spangrade.evaluator.grading.stored_sessions import GRAVEST_FIRST
from spangrade.evaluator.reports.html.filters import (
    ANY,
    ERRORS,
    LABELS,
    NAMED,
    NOT_GRADED,
    SCOPE,
    VERDICTS,
    Scope,
    SessionFilter,
    line_of,
    parse_line,
    session_filter,
    word_of,
)
from spangrade.evaluator.reports.html.queries import page_query, query_rows
from spangrade.evaluator.results.origin import OriginFilter, counts_by_origin
from spangrade.evaluator.results.session_sort import SessionSort
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store

PAGE = 50  # sessions
MAX_SUGGESTIONS = 500
# Sessions in which a page is looked for first: a filter that looks into other tables is quick for so few.
_CANDIDATES = 2_000
_AROUND = 75  # characters of a line before and after what was searched
_LONGEST_ID = 256  # characters in a cursor; ids that are alike beyond may be listed twice

# The columns of the list and their headings; the verdict and the words of a session are always there.
COLUMNS = {
    "started": "Started",
    "latency": "Latency",
    "cost": "Cost",
    "tokens": "Tokens",
    "turns": "Turns",
    "calls": "Calls",
    "errors": "Errors",
    "agents": "Agents",
    "models": "Models",
    "version": "Version",
    "environment": "Environment",
    "user": "User",
    "origin": "Origin",
}
SHOWN_COLUMNS = ("started", "latency", "cost", "tokens", "turns", "agents")
# Filters that a page without any proposes, one click each.
_PROPOSED = (
    ("verdict", "failed"),
    ("verdict", "inconclusive"),
    ("failed_tool", ANY),
    ("errors", "with"),
    ("verdict", NOT_GRADED),
)
# What a filter can be completed to without a query.
_CHOICES = {
    "verdict": VERDICTS,
    "errors": ERRORS,
    "label": LABELS,
    "failed-tool": (ANY,),
    "origin": tuple(map(str, OriginFilter)),
}
_PRODUCTION = ("origin", "production")

SUGGESTIONS = {
    "agent": "suggest_agents",
    "tool": "suggest_tools",
    "model": "suggest_models",
    "version": "suggest_versions",
}
# What the field of the header completes: names, their values, and those whose values are looked up.
SEARCH = {"filters": NAMED, "choices": _CHOICES, "suggested": tuple(SUGGESTIONS)}


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
# The place of each verdict in the order of verdicts; sessions that were not graded are last.
_RANKS = {str(verdict): rank for rank, verdict in enumerate(GRAVEST_FIRST, 1)} | {NOT_GRADED: None}
# The other columns are read for the rows of a page alone: that halves the time.
_COLUMNS = (
    "batch, records, session_id, question_id, start_ns, turns, agents, models, tool_interactions, total_s, "
    "cost_usd, input_tokens + output_tokens AS tokens, errors, agent_version, environment, user_id, origin, "
    "first_input, simulated, assembly_error, sort_key"
)
_SHOWN = "LEFT JOIN (FROM {grades} WHERE shown) AS latest USING (session_id)"
_FROM_PAGE = "FROM derived.sessions JOIN (SELECT place, sort_key FROM page) ON sessions.rowid = place"


class _Part(NamedTuple):
    """Where to read: after a cursor or, backwards, before it; None begins at the first row, or the last."""

    cursor: str | None
    backwards: bool


def sessions_page(
    store: Store, texts: Mapping[str, str], only: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the values of `sessions.html`: the page that the parameters of a URL ask for.

    With `only` the sessions are among those of these ids.

    They are filters, by name or in the line `q`, `sort`, `columns`, and `after` or `before`, a cursor. Raises
    InputError for a value that cannot be used. `number` is that of all sessions that the filters leave, None
    where it takes a query of its own.
    """
    filters = _filters(store, texts)
    chosen = session_filter(filters, only)
    sort = _sort(texts.get("sort") or SessionSort.NEWEST)
    usual = SHOWN_COLUMNS if _is_of_one_origin(store, filters) else (*SHOWN_COLUMNS, "origin")
    columns = _columns(texts, usual)
    after, before = texts.get("after"), texts.get("before")
    part = _Part(before or after, bool(before))
    if sort is SessionSort.VERDICT and "text" not in chosen.given:
        rows = _by_verdict(store, filters, part, only)
    else:
        rows = _page(store, chosen, _ORDERS[sort], part)
    more = len(rows) > PAGE
    rows = rows[1:] if more and before else rows[:PAGE]
    view = {} if sort is SessionSort.NEWEST else {"sort": str(sort)}
    if columns != usual:
        view["columns"] = ",".join(columns)
    given = {**chosen.given, **view}
    scope = Scope(
        {name: chosen.given[name] for name in SCOPE if name in chosen.given and name in _asked(texts)},
        OriginFilter(chosen.given.get("origin", OriginFilter.ANY)),
    )
    return {
        **empty_page(line_of(chosen.given)),
        **scope.values(),
        "kept": {name: value for name, value in given.items() if name not in SCOPE},
        "sessions": _with_verdicts(store, rows, chosen.given.get("run")),
        "hits": _hits(store, rows, chosen),
        "number": rows[0].get("of_all") if rows else None,
        "given": given,
        "view": view,
        "chips": [
            (
                word_of(name, value),
                {one: given[one] for one in given if one != name}
                | ({"origin": OriginFilter.ANY} if (name, value) == _PRODUCTION else {}),
            )
            for name, value in chosen.given.items()
        ],
        "proposed": []
        if chosen.given.keys() - {"origin"}
        else [(word_of(name, value), {**view, name: value}) for name, value in _PROPOSED],
        "sort": str(sort),
        "columns": columns,
        "next": {**given, "after": cursor_of(rows[-1])} if rows and (more or before) else None,
        "previous": {**given, "before": cursor_of(rows[0])}
        if rows and (after or (before and more))
        else None,
    }


def empty_page(line: str, problem: str = "") -> dict[str, Any]:
    """Return the values of `sessions.html` without a session: where the line of filters has a problem."""
    return {
        "line": line,
        "problem": problem,
        "sessions": [],
        "hits": {},
        "number": None,
        "given": {},
        "view": {},
        "chips": [],
        "proposed": [],
        "sort": str(SessionSort.NEWEST),
        "sorts": [str(one) for one in SessionSort],
        "columns": SHOWN_COLUMNS,
        "all_columns": COLUMNS,
        "next": None,
        "previous": None,
    }


def _filters(store: Store, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of an address: those of its line `q`, and those that are parameters of their own.

    Unless an origin, a run or a question is asked for, and where there are both, production is.
    """
    filters = _asked(texts)
    if not filters.keys() & {"origin", "run", "question"} and {*counts_by_origin(store)} > {_PRODUCTION[1]}:
        filters["origin"] = _PRODUCTION[1]
    return filters


def _asked(texts: Mapping[str, str]) -> dict[str, str]:
    return {**texts, **parse_line(texts.get("q", ""))}


def _is_of_one_origin(store: Store, filters: Mapping[str, str]) -> bool:
    """Return whether a list has only sessions of production, or of the one origin that it is asked for."""
    one = filters.get("origin", OriginFilter.ANY) != OriginFilter.ANY
    return one or counts_by_origin(store).keys() <= {_PRODUCTION[1]}


def _columns(texts: Mapping[str, str], usual: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that an address asks for, in the order in which they stand."""
    if "columns" not in texts:
        return usual
    asked = {one for one in texts["columns"].split(",") if one}
    if unknown := asked - COLUMNS.keys():
        raise InputError(f"columns: {min(unknown)[:80]!r}; expected some of {', '.join(COLUMNS)}")
    return tuple(name for name in COLUMNS if name in asked)


def count_page(store: Store, texts: Mapping[str, str], only: Collection[str] | None = None) -> int:
    """Return how many sessions the filters in the parameters of a URL leave, of those in `only`."""
    chosen = session_filter(_filters(store, texts), only)
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


def _by_verdict(
    store: Store, texts: Mapping[str, str], part: _Part, only: Collection[str] | None
) -> list[dict[str, Any]]:
    """Return what `_page` does, in the order of verdicts: one verdict after the other, by id in each.

    To find the latest verdict of every session in order to sort by it takes five times as long.
    """
    given = texts.get("verdict", "").strip()
    occurring = {
        verdict for (verdict,) in store.query(with_views("SELECT DISTINCT verdict FROM {run_cells}"))
    }
    ranks = {one: rank for one, rank in _RANKS.items() if one == NOT_GRADED or one in occurring}
    start = _position(part.cursor)[0] if part.cursor else None
    rows: list[dict[str, Any]] = []
    for verdict, rank in reversed(ranks.items()) if part.backwards else ranks.items():
        passed_by = part.cursor and _is_before(rank, start, backwards=part.backwards)
        if passed_by or (given and given != verdict):
            continue
        order = _Order("NULL::BIGINT" if rank is None else f"{rank}::BIGINT", descending=False)
        found = _page(store, session_filter({**texts, "verdict": verdict}, only), order, part)
        rows = found + rows if part.backwards else rows + found
        if len(rows) > PAGE:
            break
    return rows[-PAGE - 1 :] if part.backwards else rows[: PAGE + 1]


def _is_before(rank: int | None, start: float | None, *, backwards: bool) -> bool:
    """Return whether rows of a rank come before the row that has `start`, in the direction of reading."""
    places = [math.inf if one is None else one for one in (rank, start)]
    return places[0] > places[1] if backwards else places[0] < places[1]


def _page(store: Store, chosen: SessionFilter, order: _Order, part: _Part) -> list[dict[str, Any]]:
    """Return the rows of a page and, if there are more, one of the next page in the direction of reading."""
    backwards = part.backwards
    condition, parameters = "true", dict(chosen.parameters)
    if part.cursor:
        key, parameters["cursor_id"] = _position(part.cursor)
        if key is not None:
            parameters["cursor_key"] = key
        condition = _beyond(key is not None, order.descending, backwards)
    key_order = (
        f"{'DESC' if order.descending != backwards else 'ASC'} NULLS {'FIRST' if backwards else 'LAST'}"
    )
    ordered = f"ORDER BY sort_key {key_order}, session_id {'DESC' if backwards else 'ASC'}"
    latest = with_views(_SHOWN) if "latest." in order.key else ""
    listed = (
        "SELECT place, session_id, sort_key FROM ("  # noqa: S608 (our own text)
        f"SELECT sessions.*, sessions.rowid AS place, {order.key} AS sort_key FROM derived.sessions {latest}"
        f") AS listed WHERE ({condition}) AND {{}} {ordered} LIMIT {{}}"
    )
    rows: list[dict[str, Any]] = []
    if chosen.candidate_lookups:
        candidates = listed.format(chosen.own, _CANDIDATES)
        page = f"FROM candidates AS listed WHERE {chosen.candidate_lookups} {ordered} LIMIT {PAGE + 1}"
        query = (
            f"WITH candidates AS MATERIALIZED ({candidates}), page AS ({page}) "  # noqa: S608 (ours)
            f"SELECT {_COLUMNS}, (SELECT count(*) FROM candidates) AS of_candidates {_FROM_PAGE} {ordered}"
        )
        rows = query_rows(store, query, parameters)
    if len(rows) <= PAGE and not (rows and rows[0]["of_candidates"] < _CANDIDATES):
        rows = query_rows(store, f"{_whole(chosen, listed)} {_FROM_PAGE} {ordered}", parameters)
    return rows[::-1] if backwards else rows


def _whole(chosen: SessionFilter, listed: str) -> str:
    """Return the beginning of the query of a page over all sessions.

    A search for a text counts what it finds: to count it in a query of its own would take as long again.
    """
    if "text" not in chosen.given:
        return f"WITH page AS ({listed.format(chosen.condition, PAGE + 1)}) SELECT {_COLUMNS}"
    found = f"SELECT session_id FROM derived.sessions AS listed WHERE {chosen.condition}"  # noqa: S608 (ours)
    page = listed.format("session_id IN (FROM found)", PAGE + 1)
    return (
        f"WITH found AS MATERIALIZED ({found}), page AS ({page}) "  # noqa: S608 (ours)
        f"SELECT {_COLUMNS}, (SELECT count(*) FROM found) AS of_all"
    )


def _beyond(known: bool, descending: bool, backwards: bool) -> str:
    """Return the condition of the rows after a cursor or, backwards, before it; unknown keys come last."""
    beyond_id = f"session_id {'<' if backwards else '>'} $cursor_id"
    if not known:
        return f"sort_key IS NOT NULL OR {beyond_id}" if backwards else f"sort_key IS NULL AND {beyond_id}"
    smaller = descending != backwards
    condition = f"sort_key {'<' if smaller else '>'} $cursor_key OR (sort_key = $cursor_key AND {beyond_id})"
    return condition if backwards else f"{condition} OR sort_key IS NULL"


def cursor_of(row: Mapping[str, Any]) -> str:
    """Return where a page goes on after a row."""
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


class Hit(NamedTuple):
    """Where a text occurs in a session: the line around it, and the span or the turn that has it."""

    field: str
    before: str
    marked: str
    after: str
    span_id: str | None
    turn: int | None


def _hits(store: Store, rows: Sequence[dict[str, Any]], chosen: SessionFilter) -> dict[str, Hit]:
    """Return where each session of a page has what is searched, by its id: words, else a call.

    A call is the first of the tool, the failed tool or the model that is asked for.
    """
    given = chosen.given
    words, as_json = given.get("text", ""), str(chosen.parameters.get("json", ""))
    ids = {f"id{number}": row["session_id"] for number, row in enumerate(rows)}
    if not rows:
        return {}

    def query(name: str) -> str:
        text = page_query(name).replace("$page_ids", ", ".join(f"${name}" for name in ids))
        return text.replace("$page_batches", ", ".join({str(int(row["batch"])) for row in rows}))

    if not words:
        calls: list[tuple[Any, ...]] = []
        if given.keys() & {"tool", "failed_tool"}:
            asked = {"tool": chosen.parameters.get("tool"), "failed": given.get("failed_tool")}
            calls = store.query(query("where_call_is"), {**ids, **asked})
        elif "model" in given:
            calls = store.query(query("where_model_is"), {**ids, "model": chosen.parameters["model"]})
        return {
            session_id: Hit("call", "", name, f" {content}", span_id, turn)
            for session_id, turn, span_id, name, content in calls
        }
    found = store.query(query("where_text_occurs"), {**ids, "text": words, "json": as_json})
    pattern = re.compile(f"{re.escape(words)}|{re.escape(as_json)}", re.IGNORECASE)
    hits = {}
    for session_id, turn, span_id, field, content in found:
        mark = pattern.search(content)
        start, end = mark.span() if mark else (0, 0)
        after = content[end : end + _AROUND]
        hits[session_id] = Hit(
            field,
            ("…" if start > _AROUND else "") + content[max(start - _AROUND, 0) : start],
            content[start:end],
            after + ("…" if end + _AROUND < len(content) else ""),
            span_id,
            turn,
        )
    return hits


def _with_verdicts(store: Store, rows: Sequence[dict[str, Any]], run_id: str | None) -> list[dict[str, Any]]:
    """Return rows with the verdict of a run, else of the latest, its reason and its question."""
    ids = {f"id{number}": row["session_id"] for number, row in enumerate(rows)}
    found: dict[str, tuple[Any, ...]] = {}
    if ids:
        # Values, not a table: DuckDB reads half as much for a list of values.
        query = page_query("page_verdicts").replace("$page_ids", ", ".join(f"${name}" for name in ids))
        found = {one: tuple(rest) for one, *rest in store.query(query, {**ids, "run": run_id})}
    listed = []
    for row in rows:
        verdict, reason, question_id, records = found.get(row["session_id"], (None, None, None, None))
        listed.append(
            {
                **row,
                "agents": orjson.loads(row["agents"] or "[]"),
                "models": orjson.loads(row["models"] or "[]"),
                "verdict": verdict,
                "reason": reason,
                "arrived_since": records is not None and records != row["records"],
                "question_id": question_id or row["question_id"],
            }
        )
    return listed
