"""Sessions as they were before masking, and outcomes masked like them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spangrade.converters.spans.registry import observe
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.metrics import Failure, Outcome, Score
from spangrade.evaluator.session import Session
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

if TYPE_CHECKING:  # few grades redact
    from spangrade.tracer.redaction import Redaction


def unmasked_sessions(spans: Iterable[Span], dialects: Sequence[Vendor]) -> Mapping[str, Session]:
    """Return the sessions that spans of this process record, by id."""
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    by_session: dict[str, list[Span]] = {}
    for of_trace in by_trace.values():
        ids = (span.attributes.get(semconv.CONVERSATION_ID) for span in of_trace)
        if session_id := next((one for one in ids if isinstance(one, str)), None):
            by_session.setdefault(session_id, []).extend(of_trace)
    return {
        session_id: build_session(session_id, "conversation", observe(of_session, {}, dialects))
        for session_id, of_session in by_session.items()
    }


def unmasked(session: Session, seen: Session | None) -> Session:
    """Return a stored session with the content that was seen, unless more of it was stored since."""
    if seen is None or _shape(seen) != _shape(session):
        return session
    return replace(
        session,
        turns=seen.turns,
        tool_interactions=seen.tool_interactions,
        requested_calls=seen.requested_calls,
        state_variables=seen.state_variables,
        simulated_messages=seen.simulated_messages,
        errors=seen.errors,
    )


def _shape(session: Session) -> tuple[object, ...]:
    return (
        len(session.turns),
        [call.tool_name for call in session.tool_interactions],
        len(session.requested_calls),
        len(session.llm_calls),
        len(session.simulated_messages),
    )


def masked(outcome: Outcome, redact: Redaction | None) -> Outcome:
    """Return an outcome with its texts redacted, as they are stored and shown."""
    if redact is None:
        return outcome
    if isinstance(outcome, Failure):
        return outcome._replace(error=redact.value(outcome.error))
    if isinstance(outcome, Score):
        outcome = outcome._replace(details=redact.value(outcome.details))
    return outcome._replace(reason=redact.value(outcome.reason))
