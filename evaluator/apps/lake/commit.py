"""The one commit with which a lake changes, and its writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import duckdb

from spangrade.evaluator.apps.lake.catalog import NAME, Lake, State, state_of
from spangrade.evaluator.apps.lake.tasks import Update, lake_sql, plan_file, sessions_file
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.maintenance.delete import RUN_TABLES
from spangrade.evaluator.results.views import place_verdicts
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.sql import text_literal

OF_TRACES = ("traces", "digests", "keyed_calls", "not_understood")
_CHANGED = "the lake was changed while this update worked: nothing of it is kept; run it again"
_ATTEMPTS = 3


def commit(lake: Lake, store: Store, state: State, change: Callable[[], None]) -> None:
    """Change a lake in one transaction, if it is as it was: no other update, deletion or derivation.

    A compaction may come in between, which changes no row: `change` is called again then. Raises StoreError
    if the lake was changed.
    """
    for _ in range(_ATTEMPTS):
        try:
            with store.transaction():
                if state_of(store)[1:] != state[1:]:
                    break
                change()
        except duckdb.TransactionException as error:
            if "conflict" not in str(error):
                raise
        else:
            return
    raise StoreError(f"{lake}: {_CHANGED}")


def replace_sessions(store: Store, update: Update) -> None:
    """Remove the rows that an update derived again, and the spans and logs of traces that moved."""
    remove_moved(store, update)
    sessions = text_literal(sessions_file(update))
    store.query(lake_sql("replaced").format(sessions=sessions))
    if store.query("FROM replaced LIMIT 1"):
        for name in (*TABLES, *OF_TRACES):
            store.query(f"DELETE FROM derived.{name} WHERE session_id IN (FROM replaced)")  # noqa: S608 (our own names)
        store.query(
            "DELETE FROM scores WHERE run_id IS NULL AND source = 'trace' AND session_id IN (FROM replaced)"
        )


def remove_moved(store: Store, update: Update) -> None:
    """Remove the spans and logs of traces that belong to another session now: new files have them."""
    store.query(lake_sql("moved").format(plan=text_literal(plan_file(update))))
    if store.query("FROM moved LIMIT 1"):
        for table in ("spans", "logs"):
            store.query(f"DELETE FROM {table} WHERE trace_id IN (FROM moved)")  # noqa: S608 (our own names)


def remove_outranked(store: Store, files: Iterable[str | None]) -> None:
    """Remove the spans in whose place others landed: `files` name them."""
    for url in filter(None, files):
        store.query(
            f"DELETE FROM spans WHERE (trace_id, span_id) IN (FROM read_parquet({text_literal(url)}))"  # noqa: S608 (our own text)
        )


def check_one_row(lake: Lake, store: Store, update: Update) -> None:
    """Raise StoreError, within the commit, if a session that an update derived has more than one row."""
    sessions = text_literal(sessions_file(update))
    if doubled := store.query(lake_sql("doubled").format(sessions=sessions)):
        raise StoreError(
            f"{lake}: session {doubled[0][0]}: derived a second time, which is a defect of spangrade: "
            "nothing of this update is kept"
        )


def add_files(store: Store, files: Mapping[str, str]) -> None:
    """Make files part of a lake; they are given by table."""
    for table, url in files.items():
        schema, _, name = table.rpartition(".")
        file = f"{text_literal(url)}, schema => '{schema or 'main'}'"
        store.query(f"CALL ducklake_add_data_files('{NAME}', '{name}', {file})")


def add_runs(store: Store, other: str) -> None:
    """Add the runs of another database, and its golden questions that the lake does not have."""
    store.query(
        "CREATE OR REPLACE TEMP TABLE new_runs AS "  # noqa: S608 (our own names)
        f"SELECT run_id FROM {other}.runs ANTI JOIN runs AS known USING (run_id)"
    )
    for table in RUN_TABLES:
        store.query(f"INSERT INTO {table} BY NAME FROM {other}.{table} SEMI JOIN new_runs USING (run_id)")
    store.query(
        f"INSERT INTO golden_questions BY NAME FROM {other}.golden_questions "
        "ANTI JOIN golden_questions AS known USING (digest)"
    )
    place_verdicts(store, [str(run_id) for (run_id,) in store.query("FROM new_runs")])


def advance(store: Store, state: State, slices: int, landed: Sequence[str] = ()) -> None:
    """Remember landing files and the last batch; of two changes at once, this statement of one fails."""
    batch = {"batch": state.batch + 1}
    store.query(
        "INSERT INTO landed SELECT file, $batch FROM files", batch, files=arrow_column("file", landed)
    )
    store.query("INSERT INTO arrivals VALUES ($batch, $now)", {**batch, "now": time.time_ns()})
    store.query("UPDATE derived.progress SET seq = $batch", {"batch": state.batch + slices})
