"""Taking an existing database file along into a lake: its spans and logs, its runs and scores.

What the lake lacks of them becomes files like those that land. An update derives their sessions, and its
commit adds the runs and scores.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from spangrade.evaluator.apps.lake.catalog import Lake, State, attached, data_path, state_of, writable
from spangrade.evaluator.apps.lake.commit import add_runs, advance, commit
from spangrade.evaluator.apps.lake.job import (
    PreparedUpdate,
    Sizes,
    configure,
    new_stage,
    parts_of,
    run_update,
)
from spangrade.evaluator.apps.lake.tasks import Update, lake_sql
from spangrade.evaluator.derive.settings import Configured, Settings, settings_of
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import LOGS, SPANS, files_in, make_folder
from spangrade.tracer.store.spool import drain
from spangrade.tracer.store.sql import statement, text_literal

_AT_ONCE = 122_880  # rows of a file
_SCORES = "spangrade.evaluator.metrics"


class ImportedFile(NamedTuple):
    """What a lake did not have of a database file; `sessions` are those that were derived."""

    spans: int = 0
    logs: int = 0
    sessions: int = 0
    runs: int = 0
    scores: int = 0


def import_file(lake: Lake, db: Path, in_order: InOrder, *, sizes: Sizes = Sizes()) -> ImportedFile:  # noqa: B008 (a frozen value)
    """Import the spans, logs, runs and scores of a database file; rows that the lake has stay.

    The file's spool is loaded into it first. A lake that is new gets the settings of the file. Raises
    InputError if the file does not exist or its settings are not those of the lake, StoreError as
    `update_lake` does.
    """
    settings = _settings(db)
    with writable(lake) as store:
        state = _with_settings(lake, store, db, settings)
        data = data_path(store)
        update = Update(lake, state.snapshot, new_stage(data), settings)
        store.query(f"ATTACH {text_literal(str(db))} AS one (READ_ONLY)")
        runs, scores = _new_runs(store)
        _write_new(store, f"{update.stage}/file")
        parts = parts_of(store, files_in(store.connection, update.stage), sizes.part)
    prepared = PreparedUpdate(update, state, data, parts, sizes)

    def add(store: Store) -> None:
        store.query(f"ATTACH IF NOT EXISTS {text_literal(str(db))} AS one (READ_ONLY)")
        add_runs(store, "one")
        store.query(f"CREATE OR REPLACE TEMP TABLE incoming AS {lake_sql('unimported_scores')}")
        store.query(statement("delete_replaced", _SCORES))
        store.query(statement("insert_external", _SCORES))

    updated = run_update(lake, prepared, in_order, also=add)
    if not prepared.files and (runs or scores):
        with attached(lake, read_only=False) as store:

            def add_alone() -> None:
                add(store)
                advance(store, state, 1)

            commit(lake, store, state, add_alone)
    return ImportedFile(updated.spans, updated.logs, updated.sessions, runs, scores)


def _settings(db: Path) -> Settings:
    """Load a file's spool into it and return its settings."""
    if not db.is_file():
        raise InputError(f"{db}: no such database")
    with Store.open(db) as store:
        drain(store)
        return settings_of(store)


def _with_settings(lake: Lake, store: Store, db: Path, settings: Settings) -> State:
    """Give a new lake the settings of a file; return the lake's state."""
    if state_of(store).batch == 0:
        configured = Configured(settings.ignored_scopes, settings.prices, settings.dialects)
        configure(store, configured, settings.session_from)
    state = state_of(store)
    state.check_version(lake)
    if settings != settings_of(store):
        raise InputError(f"{db}: its sessions are derived with other settings than those of {lake}")
    return state


def _new_runs(store: Store) -> tuple[int, int]:
    """Return how many runs and scores of people and programs a file has that the lake has not."""
    ((runs,),) = store.query("SELECT count(*) FROM one.runs ANTI JOIN store.runs AS known USING (run_id)")
    ((scores,),) = store.query(f"SELECT count(*) FROM ({lake_sql('unimported_scores')})")  # noqa: S608 (our own)
    return int(runs), int(scores)


def _write_new(store: Store, folder: str) -> None:
    """Write the spans and logs that the lake has not, as landing files."""
    make_folder(folder)
    for table, ending in (("spans", SPANS), ("logs", LOGS)):
        query = lake_sql(f"unimported_{table}")
        if store.query(f"{query} LIMIT 1"):
            store.query(
                f"COPY ({query}) TO {text_literal(folder)} (FORMAT parquet, COMPRESSION zstd, "
                f"ROW_GROUP_SIZE {_AT_ONCE}, ROW_GROUPS_PER_FILE 1, OVERWRITE_OR_IGNORE true, "
                f"FILENAME_PATTERN 'file-{{i}}{ending.removesuffix('.parquet')}')"
            )
