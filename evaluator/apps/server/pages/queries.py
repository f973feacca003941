"""The queries of pages: `NAME.sql` in this folder, else one that reports have, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spangrade.evaluator.reports.html.queries import page_query as query_of_reports
from spangrade.evaluator.reports.html.queries import query_rows
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement


def rows_of(store: Store, name: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return the rows of `NAME.sql`, by column."""
    return query_rows(store, page_query(name), parameters)


def page_query(name: str) -> str:
    """Return the text of `NAME.sql`."""
    is_here = Path(__file__).with_name(f"{name}.sql").exists()
    return with_views(statement(name, __package__)) if is_here else query_of_reports(name)
