"""What a grade makes of what a session leaves open: requested calls, and the name of the root agent.

A model requests planned calls, and nothing executes them: they count as made where that is asked for.
Google's converters of golden datasets write the app's name, of Google ADK or the service, where the session
has the agent's. The options of commands have the names of the choices alone, and `--help` imports them.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spangrade.converters.datasets.golden import GoldenQuestion
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


class RootAgentName(StrEnum):
    """What else names the root agent: its ADK app, the app or else the service, or nothing."""

    APP = "app"
    SERVICE = "service"
    NONE = "none"


def other_name(session: Session, rule: RootAgentName) -> str | None:
    """Return the name that means the root agent of a session, None if there is none.

    It is not the name of an agent in the session: that would mean this agent.
    """
    name = None if rule is RootAgentName.NONE else session.app_name
    if rule is RootAgentName.SERVICE:
        name = name or session.service_name
    return name if session.agents and name not in session.agents else None


def with_other_name(session: Session, rule: RootAgentName) -> Session:
    """Return a session whose `app_name` is the name that means its root agent, None if there is none."""
    name = other_name(session, rule)
    return session if session.app_name == name else replace(session, app_name=name)


def root_agent(session: Session) -> str | None:
    """Return the agent that started first, None if the agents are not recorded."""
    return session.agents[0] if session.agents else None


def renamed(session: Session, question: GoldenQuestion) -> GoldenQuestion:
    """Return a question in which the root agent has its own name where it has the other one.

    `session` is one of `with_other_name`.
    """
    name, agent = session.app_name, root_agent(session)
    if name is None or agent is None:
        return question

    def own(step: Any) -> Any:
        if isinstance(step, str):
            return agent if step == name else step
        return tuple(map(own, step))

    agents = own(question.agents_evaluated)
    is_judged = question.reference("agents_evaluated") is not None
    changes: dict[str, Any] = {}
    if is_judged and agents != question.agents_evaluated:
        changes["agents_evaluated"] = agents
    steps = question.reference_data.reference_trajectory
    if steps is not None and own(steps) != steps:
        reference = question.reference_data.model_copy(update={"reference_trajectory": own(steps)})
        changes["reference_data"] = reference
    return question.model_copy(update=changes) if changes else question
