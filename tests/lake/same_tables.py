"""Whether a lake has the same rows as the database file of a single machine: EXCEPT ALL, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spangrade.evaluator.apps.lake.catalog import Lake, attached
from spangrade.tracer.store.sql import text_literal

# What is numbered by arrivals or drawn anew for each run; a lake has no judge.
_OF_ITS_OWN = ("batch", "seq", "first_seq", "last_seq", "run_id", "graded_at", "judge", "judge_votes")
_TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'one' ORDER BY ALL"
_WITHOUT = {"arrivals", "last_import", "changed", "progress", "schema_version", "steps"}


def differences(
    lake: Lake, db: Path, without: Sequence[str] = _OF_ITS_OWN
) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """Return the number of rows by table, and how many rows each side has that the other one lacks.

    The columns `without` are not compared.
    """
    rows: dict[str, int] = {}
    differing: dict[str, tuple[int, int]] = {}
    with attached(lake) as store:
        store.query(f"ATTACH {text_literal(str(db))} AS one (READ_ONLY)")
        for schema, table in store.query(_TABLES):
            if table in _WITHOUT:
                continue
            columns = store.query(
                "SELECT column_name FROM duckdb_columns() "
                "WHERE database_name = 'one' AND schema_name = $schema AND table_name = $table",
                {"schema": schema, "table": table},
            )
            names = ", ".join(f'"{name}"' for (name,) in columns if name not in without)
            single = f"SELECT {names} FROM one.{schema}.{table}"
            mine = f"SELECT {names} FROM store.{schema}.{table}"
            rows[table], lacking, more = (
                int(store.query(f"SELECT count(*) FROM ({query})")[0][0])
                for query in (single, f"{single} EXCEPT ALL {mine}", f"{mine} EXCEPT ALL {single}")
            )
            if lacking or more:
                differing[table] = (lacking, more)
    return rows, differing
