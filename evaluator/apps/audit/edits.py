"""Changes of a session that keep its parts consistent: calls, steps, turns, totals."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from spangrade.evaluator.session import LLMCall, Session, Step, ToolInteraction, Usage


def step_of(session: Session, index: int) -> int | None:
    """Return the index of a call's step: the step with its span, else with its name and number."""
    call = session.tool_interactions[index]
    steps = session.trajectory
    if call.span_id is not None:
        for place, step in enumerate(steps):
            if (step.span_id, step.trace_id, step.name) == (call.span_id, call.trace_id, call.tool_name):
                return place
    earlier = sum(other.tool_name == call.tool_name for other in session.tool_interactions[:index])
    places = [
        place for place, step in enumerate(steps) if step.kind == "tool" and step.name == call.tool_name
    ]
    return places[earlier] if earlier < len(places) else None


def without_calls(session: Session, dropped: Collection[int]) -> Session:
    """Return a session in which calls were not made: their steps, errors and time are gone too."""
    steps = {step_of(session, index) for index in dropped}
    calls = [session.tool_interactions[index] for index in dropped]
    spans = {(call.trace_id, call.span_id) for call in calls if call.span_id is not None}
    made = replace(
        session,
        tool_interactions=numbered_calls(
            call for index, call in enumerate(session.tool_interactions) if index not in dropped
        ),
        trajectory=numbered_steps(
            step for place, step in enumerate(session.trajectory) if place not in steps
        ),
        errors=tuple(error for error in session.errors if (error.trace_id, error.span_id) not in spans),
    )
    return with_time(made, calls, -1)


def with_time(session: Session, calls: Iterable[ToolInteraction], sign: int) -> Session:
    """Return a session whose turns take the time of calls more (sign 1) or less (sign -1)."""
    by_turn: dict[int | None, float] = {}
    for call in calls:
        by_turn[call.turn] = by_turn.get(call.turn, 0.0) + (call.latency_s or 0.0)
    change = sign * math.fsum(by_turn.values())
    if not change:
        return session
    turns = tuple(
        turn
        if turn.latency_s is None
        else turn._replace(latency_s=max(turn.latency_s + sign * by_turn.get(turn.turn, 0.0), 0.0))
        for turn in session.turns
    )
    latency = session.latency
    total_s, tool_s = (
        None if value is None else max(value + change, 0.0) for value in (latency.total_s, latency.tool_s)
    )
    return replace(session, turns=turns, latency=replace(latency, total_s=total_s, tool_s=tool_s))


def with_model_calls(session: Session, calls: Sequence[LLMCall]) -> Session:
    """Return a session that made these model calls; its tokens and its cost are theirs."""
    usage = session.usage

    def total(key: str, before: int | None) -> int | None:
        return None if before is None else sum(getattr(call, key) or 0 for call in calls)

    changed = Usage(
        llm_calls=None if usage.llm_calls is None else len(calls),
        input_tokens=total("input_tokens", usage.input_tokens),
        output_tokens=total("output_tokens", usage.output_tokens),
        cached_input_tokens=total("cached_input_tokens", usage.cached_input_tokens),
        reasoning_tokens=total("reasoning_tokens", usage.reasoning_tokens),
        complete=usage.complete,
    )
    cost = None if session.cost_usd is None else math.fsum(call.cost_usd or 0.0 for call in calls)
    return replace(
        session,
        llm_calls=tuple(call._replace(position=number) for number, call in enumerate(calls, 1)),
        usage=changed,
        cost_usd=cost,
        models=tuple(dict.fromkeys(call.model for call in calls if call.model)) or None,
    )


def with_turns(session: Session, keep: Callable[[int], bool]) -> Session:
    """Return a session of some of its turns, numbered anew, with their calls, steps and errors."""
    kept = [turn for turn in session.turns if keep(turn.turn)]
    numbers = {turn.turn: number for number, turn in enumerate(kept, 1)}
    dropped = [i for i, call in enumerate(session.tool_interactions) if not keep(call.turn or 1)]
    made = without_calls(session, dropped)
    steps = merged(step for step in made.trajectory if keep(step.turn or 1))
    total = sum_of(turn.latency_s for turn in kept)
    made = replace(
        made,
        turns=tuple(turn._replace(turn=numbers[turn.turn]) for turn in kept),
        tool_interactions=tuple(
            call._replace(turn=numbers.get(call.turn or 1)) for call in made.tool_interactions
        ),
        trajectory=numbered_steps(step._replace(turn=numbers.get(step.turn or 1)) for step in steps),
        requested_calls=tuple(
            call._replace(turn=numbers.get(call.turn or 1))
            for call in made.requested_calls
            if keep(call.turn or 1)
        ),
        latency=replace(made.latency, total_s=None if made.latency.total_s is None else total),
    )
    calls = [
        call._replace(turn=numbers.get(call.turn or 1)) for call in made.llm_calls if keep(call.turn or 1)
    ]
    return with_agents(with_model_calls(made, calls))


def with_agents(session: Session) -> Session:
    """Return a session without the agents and the hand-offs that no step shows any more."""
    if session.agents is None:
        return session
    started = {step.name for step in session.trajectory if step.kind == "agent"}
    agents = tuple(name for name in session.agents if name in started) or session.agents[:1]
    handoffs = session.handoffs
    if handoffs is not None:
        handoffs = tuple(pair for pair in handoffs if pair[1] in agents)
    return replace(session, agents=agents, handoffs=handoffs)


def merged(steps: Iterable[Step]) -> list[Step]:
    """Return steps in which an agent is not named twice in a row."""
    return [
        step
        for (kind, _), same in groupby(steps, key=lambda step: (step.kind, step.name))
        for step in ([next(same)] if kind == "agent" else same)
    ]


def numbered_calls(calls: Iterable[ToolInteraction]) -> tuple[ToolInteraction, ...]:
    """Return calls with their positions in this order."""
    return tuple(call._replace(position=number) for number, call in enumerate(calls, 1))


def numbered_steps(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps with their positions in this order."""
    return tuple(step._replace(position=number) for number, step in enumerate(steps, 1))


def sum_of(values: Iterable[float | None]) -> float | None:
    """Return the sum of values; None if one is unknown."""
    known = list(values)
    return None if None in known else math.fsum(value for value in known if value is not None)
