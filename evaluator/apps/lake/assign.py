"""Which sessions the traces of an update belong to, and how the work is cut into slices.

Nearly all traces name one conversation: SQL assigns them. The remaining traces are linked by the functions
for a database file, in a database of the job's own with the lake's rows on such traces. Its tables are in a
file, so that memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from spangrade.evaluator.apps.lake.tasks import ScanJob, Scanned, Update, lake_sql, plan_file, sessions_file
from spangrade.evaluator.derive.sync.link_traces import KeyedCall, Position
from spangrade.evaluator.derive.sync.observed import Trace
from spangrade.evaluator.derive.sync.parts import in_batches
from spangrade.evaluator.derive.sync.recorded import TraceRange
from spangrade.evaluator.derive.sync.update import StoredTrace, linked_traces, write_traces
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.object_storage import copy_to, list_literal

_LINKED_AT_ONCE = 4_096  # traces
_LANDED = "calls"
_LAKES = "store.derived.keyed_calls"


class Parts(NamedTuple):
    """The landing files of an update by the part that a task looks at."""

    spans: Sequence[Sequence[str]]
    logs: Sequence[Sequence[str]]


def read_scanned(scratch: Store, scanned: Iterable[Scanned]) -> None:
    """Read the findings of each trace, and the lake's rows of these traces."""
    found = list(scanned)
    for table, urls in (
        ("scanned", [one.traces for one in found]),
        ("calls", [one.calls for one in found]),
        ("named_in_logs", [one.sessions for one in found]),
    ):
        scratch.query(f"CREATE OR REPLACE TABLE {table} AS FROM read_parquet({list_literal(urls)})")
    scratch.query("CREATE TABLE known AS FROM store.derived.traces SEMI JOIN scanned USING (trace_id)")


def gather_jobs(scratch: Store, update: Update, parts: Parts, most: int) -> Iterator[ScanJob]:
    """Yield the jobs that look at whole traces, those that no part of a scan can place.

    Each looks at about `most` records of theirs.
    """
    rows = scratch.query(lake_sql("to_gather"), {"by_attributes": bool(update.settings.session_from)})
    groups = in_batches(rows, lambda row: int(row[2]), most)
    for number, group in enumerate(groups, len(parts.spans)):
        yield _gather_job(update, parts, number, group)


def _gather_job(update: Update, parts: Parts, number: int, rows: Sequence[tuple[Any, ...]]) -> ScanJob:
    used = sorted({part for row in rows for part in row[1]})
    seqs = [row[3:5] for row in rows if row[3] is not None]
    return ScanJob(
        update,
        number,
        [url for part in used for url in parts.spans[part]],
        [url for part in used for url in parts.logs[part]],
        [row[0] for row in rows],
        (min(first for first, _ in seqs), max(last for _, last in seqs)) if seqs else None,
    )


def read_gathered(scratch: Store, jobs: Sequence[ScanJob], gathered: Sequence[Scanned]) -> None:
    """Replace the findings of parts of traces by those of the whole traces."""
    for job, found in zip(jobs, gathered, strict=True):
        for table, url in (("scanned", found.traces), ("calls", found.calls)):
            scratch.query(
                f"DELETE FROM {table} WHERE trace_id IN (FROM gathered)",  # noqa: S608 (our own names)
                gathered=arrow_column("trace_id", job.traces or ()),
            )
            scratch.query(f"INSERT INTO {table} FROM read_parquet({list_literal([url])})")


def assign(scratch: Store) -> None:
    """Find the session of each trace, and all sessions that must be derived."""
    scratch.query(lake_sql("placed"))
    _find_hard(scratch)
    _load_before(scratch)
    scratch.query(lake_sql("to_link"), {"at_once": _LINKED_AT_ONCE})
    ((last,),) = scratch.query("SELECT max(number) FROM to_link")
    for number in range(0 if last is None else int(last) + 1):
        _link(scratch, number)
    for name in ("changed", "affected_sessions", "whole"):
        scratch.query(lake_sql(name))


