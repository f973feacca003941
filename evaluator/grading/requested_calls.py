"""Planned calls, which a model requests and nothing executes: counted as made where that is asked for."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the options of commands have the name alone, and `--help` imports them
    from spangrade.evaluator.session import PlannedCall, RequestedCall, Session, Step


class RequestedCalls(StrEnum):
    """How a call counts that was only requested: perhaps made, or made."""

    UNKNOWN = "unknown"
    COUNT = "count"


def with_planned_calls(session: Session) -> Session:
    """Return a session whose requested calls are calls, of an unknown result, and steps."""
    if not session.requested_calls:
        return session
    calls = [*session.tool_interactions, *map(_planned, session.requested_calls)]
    steps = [*session.trajectory, *map(_step, session.requested_calls)]
    start = attrgetter("start_ns")
    return replace(
        session,
        tool_interactions=tuple(c._replace(position=n) for n, c in enumerate(sorted(calls, key=start), 1)),
        trajectory=tuple(s._replace(position=n) for n, s in enumerate(sorted(steps, key=start), 1)),
        requested_calls=(),
    )


def _planned(call: RequestedCall) -> PlannedCall:
    from spangrade.evaluator.metrics.pairing import as_call
    from spangrade.evaluator.session import PlannedCall

    return PlannedCall(*as_call(call)._replace(span_id=call.span_id))


def _step(call: RequestedCall) -> Step:
    from spangrade.evaluator.session import Step

    return Step(0, call.turn, "tool", call.tool_name, call.start_ns, call.trace_id, call.span_id)
