"""Names that mean a session's root agent: of the app of Google ADK, or of the service.

Google's converters of golden datasets write the app's name where the session has the agent's.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spangrade.converters.datasets.golden import GoldenQuestion
    from spangrade.evaluator.session import Session


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
