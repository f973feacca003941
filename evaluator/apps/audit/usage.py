"""Mutants of a session's usage: twice the cost, three times the time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from spangrade.evaluator.apps.audit.edits import with_model_calls
from spangrade.evaluator.apps.audit.mutant import Mutant
from spangrade.evaluator.session import Latency, LLMCall, Session

COST, LATENCY = "cost", "latency"
_COST_FACTOR, _LATENCY_FACTOR = 2, 3


def double_cost(session: Session, random: Random) -> Mutant | None:  # noqa: ARG001 (there is one way)
    """Double the tokens and the cost of each model call."""
    if not session.cost_usd:
        return None
    made = with_model_calls(session, [_doubled(call) for call in session.llm_calls])
    made = replace(made, cost_usd=session.cost_usd * _COST_FACTOR)
    return Mutant(made, COST, f"{made.cost_usd:.6g} USD instead of {session.cost_usd:.6g}")


def triple_latency(session: Session, random: Random) -> Mutant | None:  # noqa: ARG001 (there is one way)
    """Let each turn, call and tool take three times as long."""
    before = session.latency
    if not before.total_s:
        return None
    after = Latency(
        _longer(before.total_s),
        _longer(before.llm_s),
        _longer(before.tool_s),
        _longer(before.framework_s),
        _longer(before.first_response_s),
    )
    made = replace(
        session,
        latency=after,
        turns=tuple(turn._replace(latency_s=_longer(turn.latency_s)) for turn in session.turns),
        llm_calls=tuple(call._replace(latency_s=_longer(call.latency_s)) for call in session.llm_calls),
        tool_interactions=tuple(
            call._replace(latency_s=_longer(call.latency_s)) for call in session.tool_interactions
        ),
    )
    return Mutant(made, LATENCY, f"{after.total_s:.6g} s instead of {before.total_s:.6g}")


def _doubled(call: LLMCall) -> LLMCall:
    def twice(count: int | None) -> int | None:
        return None if count is None else count * _COST_FACTOR

    return call._replace(
        input_tokens=twice(call.input_tokens),
        output_tokens=twice(call.output_tokens),
        cached_input_tokens=twice(call.cached_input_tokens),
        reasoning_tokens=twice(call.reasoning_tokens),
        cost_usd=None if call.cost_usd is None else call.cost_usd * _COST_FACTOR,
    )


def _longer(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * _LATENCY_FACTOR
