"""The queries of the pages: `NAME.sql` in this folder."""

from __future__ import annotations

from typing import Any

from spangrade.evaluator.results.views import with_views
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

_PACKAGE = "spangrade.evaluator.reports.html"


def rows_of(store: Store, name: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return the rows of `NAME.sql`, by column."""
    return query_rows(store, page_query(name), parameters)


def page_query(name: str) -> str:
    """Return the text of `NAME.sql`."""
    return with_views(statement(name, _PACKAGE))


def query_rows(store: Store, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a query, by column."""
    result = store.connection.execute(query, parameters)
    columns = [name for name, *_ in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
