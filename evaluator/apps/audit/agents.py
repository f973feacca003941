"""Mutants of hand-offs: skipped, or to another agent."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from spangrade.evaluator.apps.audit.edits import (
    merged,
    numbered_steps,
    step_of,
    with_agents,
    with_model_calls,
    without_calls,
)
from spangrade.evaluator.apps.audit.mutant import Mutant
from spangrade.evaluator.derive.handoffs import handoff_target, normalized_name
from spangrade.evaluator.session import Session, ToolInteraction
from spangrade.tracer.base.canonical_json import dumps

_OTHER_AGENT = "another_agent"


def skip_handoff(session: Session, random: Random) -> Mutant | None:
    """Leave a hand-off out, with all that the agent did."""
    agent = _called(session, random)
    if agent is None:
        return None
    dropped = {
        index
        for index, call in enumerate(session.tool_interactions)
        if call.agent == agent or call.tool_name == agent or _leads_to(call, agent)
    }
    made = without_calls(session, dropped)
    steps = merged(step for step in made.trajectory if (step.kind, step.name) != ("agent", agent))
    made = replace(made, trajectory=numbered_steps(steps))
    made = with_model_calls(made, [call for call in made.llm_calls if call.agent != agent])
    return Mutant(with_agents(made), agent, f"{agent} was not called")


def other_agent(session: Session, random: Random) -> Mutant | None:
    """Hand over to another agent, which does the same."""
    agent = _called(session, random)
    if agent is None:
        return None

    def named(name: str | None) -> str | None:
        return _OTHER_AGENT if name == agent else name

    calls = []
    renamed = set()
    for index, call in enumerate(session.tool_interactions):
        if call.tool_name == agent or _leads_to(call, agent):
            renamed.add(step_of(session, index))
            call = call._replace(
                tool_name=call.tool_name.replace(normalized_name(agent), _OTHER_AGENT)
                if call.handoff
                else _OTHER_AGENT,
                input_arguments=_renamed(call.input_arguments, agent),
            )
        calls.append(call._replace(agent=named(call.agent)))
    steps = []
    for place, step in enumerate(session.trajectory):
        name = named(step.name) if step.kind == "agent" else step.name
        if place in renamed:
            name = step.name.replace(agent, _OTHER_AGENT).replace(normalized_name(agent), _OTHER_AGENT)
        steps.append(step._replace(name=name or step.name))
    handoffs = session.handoffs
    made = replace(
        session,
        trajectory=tuple(steps),
        tool_interactions=tuple(calls),
        agents=tuple(named(name) or name for name in session.agents or ()),
        handoffs=None
        if handoffs is None
        else tuple((named(source), named(target) or target) for source, target in handoffs),
        llm_calls=tuple(call._replace(agent=named(call.agent)) for call in session.llm_calls),
    )
    return Mutant(made, agent, f"{_OTHER_AGENT} was called instead of {agent}")


def _called(session: Session, random: Random) -> str | None:
    """Return an agent that another agent called or handed over to."""
    steps = {step.name for step in session.trajectory if step.kind == "agent"}
    started = [name for name in (session.agents or ())[1:] if name in steps]
    return random.choice(started) if started else None


def _leads_to(call: ToolInteraction, agent: str) -> bool:
    if not call.handoff:
        return False
    arguments = dumps(call.input_arguments) if call.arguments_known else None
    target = handoff_target(call.tool_name, arguments)
    return target is not None and normalized_name(target) == normalized_name(agent)


def _renamed(value: Any, agent: str) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(item, agent) for key, item in value.items()}
    return (
        _OTHER_AGENT if isinstance(value, str) and normalized_name(value) == normalized_name(agent) else value
    )
