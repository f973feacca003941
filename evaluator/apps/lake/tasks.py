"""The tasks of workers in an update of a lake: pure functions of a job, for any engine.

Jobs and results are small and can be pickled; all data goes through files. A task that is killed can be run
again: the files of an attempt have names of their own, and only those that a result names are used.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import duckdb
import nanoarrow as na
import orjson

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.apps.lake.catalog import Lake, attach
from spangrade.evaluator.derive.settings import Settings
from spangrade.evaluator.derive.sync.observed import observations_of, traces_of
from spangrade.evaluator.derive.sync.recorded import Row, logs_of, spans_of
from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store.arrow import arrow_column, arrow_rows, sql_rank
from spangrade.tracer.store.object_storage import copy_to, list_literal, storage_connection
from spangrade.tracer.store.sql import statement, text_literal

_FETCH = 1_024
_TEXT, _INTEGER = na.string(), na.int64()
# A row per trace, and one per model call with the id of its response.
TRACE_TYPES = {
    "trace_id": _TEXT,
    "part": _INTEGER,
    "spans": _INTEGER,
    "logs": _INTEGER,
    "conversation_ids": _INTEGER,
    "session_id": _TEXT,
    "conversation_id": _TEXT,
    "start_ns": _INTEGER,
    "history": _TEXT,
    "request": _TEXT,
    "digests": _TEXT,
}
CALL_TYPES = {
    "trace_id": _TEXT,
    "part": _INTEGER,
    "call_key": _TEXT,
    "scope": _TEXT,
    "start_ns": _INTEGER,
    "end_ns": _INTEGER,
    "provider": _TEXT,
}


class Update(NamedTuple):
    """The common input of an update's tasks: the lake as it was, the intermediate folder, settings."""

    lake: Lake
    snapshot: int
    stage: str
    settings: Settings


class ScanJob(NamedTuple):
    """Landing files to read. With `traces`, only these, and with the lake's rows of them.

    With `sessions`, the lake's rows of the sessions from the first on and before the second; None: no limit.
    """

    update: Update
    part: int
    spans: Sequence[str]
    logs: Sequence[str]
    traces: Sequence[str] | None = None
    seqs: tuple[int, int] | None = None
    sessions: tuple[str | None, str | None] | None = None

    @property
    def of_lake(self) -> str | None:
        """The condition of the lake's rows that are looked at, None if there are none."""
        if self.seqs is not None:
            return f"seq BETWEEN {self.seqs[0]:d} AND {self.seqs[1]:d}"
        return None if self.sessions is None else between(*self.sessions)


def between(first: str | None, end: str | None) -> str:
    """Return the condition of rows of sessions from `first` on, before `end`; rows without one come first."""
    conditions = []
    if first is not None:
        conditions.append(f"session_id >= {text_literal(first)}")
    if end is not None:
        without = " OR session_id IS NULL" if first is None else ""
        conditions.append(f"(session_id < {text_literal(end)}{without})")
    return " AND ".join(conditions) or "true"


class Scanned(NamedTuple):
    """The files with a row per trace, with a row per call, and with the sessions that logs name."""

    traces: str
    calls: str
    sessions: str


class SplitJob(NamedTuple):
    """Landing files whose rows are to be cut by slice; `first` is the number of files before them."""

    update: Update
    part: int
    first: int
    spans: Sequence[str]
    logs: Sequence[str]


class Split(NamedTuple):
    """The files of each slice, by its number."""

    spans: Mapping[int, Sequence[str]]
    logs: Mapping[int, Sequence[str]]


