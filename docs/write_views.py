"""Write docs/views.md from the columns of the record types: `python docs/write_views.py`."""

from __future__ import annotations

from pathlib import Path

from spangrade.evaluator.derive.schema import DocumentedView, documented_views

_HEAD = """# The views

What is derived from spans, for questions in SQL: `spangrade sql "SELECT … FROM sessions"`, or any client of
DuckDB on the file. `spangrade show SESSION --format json` has the same columns under the same names, a turn's
number as `index`. NULL is *unknown*: the spans do not record it. Times are UTC. The database describes its
columns, too: `SELECT table_name, column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL`.

This page is written by `docs/write_views.py`.
"""


def page() -> str:
    """Return the text of docs/views.md."""
    return "\n".join([_HEAD, *map(_section, documented_views())])


def _section(view: DocumentedView) -> str:
    rows = [
        f"| `{column.name}` | {column.type} | {column.unit} | {column.description} |"
        for column in view.columns
    ]
    head = f"## {view.name}\n\n{view.description}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("views.md").write_text(page(), encoding="utf-8")
