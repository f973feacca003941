"""Messages that were given up: the server that sends them writes them down."""

from __future__ import annotations

from spangrade.tracer.store import Store


def given_up(store: Store) -> list[tuple[str, int, str]]:
    """Return the kinds of messages that were given up, how many they are and the last error of one."""
    if not store.query("SELECT 1 FROM duckdb_tables() WHERE table_name = 'deliveries'"):
        return []
    return store.query(
        "SELECT kind, count(*), arg_max(last_error, rowid) FROM deliveries WHERE next_ns IS NULL "
        "GROUP BY kind ORDER BY kind"
    )
