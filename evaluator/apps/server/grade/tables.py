"""The tables of `spangrade serve --only grade`: a database that nobody watches has none of them."""

from __future__ import annotations

from collections.abc import Mapping

from spangrade.tracer.base.errors import StoreError
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
    "alarms": {
        **dict.fromkeys(
            ("alarm_id", "alert", "rule", "stream_by", "stream", "cause", "text", "filters"), "VARCHAR"
        ),
        **dict.fromkeys(("started_ns", "ended_ns", "since_ns", "sessions"), "BIGINT"),
        **dict.fromkeys(("value", "limit_value", "before"), "DOUBLE"),
    },
    "alarm_sessions": {
        "alarm_id": "VARCHAR",
        "stream": "VARCHAR",
        "place": "BIGINT",
        "session_id": "VARCHAR",
    },
}


SENT_SCORES = {
    "sent_scores": {
        "endpoint": "VARCHAR",
        "session_id": "VARCHAR",
        "question_id": "VARCHAR",
        "metric": "VARCHAR",
        "content": "VARCHAR",
        "run_id": "VARCHAR",
        "time_ns": "BIGINT",
        "trace_id": "VARCHAR",
        "span_id": "VARCHAR",
        "sent_ns": "BIGINT",
    }
}


def create_tables(store: Store) -> None:
    """Create the tables that are missing. Raises StoreError if others have their names."""
    _create(store, "tables", COLUMNS)


def create_sent_scores(store: Store) -> None:
    """Create the table of scores that were sent, if it is missing. Raises StoreError as above."""
    _create(store, "sent_scores", SENT_SCORES)


def check_sent_scores(store: Store) -> bool:
    """Return whether there is the table of scores that were sent. Raises StoreError for another."""
    if not store.query("SELECT 1 FROM duckdb_tables() WHERE table_name = 'sent_scores'"):
        return False
    _check(store, SENT_SCORES)
    return True


def _create(store: Store, name: str, columns: Mapping[str, Mapping[str, str]]) -> None:
    with store.transaction():
        store.query(sql(name))
    _check(store, columns)


def _check(store: Store, columns: Mapping[str, Mapping[str, str]]) -> None:
    if problem := table_problem(store.connection, "main", columns):
        raise StoreError(f"{store.path}: {problem}")


def sql(name: str) -> str:
    """Return the text of a statement."""
    return statement(name, "spangrade.evaluator.apps.server.grade.sql")
