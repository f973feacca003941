"""What an agent said and did in one turn: from its spans, and from what it handed back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from spangrade.converters.spans.registry import observe
from spangrade.evaluator.conversation.agents import Reply
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.handoffs import is_handoff
from spangrade.evaluator.session import ToolInteraction
from spangrade.evaluator.turn import AgentTurn, ToolCall
from spangrade.tracer.span import Span


class ActualCall(NamedTuple):
    """One execution of a tool. `arguments` and `result` are JSON values; None where not known."""

    name: str
    arguments: Any
    result: Any
    arguments_known: bool
    result_known: bool
    handoff: bool


class ActualTurn(NamedTuple):
    """What an agent said, and the tools that it called in order; None where nothing tells."""

    text: str | None
    calls: tuple[ActualCall, ...] | None

    def as_turn(self) -> AgentTurn:
        """Return it in the words of a conversation."""
        calls = self.calls and [
            ToolCall(c.name or "unnamed", c.arguments if isinstance(c.arguments, dict) else None, c.result)
            for c in self.calls
        ]
        return AgentTurn(self.text or "", None if self.calls is None else list(calls or ()))


def actual_turn(spans: Sequence[Span], reply: Reply) -> ActualTurn:
    """Return the turn that spans tell of, read as stored sessions are, completed by the agent's reply.

    The text that was handed back is what the user saw; without one it is the spans'. Tool calls are the
    spans', where they tell of any.
    """
    observations = observe(spans, {})
    session = build_session("turn", "conversation", observations)
    responses = [turn.final_response for turn in session.turns if turn.final_response is not None]
    text = reply.text if reply.text is not None or not responses else responses[-1]
    told = None if reply.tool_calls is None else [_returned(call) for call in reply.tool_calls]
    seen = [_recorded(interaction) for interaction in session.tool_interactions]
    if seen:
        return ActualTurn(text, tuple(_completed(seen, told or ())))
    if told is not None:
        return ActualTurn(text, tuple(told))
    instrumented = any(seen.kind in {"agent", "llm", "workflow"} for seen in observations)
    return ActualTurn(text, () if instrumented else None)


def _returned(call: ToolCall) -> ActualCall:
    return ActualCall(
        call.name,
        call.arguments,
        call.result,
        call.arguments is not None,
        call.result is not None,
        is_handoff(call.name),
    )


def _recorded(seen: ToolInteraction) -> ActualCall:
    return ActualCall(
        seen.tool_name,
        seen.input_arguments,
        seen.output,
        seen.arguments_known,
        seen.output_known,
        seen.handoff,
    )


def _completed(seen: Sequence[ActualCall], told: Sequence[ActualCall]) -> Sequence[ActualCall]:
    """Return the calls of the spans with what only the reply tells, where both tell of the same calls."""
    if [call.name for call in seen] != [call.name for call in told]:
        return seen
    return [
        ActualCall(
            call.name,
            call.arguments if call.arguments_known else other.arguments,
            call.result if call.result_known else other.result,
            call.arguments_known or other.arguments_known,
            call.result_known or other.result_known,
            call.handoff,
        )
        for call, other in zip(seen, told, strict=True)
    ]
