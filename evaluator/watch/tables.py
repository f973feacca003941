"""The tables of `spangrade watch`: a database that nobody watches has none of them."""

from __future__ import annotations

from spangrade.tracer.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement
from spangrade.tracer.store.untrusted import table_problem

COLUMNS = {
    "watched": {
        "session_id": "VARCHAR",
        "gates": "VARCHAR",
        "content": "VARCHAR",
        "seq": "BIGINT",
        "run_id": "VARCHAR",
        "verdict": "VARCHAR",
        "graded_ns": "BIGINT",
    },
    "watch_progress": {"gates": "VARCHAR", "seq": "BIGINT", "time_ns": "BIGINT", "since_ns": "BIGINT"},
    "deliveries": {
        "id": "VARCHAR",
        "kind": "VARCHAR",
        "session_id": "VARCHAR",
        "body": "VARCHAR",
        "attempts": "INTEGER",
        "next_ns": "BIGINT",
        "last_error": "VARCHAR",
        "mark": "VARCHAR",
    },
    "watch_totals": {
        "name": "VARCHAR",
        "attributes": "VARCHAR",
        "start_ns": "BIGINT",
        "count": "BIGINT",
        "sum": "DOUBLE",
        "min": "DOUBLE",
        "max": "DOUBLE",
        "buckets": "BIGINT[]",
    },
    "watch_spending": {"time_ns": "BIGINT", "calls": "BIGINT", "cost_usd": "DOUBLE"},
}


def create_tables(store: Store) -> None:
    """Create the tables that are missing. Raises StoreError if others have their names."""
    with store.transaction():
        store.query(sql("tables"))
    if problem := table_problem(store.connection, "main", COLUMNS):
        raise StoreError(f"{store.path}: {problem}")


def sql(name: str) -> str:
    """Return the text of a statement."""
    return statement(name, "spangrade.evaluator.watch.sql")
