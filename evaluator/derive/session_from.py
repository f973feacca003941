"""Session ids in attributes of the user's choice: which attributes is a setting of the database."""

from __future__ import annotations

from collections.abc import Iterable

from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.untrusted import column_types


def session_from(store: Store) -> tuple[str, ...]:
    """Return the names of the attributes that hold a session's id, the first one first."""
    if column_types(store.connection, "session_from") is None:
        return ()
    return tuple(name for (name,) in store.query("SELECT attribute FROM session_from ORDER BY position"))


def set_session_from(store: Store, attributes: Iterable[str]) -> None:
    """Set the names of the attributes that hold a session's id; if they change, all is derived again."""
    names = tuple(dict.fromkeys(attributes))
    if names == session_from(store):
        return
    with store.transaction():
        store.query(
            "CREATE OR REPLACE TABLE session_from (position INTEGER NOT NULL, attribute VARCHAR NOT NULL)"
        )
        for position, name in enumerate(names):
            store.query(
                "INSERT INTO session_from VALUES ($position, $name)", {"position": position, "name": name}
            )
        if store.query("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'derived'"):
            store.query("DELETE FROM derived.progress")


def session_id_of(span: Span, attributes: Iterable[str]) -> str | None:
    """Return the session id in the first of the attributes that a span, or else its resource, has."""
    for name in attributes:
        value = span.attributes.get(name, span.resource.get(name))
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return None