@contextmanager
def task_connection(update: Update, *, with_lake: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection to the files of an update and, read-only as it was, to the lake."""
    with storage_connection(threads=1) as connection:
        if with_lake:
            attach(connection, update.lake, "lake", snapshot=update.snapshot)
        yield connection


def plan_file(update: Update) -> str:
    """Return the file with a row per trace: its slice, its session now and before."""
    return f"{update.stage}/plan.parquet"


def sessions_file(update: Update) -> str:
    """Return the file with the slice of each session."""
    return f"{update.stage}/sessions.parquet"


def attempt_name(part: int) -> str:
    """Return a file name that no other attempt at a task has."""
    return f"{part:06d}-{uuid.uuid4().hex}"


@contextmanager
def _readable(job: ScanJob) -> Iterator[None]:
    """Raise InputError for landing files that another program wrote, without the values that they hold."""
    try:
        yield
    except (duckdb.BinderException, duckdb.ConversionException) as error:
        files = [*job.spans, *job.logs]
        if not files:
            raise
        among = f"{files[0]}, or one of {len(files) - 1} files after it" if files[1:] else files[0]
        raise InputError(
            f"{among}: its columns are not those that `spangrade serve --landing` writes"
        ) from error


def scan(job: ScanJob) -> Scanned:
    """Read the spans and logs of files; write the findings of each trace.

    Raises InputError for a file whose columns are not those of spans or logs.
    """
    with (
        _readable(job),
        task_connection(job.update, with_lake=job.of_lake is not None) as connection,
        few_collections(),
    ):
        logs = list(logs_of(_rows(connection, "logs", LogRecord._fields, job)))
        batches = _batches(_cursor(connection, "spans", Span._fields, job))
        by_trace, logs_by_trace = observations_of(spans_of(batches), logs, job.update.settings)
        sessions = sorted(
            {str(name) for log in logs if not log.trace_id and (name := log.attributes.get(_CONVERSATION))}
        )
        traces, calls = _trace_rows(by_trace, logs_by_trace, job.part)
        name = attempt_name(job.part)
        scanned = Scanned(*(f"{job.update.stage}/{kind}/{name}.parquet" for kind in Scanned._fields))
        for table, url in zip(
            (
                arrow_rows(traces, TRACE_TYPES),
                arrow_rows(calls, CALL_TYPES),
                arrow_column("session_id", sessions),
            ),
            scanned,
            strict=True,
        ):
            connection.register("incoming", table)
            copy_to(connection, "FROM incoming", url)
            connection.unregister("incoming")
    return scanned


_CONVERSATION = "gen_ai.conversation.id"


def _trace_rows(
    by_trace: Mapping[str, Sequence[Observation]], logs_by_trace: Mapping[str, int], part: int
) -> tuple[list[Row], list[Row]]:
    traces: list[Row] = []
    calls: list[Row] = []
    for trace_id, session_id, _, position, _ in traces_of(by_trace, logs_by_trace):
        ids = len({o.session.conversation_id for o in by_trace[trace_id] if o.session.conversation_id})
        traces.append(
            (
                *(trace_id, part, len(by_trace[trace_id]), logs_by_trace[trace_id], ids),
                *(session_id, position.conversation_id),
                *(position.start_ns, position.history, position.request),
                orjson.dumps(sorted(position.digests)).decode(),
            )
        )
        calls += [(trace_id, part, *call) for call in sorted(position.calls, key=str)]
    return traces, calls


def _cursor(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], job: ScanJob
) -> duckdb.DuckDBPyConnection:
    """Start to read the rows of a scan, of the lake and of files; of spans with one id, the greatest."""
    names = ", ".join(columns)
    files = job.spans if table == "spans" else job.logs
    parts = []
    if job.of_lake is not None:
        parts.append(f"SELECT {names} FROM lake.{table} WHERE {job.of_lake}")  # noqa: S608 (our own names)
    if files:
        read = f"read_parquet({list_literal(files)}, hive_partitioning = false)"
        parts.append(f"SELECT {names} FROM {read}")  # noqa: S608 (our own names)
    if not parts:
        parts.append(f"SELECT {names} FROM lake.{table} LIMIT 0" if job.of_lake else "SELECT 1 LIMIT 0")  # noqa: S608 (our own names)
    query = " UNION ALL ".join(f"({part})" for part in parts)
    if job.traces is not None:
        connection.register("wanted", arrow_column("trace_id", job.traces))
        query = f"SELECT * FROM ({query}) SEMI JOIN wanted USING (trace_id)"  # noqa: S608 (our own names)
    if table == "spans" and (files or job.of_lake):
        doubled = f"SELECT 1 FROM ({query}) GROUP BY trace_id, span_id HAVING count(*) > 1 LIMIT 1"  # noqa: S608 (our own names)
        if connection.execute(doubled).fetchone():
            query = (
                f"SELECT * FROM ({query}) AS landed QUALIFY row_number() OVER "  # noqa: S608 (our own names)
                f"(PARTITION BY trace_id, span_id ORDER BY {sql_rank(table, 'landed')} DESC) = 1"
            )
    return connection.execute(query)


def _batches(cursor: duckdb.DuckDBPyConnection) -> Iterator[list[Row]]:
    while rows := cursor.fetchmany(_FETCH):
        yield rows


def _rows(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], job: ScanJob
) -> Iterator[Row]:
    for rows in _batches(_cursor(connection, table, columns, job)):
        yield from rows


def split(job: SplitJob) -> Split:
    """Cut the rows of files by slice; return the files that hold them."""
    found: dict[str, dict[int, list[str]]] = {"spans": {}, "logs": {}}
    with task_connection(job.update, with_lake=False) as connection:
        for table, files in (("spans", job.spans), ("logs", job.logs)):
            if not files:
                continue
            query = lake_sql(f"split_{table}").format(
                first=job.first,
                files=list_literal(files),
                plan=text_literal(plan_file(job.update)),
                sessions=text_literal(sessions_file(job.update)),
            )
            folder = f"{job.update.stage}/{table}"
            rows = connection.execute(
                f"COPY ({query}) TO {text_literal(folder)} (FORMAT parquet, COMPRESSION zstd, "
                f"PARTITION_BY (slice), FILENAME_PATTERN '{attempt_name(job.part)}-{{i}}', "
                "WRITE_PARTITION_COLUMNS true, OVERWRITE_OR_IGNORE true, RETURN_FILES true)"
            ).fetchall()
            for url in rows[0][1] or () if rows else ():
                number = int(url.rpartition("/slice=")[2].partition("/")[0])
                found[table].setdefault(number, []).append(url)
    return Split(found["spans"], found["logs"])


def lake_sql(name: str) -> str:
    """Return a statement of the lake."""
    return statement(name, "spangrade.evaluator.apps.lake.sql")
