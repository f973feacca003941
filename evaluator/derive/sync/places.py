"""The span of a session that says which stack recorded it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import nanoarrow as na
import orjson

from spangrade.evaluator.session import LLMCall, Session, Step
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

Place = tuple[str, str | None]  # the (trace id, span id) of a span


def place_of(session: Session) -> Place | None:
    """Return the span of the first model call or, without one, of the first step."""
    steps: tuple[LLMCall | Step, ...] = (*session.llm_calls, *session.trajectory)
    return next(((step.trace_id, step.span_id) for step in steps if step.span_id), None)


def spans_at(store: Store, places: Iterable[Place]) -> Mapping[Place, Span]:
    """Return spans by their places, with the columns that identify their instrumentation."""
    rows = sorted((trace_id, span_id) for trace_id, span_id in places if span_id)
    wanted = arrow_rows(rows, {"trace_id": na.string(), "span_id": na.string()})
    ((first, last),) = store.query(
        "SELECT min(first_seq), max(last_seq) FROM derived.traces SEMI JOIN wanted USING (trace_id)",
        wanted=wanted,
    )
    found = store.query(
        "SELECT trace_id, span_id, name, scope_name, attributes FROM spans "
        "SEMI JOIN wanted USING (trace_id, span_id) WHERE seq BETWEEN $first AND $last",
        {"first": first, "last": last},
        wanted=wanted,
    )
    return {
        (trace_id, span_id): Span(
            trace_id,
            span_id,
            None,
            name,
            "INTERNAL",
            0,
            0,
            attributes=orjson.loads(attributes),
            scope_name=scope,
        )
        for trace_id, span_id, name, scope, attributes in found
    }
