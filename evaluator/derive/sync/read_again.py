"""The sessions that must wait until all their traces are known, and all that they come from then."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from spangrade.evaluator.derive.evaluations import session_evaluations
from spangrade.evaluator.derive.settings import settings_of
from spangrade.evaluator.derive.sync.batches import batches
from spangrade.evaluator.derive.sync.kept import Kept, Packed
from spangrade.evaluator.derive.sync.portion import Complete, observed
from spangrade.evaluator.derive.sync.recorded import TraceRange, logged_state, logs_of, spans_of, stored_rows
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.sql import statement

READ_AGAIN = 32_768  # spans at once: each time it may be necessary to search all spans


def noted_groups(store: Store) -> Iterator[list[str]]:
    """Yield the sessions to be read again in groups of at most `READ_AGAIN` records, or of one."""
    noted = store.query(statement("noted", "spangrade.evaluator.derive.sync.sql"))
    for rows in batches(noted, lambda row: int(row[1]), READ_AGAIN):
        yield [session_id for session_id, _ in rows]


def complete_sessions(
    store: Store, groups: Iterable[Sequence[str]], kept: Kept, until_s: float
) -> Iterator[Complete]:
    """Yield all that is known of groups of sessions, at least of one, until a time."""
    settings = settings_of(store)
    for session_ids in groups:
        rows = store.query(
            "SELECT trace_id, first_seq, last_seq, records, session_id FROM derived.traces "
            "SEMI JOIN wanted USING (session_id) ORDER BY first_seq",
            wanted=arrow_column("session_id", session_ids),
        )
        by_trace: dict[str, Packed] = {}
        to_read = []
        for *place, records, _ in rows:
            trace = TraceRange(*place)
            by_trace[trace.trace_id] = kept.take(trace, records, settings) or []
            if not by_trace[trace.trace_id]:
                to_read.append(trace)
        state = logged_state(store, session_ids)
        stored = stored_rows(store, to_read)
        by_trace |= observed(spans_of(stored.spans), logs_of(stored.logs), settings)[0]
        session_by_trace = {trace_id: session_id for trace_id, *_, session_id in rows}
        scores = session_evaluations(store, session_ids)
        yield Complete(by_trace, session_by_trace, state, settings, scores)
        if time.monotonic() >= until_s:
            return
