"""The lake for the command line and for Python: open it, update it, ask what state it is in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import duckdb

from spangrade.evaluator.apps.lake.catalog import Lake, attached, data_path, lake_at, lake_tables, state_of
from spangrade.evaluator.apps.lake.compact import Compacted
from spangrade.evaluator.apps.lake.compact import compact as compact_lake
from spangrade.evaluator.apps.lake.delete import DeletedFromLake, delete_from_lake
from spangrade.evaluator.apps.lake.derive_again import derive_again
from spangrade.evaluator.apps.lake.engine import Engine
from spangrade.evaluator.apps.lake.executors import executor
from spangrade.evaluator.apps.lake.grading import grading_by
from spangrade.evaluator.apps.lake.import_file import ImportedFile
from spangrade.evaluator.apps.lake.import_file import import_file as import_file_into
from spangrade.evaluator.apps.lake.job import Updated, update_lake
from spangrade.evaluator.derive.settings import Configured
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.maintenance.delete import time_to_delete
from spangrade.evaluator.settings import filled, load_settings
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import QUERY_ERRORS, first_line, storage_url
from spangrade.tracer.store.sql import error_line

__all__ = [
    "Compacted",
    "DeletedFromLake",
    "Engine",
    "ImportedFile",
    "Status",
    "Updated",
    "compact",
    "delete",
    "derive",
    "import_file",
    "status",
    "update",
]


def update(
    catalog: str,
    landing: str,
    data: str | None = None,
    *,
    spec: GradeSpec = GradeSpec(),
    engine: Engine = Engine.LOCAL,
    workers: int = 1,
    ray_address: str | None = None,
    session_from: Sequence[str] | None = None,
) -> Updated:
    """Update the lake of a catalog from landing files; create it, with its files in `data`, if need be.

    With a dataset the sessions are graded as `spec` asks, the settings of the project filled in. Raises
    InputError for options that cannot be used, StoreError if the lake cannot be written. The tasks run in so
    many `workers` of the `engine`; Ray is at `ray_address`, or is started here.
    """
    settings = load_settings().settings
    if spec.dataset is None and spec != GradeSpec():
        raise FieldError("dataset", "grade by what? Expected golden questions")
    lake = _lake(catalog, data)
    grading = None if spec.dataset is None else grading_by(filled(spec, settings))
    configured = Configured.of(settings)
    with _workers(lake, engine, workers, ray_address) as in_order:
        return update_lake(
            lake,
            storage_url("landing", landing),
            in_order,
            grading=grading,
            configured=configured,
            session_from=session_from,
        )


def import_file(
    catalog: str,
    db: Path,
    data: str | None = None,
    *,
    engine: Engine = Engine.LOCAL,
    workers: int = 1,
    ray_address: str | None = None,
) -> ImportedFile:
    """Import a database file into the lake of a catalog; create the lake as `update` does.

    See `lake.import_file`.
    """
    lake = _lake(catalog, data)
    with _workers(lake, engine, workers, ray_address) as in_order:
        return import_file_into(lake, db, in_order)


def derive(
    catalog: str,
    *,
    session_from: Sequence[str] | None = None,
    engine: Engine = Engine.LOCAL,
    workers: int = 1,
    ray_address: str | None = None,
) -> Updated:
    """Derive all sessions of a lake again, with the settings of the project; see `lake.derive_again`."""
    lake = _lake(catalog, None)
    configured = Configured.of(load_settings().settings)
    with _workers(lake, engine, workers, ray_address) as in_order:
        return derive_again(lake, in_order, configured=configured, session_from=session_from)


def compact(
    catalog: str,
    *,
    keep_days: int = 7,
    engine: Engine = Engine.LOCAL,
    workers: int = 1,
    ray_address: str | None = None,
) -> Compacted:
    """Merge the files of a lake and remove those that nobody reads; see `lake.compact`."""
    lake = _lake(catalog, None)
    with _workers(lake, engine, workers, ray_address) as in_order:
        return compact_lake(lake, in_order, keep_s=keep_days * 86_400)


def delete(
    catalog: str,
    landing: str | None = None,
    *,
    sessions: Sequence[str] = (),
    before: str | None = None,
    by_arrival: bool = False,
    user: str | None = None,
    dry_run: bool = False,
    engine: Engine = Engine.LOCAL,
    workers: int = 1,
    ray_address: str | None = None,
) -> DeletedFromLake:
    """Delete sessions from the lake of a catalog; see `lake.delete` and `Database.delete`."""
    before_ns = time_to_delete(sessions, before, user)
    lake = _lake(catalog, None)
    with _workers(lake, engine, workers, ray_address) as in_order:
        return delete_from_lake(
            lake,
            in_order,
            None if landing is None else storage_url("landing", landing),
            sessions=sessions,
            before_ns=before_ns,
            by_arrival=by_arrival,
            user=user,
            dry_run=dry_run,
        )


@contextmanager
def _workers(lake: Lake, engine: Engine, workers: int, ray_address: str | None) -> Iterator[InOrder]:
    """Give what runs tasks. Raises StoreError if one fails, as of a file that changed while it was read."""
    try:
        with executor(engine, workers, ray_address) as in_order:
            yield in_order
    except QUERY_ERRORS as error:
        message = error_line(error) if isinstance(error, duckdb.Error) else first_line(error)
        raise StoreError(f"{lake}: {message}") from error


def _lake(catalog: str, data: str | None) -> Lake:
    """Return a lake; raise StoreError if it does not exist and nothing says where to create it."""
    lake = lake_at(catalog, None if data is None else storage_url("data", data))
    if data is None:
        with attached(lake) as store:
            _check_exists(lake, store)
    return lake


def _check_exists(lake: Lake, store: Store) -> None:
    if not lake_tables(store):
        raise StoreError(f"{lake}: no lake yet: `spangrade lake update` creates it where --data says")


class Status(NamedTuple):
    """How large a lake is: sessions, spans and logs, the landing files read, its files and their bytes."""

    data: str
    sessions: int
    spans: int
    logs: int
    landed: int
    files: int
    bytes: int
    snapshots: int
    batch: int


def status(catalog: str) -> Status:
    """Return how large a lake is."""
    lake = lake_at(catalog)
    with attached(lake) as store:
        _check_exists(lake, store)
        sessions, spans, logs, landed = (
            int(store.query(f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608 (our own names)
            for table in ("derived.sessions", "spans", "logs", "landed")
        )
        ((files, size),) = store.query(
            "SELECT coalesce(sum(file_count), 0)::BIGINT, coalesce(sum(file_size_bytes), 0)::BIGINT "
            "FROM ducklake_table_info('store')"
        )
        ((snapshots,),) = store.query("SELECT count(*) FROM ducklake_snapshots('store')")
        return Status(
            data_path(store),
            sessions,
            spans,
            logs,
            landed,
            int(files),
            int(size),
            int(snapshots),
            state_of(store).batch,
        )
