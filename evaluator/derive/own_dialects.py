"""Dialects of one's own that need no Python, from the settings of a project; the database remembers them."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from spangrade.converters.spans.vendor import Vendor
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.store import Store
from spangrade.tracer.store.untrusted import column_types

_COLUMNS = "position INTEGER NOT NULL, definition VARCHAR NOT NULL"


def own_dialects(store: Store) -> tuple[Vendor, ...]:
    """Return the dialects that a database remembers, in the order in which they are tried."""
    if column_types(store.connection, "own_dialects") is None:
        return ()
    rows = store.query("SELECT definition FROM own_dialects ORDER BY position")
    return tuple(_vendor(orjson.loads(definition)) for (definition,) in rows)


def set_own_dialects(store: Store, vendors: Sequence[Vendor]) -> None:
    """Set the dialects that a database remembers; if they change, all is derived again."""
    if tuple(vendors) == own_dialects(store):
        return
    with store.transaction():
        store.query(f"CREATE OR REPLACE TABLE own_dialects ({_COLUMNS})")
        for position, vendor in enumerate(vendors):
            store.query(
                "INSERT INTO own_dialects VALUES ($position, $definition)",
                {"position": position, "definition": canonical(vendor._asdict())},
            )
        if store.query("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'derived'"):
            store.query("DELETE FROM derived.progress")


def _vendor(definition: dict[str, object]) -> Vendor:
    lists = {"scopes", "attributes"}
    values = {name: tuple(value) if name in lists else value for name, value in definition.items()}  # type: ignore[arg-type]
    values["kinds"] = tuple((value, kind) for value, kind in definition["kinds"])  # type: ignore[attr-defined]
    return Vendor(**values)  # type: ignore[arg-type]