def _find_hard(scratch: Store) -> None:
    """Create the table `hard`: traces whose sessions depend on others, and those that are known already."""
    scratch.query(
        "CREATE TABLE hard AS SELECT trace_id FROM placed WHERE request IS NOT NULL "
        "UNION SELECT trace_id FROM known"
    )
    scratch.query("CREATE TABLE repeating (trace_id VARCHAR)")
    for other in (_LANDED, _LAKES):
        scratch.query(f"INSERT INTO repeating {_repeating('one', _LANDED, other)}")
    scratch.query("INSERT INTO hard SELECT trace_id FROM repeating ANTI JOIN hard USING (trace_id)")
    # The traces of the lake that have a call of these too, of those, and so on.
    scratch.query("CREATE TABLE reached (trace_id VARCHAR)")
    new = scratch.query(f"INSERT INTO reached {_repeating('other', _LANDED, _LAKES)}")
    while new[0][0]:
        among = "(FROM store.derived.keyed_calls SEMI JOIN reached USING (trace_id))"
        new = scratch.query(
            f"INSERT INTO reached SELECT trace_id FROM ({_repeating('other', among, _LAKES)}) "  # noqa: S608 (our own)
            "ANTI JOIN reached USING (trace_id)"
        )


def _repeating(kind: str, one: str, other: str) -> str:
    return lake_sql("repeating").format(kind=kind, one=one, other=other)


def _load_before(scratch: Store) -> None:
    """Copy what the lake knows of the traces that new ones may be linked with."""
    scratch.query(
        "CREATE TABLE before AS FROM store.derived.traces WHERE request IS NOT NULL OR leader IS NOT NULL "
        "OR trace_id IN (SELECT trace_id FROM known) OR trace_id IN (SELECT trace_id FROM reached)"
    )
    scratch.query("INSERT INTO derived.traces BY NAME FROM before")
    for table in ("digests", "keyed_calls"):
        scratch.query(
            f"INSERT INTO derived.{table} BY NAME "
            f"FROM store.derived.{table} SEMI JOIN before USING (trace_id)"
        )


def _link(scratch: Store, number: int) -> None:
    """Link some traces with each other and with those before."""
    calls: dict[str, set[KeyedCall]] = {}
    for trace_id, *call in scratch.query(
        "SELECT trace_id, call_key, scope, start_ns, end_ns, provider FROM calls "
        "WHERE trace_id IN (SELECT trace_id FROM to_link WHERE number = $number)",
        {"number": number},
    ):
        calls.setdefault(trace_id, set()).add(KeyedCall(*call))
    traces, stored = [], {}
    for trace_id, session_id, records, *first_call, is_known in scratch.query(
        "SELECT * EXCLUDE number FROM to_link WHERE number = $number ORDER BY start_ns, trace_id",
        {"number": number},
    ):
        start_ns, history, request, digests, conversation_id = first_call
        known_calls = frozenset(calls.get(trace_id, ()))
        position = Position(
            start_ns, history, request, frozenset(orjson.loads(digests)), conversation_id, known_calls
        )
        traces.append(Trace(trace_id, session_id, records, position, ()))
        stored[trace_id] = StoredTrace(TraceRange(trace_id, 0, 0), records, is_known)
    linked, _ = linked_traces(scratch, traces)
    with scratch.transaction():
        write_traces(scratch, traces, linked, stored)


def plan(scratch: Store, update: Update, most: int) -> int:
    """Write which slice, of about `most` records, traces and sessions belong to; return their number."""
    scratch.query(lake_sql("slices"), {"most": most})
    copy_to(
        scratch.connection,
        "SELECT whole.*, slice FROM whole JOIN slices USING (session_id) ORDER BY slice, trace_id",
        plan_file(update),
    )
    copy_to(scratch.connection, "FROM slices ORDER BY slice, session_id", sessions_file(update))
    ((slices,),) = scratch.query("SELECT coalesce(max(slice) + 1, 0) FROM slices")
    return int(slices)
