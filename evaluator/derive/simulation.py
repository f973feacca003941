"""A simulated user's messages and decisions in a session, from its own spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.timing import seconds
from spangrade.evaluator.session import SimulatedMessage

_MAX_COUNT = 2**63  # the databases' integers end there


def simulated_messages(observations: Iterable[Observation]) -> tuple[SimulatedMessage, ...]:
    """Return the messages of a simulated user, in their order, each once."""
    found = {o.span.span_id: _message(o) for o in observations if o.notes.simulated_message is not None}
    return tuple(sorted(found.values(), key=lambda one: (one.turn, one.start_ns, one.span_id)))


def _message(observation: Observation) -> SimulatedMessage:
    try:
        given = orjson.loads(observation.notes.simulated_message or "")
    except orjson.JSONDecodeError:
        given = None
    if not isinstance(given, dict):
        given = {"error": "what is recorded of it cannot be read"}
    cost = given.get("cost_usd")
    return SimulatedMessage(
        turn=_count(given.get("turn")) or 0,
        text=_text(given.get("text")),
        source=_text(given.get("source")) or "model",
        plan_part=_count(given.get("plan_part")),
        ended=_text(given.get("ended")),
        why=_text(given.get("why")),
        error=_text(given.get("error")),
        model=_text(given.get("model")),
        input_tokens=_count(given.get("input_tokens")),
        output_tokens=_count(given.get("output_tokens")),
        cost_usd=float(cost) if isinstance(cost, int | float) and cost >= 0 else None,
        latency_s=seconds(observation.span.start_ns, observation.span.end_ns),
        start_ns=observation.span.start_ns,
        trace_id=observation.span.trace_id,
        span_id=observation.span.span_id,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT
    return value if is_count else None
