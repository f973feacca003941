"""The page of tools and models: what their calls took, cost and how many failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from spangrade.evaluator.grading.origin import left_out_origins
from spangrade.evaluator.view.queries import page_query, query_rows
from spangrade.evaluator.view.scope import scope_of
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store

MAX_ROWS = 500  # tools, and models
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

    def rows(kind: str) -> list[dict[str, Any]]:
        query = page_query(f"{kind}_calls").replace("$by", BY[by]).replace("$condition", chosen.condition)
        found = query_rows(store, query, parameters)
        return [{**row, "filters": _filters_of(row, kind, by, scope.filters)} for row in found]

    return {
        **scope.values(),
        "kept": {"by": by} if by else {},
        "by": by,
        "bys": tuple(BY),
        "left_out_origins": left_out_origins(store, scope.origin),
        "tools": rows("tool"),
        "models": rows("model"),
        "max_rows": MAX_ROWS,
    }


def _filters_of(
    row: Mapping[str, Any], kind: str, by: str, filters: Mapping[str, str]
) -> dict[str, str] | None:
    """Return the filters of the list that leave the sessions of a row; None where there are none for it.

    There is no filter for what is not recorded.
    """
    named = {kind: row["name"], **({by: row["part"]} if by else {})}
    return {**filters, **named} if all(text and text.strip() for text in named.values()) else None
