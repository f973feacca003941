"""Whether a turn is what is expected: first which tools were called, then all the rest as one value."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spangrade.evaluator.conversation.observed import ActualCall, ActualTurn
from spangrade.evaluator.judge import Judge
from spangrade.evaluator.metrics.matching import maximum_matching
from spangrade.evaluator.similarity_utils import ABSENT, Mismatch, Similarity, is_similar
from spangrade.evaluator.turn import AgentTurn, ToolCall
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE


async def is_similar_turn(
    actual: ActualTurn,
    expected: AgentTurn,
    *,
    path: str = "turn",
    extra_keys: bool = False,
    any_order: bool = False,
    judge: Judge | None = None,
) -> Similarity:
    """Compare a turn: its text, and each expected tool call with the one that was made in its place.

    With `any_order`, each expected call is matched with a call of its own, whatever the order. A hand-off
    to another agent is a call of a tool only if the expectation names it.

    Raises:
        JudgeUnavailable: only a judge can tell, and there is no key.
        JudgeError: the judge broke.
    """
    if actual.text is None:
        reason = "nothing tells what the agent said: neither what it returned nor its spans"
        return Similarity((Mismatch(f"{path}.text", expected.text, ABSENT, reason),))
    value: dict[str, Any] = {"text": actual.text}
    wanted: dict[str, Any] = {"text": expected.text}
    if expected.tool_calls is not None:
        calls = _tool_calls(actual, expected.tool_calls)
        if mismatch := _other_tools(calls, expected.tool_calls, f"{path}.tool_calls", any_order):
            return Similarity((mismatch,))
        if any_order:
            calls = await _paired(calls or (), expected.tool_calls, extra_keys, judge)
        value["tool_calls"] = [
            _call_value(*pair) for pair in zip(calls or (), expected.tool_calls, strict=True)
        ]
        wanted["tool_calls"] = [{"arguments": c.arguments, "result": c.result} for c in expected.tool_calls]
    similarity = await is_similar(value, wanted, path=path, extra_keys=extra_keys, judge=judge)
    return Similarity(tuple(_explained(mismatch, path) for mismatch in similarity.mismatches))


def _tool_calls(actual: ActualTurn, expected: Sequence[ToolCall]) -> Sequence[ActualCall] | None:
    named = {call.name for call in expected}
    if actual.calls is None:
        return None
    return [call for call in actual.calls if not call.handoff or call.name in named]


def _other_tools(
    actual: Sequence[ActualCall] | None, expected: Sequence[ToolCall], path: str, any_order: bool
) -> Mismatch | None:
    """Return how the names of the tools that were called differ from those expected, if they do."""
    wanted = [call.name for call in expected]
    if actual is None:
        reason = "nothing tells which tools were called: there are no spans, and no AgentTurn was returned"
        return Mismatch(path, wanted, ABSENT, reason)
    found = [call.name for call in actual]
    if found == wanted or (any_order and sorted(found) == sorted(wanted)):
        return None
    return Mismatch(
        path, wanted, found, f"other tools were called, or in another {'number' if any_order else 'order'}"
    )


def _call_value(call: ActualCall, expected: ToolCall) -> dict[str, Any]:
    """Return a call as the value to compare; what is not known is left out, and so is a missing key."""
    value = {}
    if call.arguments_known or expected.arguments is None:
        value["arguments"] = call.arguments
    if call.result_known or expected.result is None:
        value["result"] = call.result
    return value


async def _paired(
    actual: Sequence[ActualCall], expected: Sequence[ToolCall], extra_keys: bool, judge: Judge | None
) -> Sequence[ActualCall]:
    """Return the calls in the order of the expected ones that they match, as many as do."""

    async def fits(call: ActualCall, wanted: ToolCall) -> bool:
        if call.name != wanted.name:
            return False
        value = {"arguments": wanted.arguments, "result": wanted.result}
        return bool(await is_similar(_call_value(call, wanted), value, extra_keys=extra_keys, judge=judge))

    rows = await asyncio.gather(
        *(asyncio.gather(*(fits(call, wanted) for call in actual)) for wanted in expected)
    )
    chosen = maximum_matching([[i for i, fit in enumerate(row) if fit] for row in rows])
    left = [i for i in range(len(actual)) if i not in chosen]
    ordered = []
    for wanted, choice in zip(expected, chosen, strict=True):
        if choice is None:
            choice = next(i for i in left if actual[i].name == wanted.name)
            left.remove(choice)
        ordered.append(actual[choice])
    return ordered


def _explained(mismatch: Mismatch, path: str) -> Mismatch:
    """Say of arguments or a result that no span holds why that may be."""
    whole = re.fullmatch(rf"{re.escape(path)}\.tool_calls\[\d+\]\.(arguments|result)", mismatch.path)
    if mismatch.actual is not ABSENT or not whole:
        return mismatch
    return replace(
        mismatch, reason=f"not recorded; many instrumentations want {CAPTURE_CONTENT_VARIABLE}=span_and_event"
    )
