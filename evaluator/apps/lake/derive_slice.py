"""The task that derives and grades one slice of sessions, as the single machine does.

The slice is loaded into an empty database with the tables of a file, in which the same functions work. What
it holds then is written as files of the lake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spangrade.evaluator.apps.lake.catalog import new_scratch
from spangrade.evaluator.apps.lake.commit import OF_TRACES
from spangrade.evaluator.apps.lake.grading import NOT_GRADED, Grading, SliceGrade, grade_slice
from spangrade.evaluator.apps.lake.tasks import (
    Update,
    attempt_name,
    lake_sql,
    plan_file,
    sessions_file,
    task_connection,
)
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.sync.observed import observations_of, traces_of
from spangrade.evaluator.derive.sync.recorded import (
    TraceRange,
    logged,
    logs_of,
    spans_of,
    stored_rows,
)
from spangrade.evaluator.derive.sync.sessions import Recorded, build_sessions, insert_sessions
from spangrade.evaluator.derive.sync.update import LinkedTraces, StoredTrace, write_traces
from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import sql_rank
from spangrade.tracer.store.object_storage import copy_to, list_literal
from spangrade.tracer.store.sql import text_literal

# The folders of a lake's files, one per table that tasks write.
LAKE_FOLDERS = ("spans", "logs", *TABLES, *OF_TRACES, "scores", "verdicts")


class DeriveJob(NamedTuple):
    """A slice: its number, the batch that its rows become, the files that were cut for it, where files go."""

    update: Update
    slice: int
    batch: int
    spans: Sequence[str]
    logs: Sequence[str]
    data: str
    grading: Grading | None


class Derived(NamedTuple):
    """The new files of the lake by table, how many sessions and new spans and logs there are, the grades.

    `outranked` is a file with the spans of the lake in whose place others landed, None if there are none.
    """

    files: Mapping[str, str]
    outranked: str | None
    sessions: int
    spans: int
    logs: int
    graded: SliceGrade


def derive(job: DeriveJob) -> Derived:
    """Derive the sessions of a slice from all their spans, grade them, and write the lake's new files."""
    with task_connection(job.update) as connection, few_collections():
        store = new_scratch(connection, "task")
        traces = _load(store, job)
        graded = NOT_GRADED
        if traces:
            _derive(store, job, traces)
            if job.grading is not None:
                graded = grade_slice(store, job.grading)
        files = _write(store, job)
        outranked = _write_outranked(store, job)
        sessions, spans, logs = (
            int(store.query(f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608 (our own names)
            for table in ("derived.sessions", "new_spans", "new_logs")
        )
    return Derived(files, outranked, sessions, spans, logs, graded)


def _load(store: Store, job: DeriveJob) -> dict[str, str]:
    """Load the spans and logs of a slice, the lake's and new ones; return the sessions by trace."""
    values: dict[str, object] = {
        "plan": text_literal(plan_file(job.update)),
        "sessions": text_literal(sessions_file(job.update)),
        "slice": job.slice,
        "first": 0,
        "last": -1,
        "first_session": "''",
        "last_session": "''",
    }
    store.query(lake_sql("planned").format(**values))
    ((first, last, first_session, last_session),) = store.query(
        "SELECT min(first_seq), max(last_seq), min(old_session_id), max(old_session_id) FROM planned"
    )
    if first is not None:
        values |= {"first": int(first), "last": int(last)}
        values |= {"first_session": text_literal(first_session), "last_session": text_literal(last_session)}
    for table, files in (("spans", job.spans), ("logs", job.logs)):
        store.query(lake_sql(f"old_{table}").format(**values))
        if files:
            store.query(
                lake_sql(f"slice_{table}").format(
                    files=list_literal(files),
                    present_rank=sql_rank(table, "present"),
                    landed_rank=sql_rank(table, "landed"),
                )
            )
        else:
            none = f"SELECT * EXCLUDE (seq, session_id) FROM old_{table} LIMIT 0"  # noqa: S608 (our own names)
            store.query(f"CREATE TEMP TABLE new_{table} AS {none}")
        if table == "spans":
            store.query(lake_sql("outranked_spans"))
            store.query("DELETE FROM old_spans WHERE (trace_id, span_id) IN (FROM outranked)")
        store.query(f"INSERT INTO {table} BY NAME SELECT * EXCLUDE session_id FROM old_{table}")  # noqa: S608 (our own names)
        store.query(
            f"INSERT INTO {table} BY NAME SELECT *, $batch AS seq FROM new_{table}",  # noqa: S608 (our own names)
            {"batch": job.batch},
        )
    return dict(store.query("SELECT trace_id, session_id FROM planned"))


def _derive(store: Store, job: DeriveJob, session_by_trace: Mapping[str, str]) -> None:
    """Derive the sessions of all traces of a slice, and where the traces belong."""
    rows = stored_rows(store, [TraceRange(trace_id, 0, job.batch) for trace_id in session_by_trace])
    by_trace, logs_by_trace = observations_of(spans_of(rows.spans), logs_of(rows.logs), job.update.settings)
    sessions = sorted(set(session_by_trace.values()))
    traces = traces_of(by_trace, logs_by_trace)
    recorded = Recorded(
        by_trace,
        session_by_trace,
        {trace.trace_id: trace.records for trace in traces},
        job.update.settings,
        logged(store, sessions, in_runs=False),
    )
    stored = {trace.trace_id: StoredTrace(TraceRange(trace.trace_id, 0, 0), 0, False) for trace in traces}
    # Who leads whom was found before; the tables of traces get it with the numbers of batches.
    linked = LinkedTraces(session_by_trace, {}, dict.fromkeys(session_by_trace))
    with store.transaction():
        insert_sessions(store, build_sessions(recorded))
        write_traces(store, traces, linked, stored)
        store.query(lake_sql("written_traces"), {"batch": job.batch})


def _write_outranked(store: Store, job: DeriveJob) -> str | None:
    """Write which spans of the lake are to be deleted, for the commit; return the file."""
    if not store.query("FROM outranked LIMIT 1"):
        return None
    url = f"{job.update.stage}/outranked-{attempt_name(job.batch)}.parquet"
    copy_to(store.connection, "FROM outranked", url)
    return url


def _write(store: Store, job: DeriveJob) -> dict[str, str]:
    """Write a slice as files of the lake; return them by table."""
    queries = {
        "spans": lake_sql("written_spans").format(batch=job.batch),
        "logs": lake_sql("written_logs").format(batch=job.batch),
        **{
            f"derived.{name}": f"SELECT * REPLACE ({job.batch}::BIGINT AS batch) FROM derived.{name}"  # noqa: S608 (our own names)
            for name in TABLES
        },
        **{f"derived.{name}": f"FROM derived.{name}" for name in OF_TRACES},
        "scores": "FROM scores",
        "verdicts": "FROM verdicts",
    }
    name = attempt_name(job.batch)
    files = {}
    for table, query in queries.items():
        ((rows,),) = store.query(f"SELECT count(*) FROM ({query})")  # noqa: S608 (our own)
        if rows:
            files[table] = f"{job.data}/{table.rpartition('.')[2]}/{name}.parquet"
            # Row groups of few spans: who reads one session reads little more.
            copy_to(store.connection, query, files[table], "ROW_GROUP_SIZE 8192")
    return files
