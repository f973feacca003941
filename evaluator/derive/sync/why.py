"""Why the spans of a session count, or do not: each one's reading, and the change of each pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import dialect_of
from spangrade.evaluator.derive.passes import SpanChange, changes
from spangrade.evaluator.derive.settings import settings_of
from spangrade.evaluator.derive.sync.observed import observations_of
from spangrade.evaluator.derive.sync.recorded import TraceRange, logs_of, spans_of, stored_rows
from spangrade.tracer.store import Store


class SpanReading(NamedTuple):
    """A span of a session: its observation, its dialect, and the changes of the passes, in order."""

    observation: Observation
    dialect: str
    changes: tuple[SpanChange, ...]


def readings(store: Store, session_id: str) -> Iterator[SpanReading]:
    """Yield the spans of a session in the order in which they started, each as it is read and changed."""
    traces = store.query(
        "SELECT trace_id, first_seq, last_seq FROM derived.traces "
        "WHERE session_id = $session ORDER BY first_seq",
        {"session": session_id},
    )
    stored = stored_rows(store, [TraceRange(*trace) for trace in traces])
    batches, settings = list(spans_of(stored.spans)), settings_of(store)
    by_trace, _ = observations_of(batches, logs_of(stored.logs), settings)
    names = {
        (span.trace_id, span.span_id): dialect_of(span, settings.dialects).name
        for spans in batches
        for span in spans
    }
    observed = {o.span.node: o for observations in by_trace.values() for o in observations}
    changed: dict[tuple[str, str], list[SpanChange]] = {}
    for change in changes(observed.values()):
        changed.setdefault(change.observation.span.node, []).append(change)
    for node, o in sorted(observed.items(), key=lambda item: (item[1].span.start_ns, item[0])):
        yield SpanReading(o, names[node], tuple(changed.get(node, ())))
