"""The page of tools and models: what their calls took, cost and how many failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from spangrade.evaluator.apps.server.pages.charts import DAY, bars, slot_ns, slots_between, small_step_for
from spangrade.evaluator.apps.server.pages.queries import page_query
from spangrade.evaluator.reports.html.filters import Scope, scope_of
from spangrade.evaluator.reports.html.queries import query_rows
from spangrade.evaluator.results.origin import left_out_origins
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store

MAX_ROWS = 500  # tools, and models
MAX_BARS = 16  # of a trend
# What divides the calls of a tool or a model into rows, in SQL: their agent, the version of their session.
BY = {"": "NULL::VARCHAR", "agent": "agent", "version": "agent_version"}


def tools_page(store: Store, texts: Mapping[str, str], only: Collection[str] | None = None) -> dict[str, Any]:
    """Return the values of `tools.html`: the calls that the parameters of a URL choose, by tool and by model.

    With `only` the calls are those of the sessions of these ids. The parameters are the header's filters, of
    which `agent` is the one that made the calls, and `by`, one of `BY`. Raises InputError for a
    value that cannot be used.
    """
    scope = scope_of(store, texts)
    by = texts.get("by", "").strip()
    if by not in BY:
        raise InputError(f"by: {by[:80]!r}; expected one of {', '.join(filter(None, BY))}")
    chosen = scope.sessions(only, "agent")
    parameters = {**chosen.parameters, "caller": scope.given.get("agent"), "limit": MAX_ROWS}

    of_sessions = ""
    if by == "version" or not _is_all(store, scope, only):
        of_sessions = (
            f"JOIN (SELECT session_id, agent_version FROM derived.sessions WHERE {chosen.condition}) "  # noqa: S608 (ours)
            "USING (session_id)"
        )
    else:  # a condition that all sessions meet takes half of the time
        parameters = {"caller": scope.given.get("agent"), "limit": MAX_ROWS}
    times = f"SELECT min(start_ns), max(start_ns) FROM derived.sessions WHERE {chosen.condition}"  # noqa: S608 (ours)
    ((first, last),) = store.query(times, dict(chosen.parameters))
    # A call that began after the last session did is in the last slot.
    step = DAY if first is None else small_step_for(first, last, MAX_BARS)
    low, parts = slot_ns(first or 0, step), slots_between(step, first or 0, last or 0)

    def queried(name: str, more: Mapping[str, Any]) -> list[dict[str, Any]]:
        text = page_query(name).replace("$by", BY[by]).replace("$sessions", of_sessions)
        known = {key: value for key, value in parameters.items() if key != "limit"}
        return query_rows(store, text, {**known, **more})

    def rows(kind: str) -> list[dict[str, Any]]:
        found = queried(f"{kind}_calls", {"limit": MAX_ROWS})
        trends: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(lambda: [(0, 0)] * parts)
        if found:
            bounds = {"low": low, "high": low + parts * step.ns - 1, "parts": parts}
            for row in queried(f"{kind}_trend", bounds):
                trends[row["name"], row["part"]][row["place"]] = (row["calls"], row["failed"])
        return [
            {
                **row,
                "filters": _filters_of(row, kind, by, scope.filters),
                "trend": bars(trends[row["name"], row["part"]]),
            }
            for row in found
        ]

    return {
        **scope.values(),
        "kept": {"by": by} if by else {},
        "by": by,
        "step": step.name,
        "bys": tuple(BY),
        "left_out_origins": left_out_origins(store, scope.origin),
        "tools": rows("tool"),
        "models": rows("model"),
        "max_rows": MAX_ROWS,
    }


def _is_all(store: Store, scope: Scope, only: Collection[str] | None) -> bool:
    """Return whether every session of the database is in the scope; the agent is that of the calls."""
    return (
        only is None
        and scope.given.keys() <= {"origin", "agent"}
        and not left_out_origins(store, scope.origin)
    )


def _filters_of(
    row: Mapping[str, Any], kind: str, by: str, filters: Mapping[str, str]
) -> dict[str, str] | None:
    """Return the filters of the list that leave the sessions of a row; None where there are none for it.

    There is no filter for what is not recorded.
    """
    named = {kind: row["name"], **({by: row["part"]} if by else {})}
    return {**filters, **named} if all(text and text.strip() for text in named.values()) else None
