"""`spangrade sql`."""

from __future__ import annotations

from pathlib import Path

import duckdb

from spangrade.evaluator.cli.opening import up_to_date
from spangrade.evaluator.cli.output import print_json, print_table
from spangrade.tracer.errors import InputError


def run(query: str, db: Path, *, as_json: bool) -> None:
    """Run a query and print its rows. It can neither write nor reach a file or the network."""
    with up_to_date(db) as store:
        store.connection.execute("SET enable_external_access = false")
        store.connection.execute("SET lock_configuration = true")
        try:
            cursor = store.connection.execute(query)
            names = _distinct([column[0] for column in cursor.description or ()])
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except duckdb.Error as error:
            raise InputError(f"SQL: {str(error).splitlines()[0]}") from error
    if as_json:
        print_json(rows)
    else:
        print_table(rows, names)


def _distinct(names: list[str]) -> list[str]:
    counts: dict[str, int] = {}
    distinct = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        distinct.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    return distinct
