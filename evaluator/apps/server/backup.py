"""Copies of a server's data: consistent while everything runs, and known to open."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from spangrade.converters.datasets.files import replacing
from spangrade.tracer.base.errors import InputError, StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain, waiting

DATABASE, KEYS = "spangrade.duckdb", "keys.json"
_WAIT_S = 60.0
# In a process of its own: this one would lose its lock on the file with the first copy of it that it closes.
_COPY = "import shutil, sys; shutil.copyfile(sys.argv[1], sys.argv[2])"


def backup(data: Path, target: Path) -> Mapping[str, int]:
    """Copy the database and the keys of a server into a new folder; return the rows of each table.

    The database is as it is at one moment: nobody else has it open meanwhile, and a receiver goes on
    acknowledging into its spool. The copy is opened, and has the same rows. Raises InputError if the folder
    is there, StoreError if the copy cannot be made.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: there already, and not empty: name a new folder")
    if not (data / DATABASE).exists():
        raise InputError(f"{data}: no {DATABASE} in it: name the folder of a server with --data")
    with replacing(target) as new:
        with Store.open(data / DATABASE, wait_s=_WAIT_S) as store:
            drain(store)
            store.query("CHECKPOINT")
            rows = rows_of_tables(store)
            copy = [sys.executable, "-c", _COPY, str(store.path), str(new / DATABASE)]
            done = subprocess.run(copy, capture_output=True, text=True, check=False)  # noqa: S603 (our own)
            if done.returncode:
                raise StoreError(f"{target}: {done.stderr.strip().splitlines()[-1]}")
        _copy_keys(data, new)
        _verify(new / DATABASE, rows)
    return rows


def restore(source: Path, data: Path) -> Mapping[str, int]:
    """Copy a backup into the folder of a server that has no database; return the rows of each table.

    Raises InputError if the source is not a backup, or if the folder has a database or a spool; StoreError,
    with nothing left in the folder, if the copy cannot be made.
    """
    if not (source / DATABASE).is_file():
        raise InputError(f"{source}: no {DATABASE} in it: expected a folder that `serve backup` wrote")
    if (data / DATABASE).exists() or waiting(data / DATABASE):
        raise InputError(f"{data}: there is a database already: name an empty folder with --data")
    with Store.open(source / DATABASE, read_only=True, wait_s=_WAIT_S) as store:
        rows = rows_of_tables(store)
    data.mkdir(parents=True, exist_ok=True)
    new = data / f"{DATABASE}.new"
    try:
        shutil.copyfile(source / DATABASE, new)
        _verify(new, rows)
        _copy_keys(source, data)
        new.replace(data / DATABASE)
    except BaseException as error:
        new.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StoreError(f"{data / DATABASE}: cannot be written: {error.strerror}") from error
        raise
    return rows


def rows_of_tables(store: Store) -> Mapping[str, int]:
    """Return the number of rows of each table, by `schema.name`."""
    tables = store.query(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary "
        "AND database_name = current_database() ORDER BY ALL"
    )
    quoted = {
        f"{schema}.{name}": f'"{schema}"."{name.replace(chr(34), chr(34) * 2)}"' for schema, name in tables
    }
    return {name: store.query(f"SELECT count(*) FROM {table}")[0][0] for name, table in quoted.items()}  # noqa: S608 (quoted)


def _copy_keys(source: Path, target: Path) -> None:
    if (source / KEYS).exists() and not (target / KEYS).exists():
        shutil.copy2(source / KEYS, target / KEYS)


def _verify(copy: Path, rows: Mapping[str, int]) -> None:
    with Store.open(copy, read_only=True) as store:
        if (found := rows_of_tables(store)) != rows:
            differing = [name for name in rows.keys() | found.keys() if rows.get(name) != found.get(name)]
            raise StoreError(f"{copy}: it has other rows than the original in {', '.join(sorted(differing))}")
