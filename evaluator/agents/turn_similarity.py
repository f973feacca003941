"""Compare a turn with the expected one: the tools that were called first, then all the rest as one value."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from dataclasses import replace
from operator import eq
from typing import Any
from warnings import warn

from spangrade.evaluator.agents.exchange import Exchange, ObservedCall
from spangrade.evaluator.judge import Judge
from spangrade.evaluator.metrics.matching import ANY_TEXT, Keyed, is_subsequence, maximum_matching
from spangrade.evaluator.similarity_utils import ABSENT, Mismatch, Similarity, is_similar
from spangrade.evaluator.turn import AgentTurn, ToolCall, TurnEvent
from spangrade.tracer.base.lookalike_letters import is_blank
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


async def is_similar_turn(
    actual: Exchange,
    expected: AgentTurn,
    *,
    path: str = "turn",
    extra_keys: bool = False,
    any_order: bool = False,
    judge: Judge | None = None,
) -> Similarity:
    """Compare a turn: its text, and each expected tool call with the actual one at its position.

    With `any_order`, each expected call is matched with a call of its own, in any order. If the expected turn
    allows other calls, the expected ones may have others between them. A hand-off to another agent counts as
    a call only if the expected turn names it, and so does an event: `EndCall` as `end_call`. A turn with
    calls or events and no text has the text "", which `"*"` accepts only of an event or a hand-off. Events
    that the expected turn does not mention are warned of.

    Raises:
        JudgeUnavailable: a judge is needed, and there is no key.
        JudgeError: the judge broke.
    """
    if actual.text is None and (actual.events or actual.calls):
        actual = actual._replace(text="")
    if actual.text is None:
        reason = "the agent gave no reply: neither its return value nor its spans contain a text"
        return Similarity((Mismatch(f"{path}.text", expected.text, ABSENT, reason),))
    texts = [expected.text] if isinstance(expected.text, str) else expected.text
    if ANY_TEXT in texts and "" not in texts and is_blank(actual.text) and not _needs_no_text(actual):
        return Similarity((Mismatch(f"{path}.text", expected.text, actual.text, "the reply is empty"),))
    actual_value: dict[str, Any] = {"text": actual.text}
    expected_value: dict[str, Any] = {"text": expected.text}
    actual, rest = _with_events_as_calls(actual, {call.name for call in expected.tool_calls or ()})
    if expected.events is None and rest:
        warn(f"{path}: the expected turn does not mention the events {_listed(rest)}", stacklevel=2)
    elif expected.events is not None:
        if mismatch := _compare_events(rest, expected.events, f"{path}.events"):
            return Similarity((mismatch,))
        actual_value["events"] = [event.fields for event in rest]
        expected_value["events"] = [event.fields for event in expected.events]
    if expected.tool_calls is not None:
        others = expected.other_calls
        calls = _comparable_calls(actual, expected.tool_calls)
        if (unknown := actual.why_calls_unknown(at_all=others)) is not None:
            reason = f"the tool calls are not known; {unknown}"
            names = [call.name for call in expected.tool_calls]
            return Similarity((Mismatch(f"{path}.tool_calls", names, ABSENT, reason),))
        if mismatch := _compare_tools(calls, expected.tool_calls, f"{path}.tool_calls", any_order, others):
            return Similarity((mismatch,))

        async def compare(call: ObservedCall, wanted: ToolCall, path: str) -> Similarity:
            values = _call_value(call, wanted), _expected_call_value(wanted)
            return await is_similar(*values, path=path, extra_keys=extra_keys, judge=judge)

        chosen: Sequence[ObservedCall] | Similarity = calls
        if any_order:
            chosen = await _in_expected_order(calls, expected.tool_calls, compare)
        elif others:
            chosen = await _among_others(calls, expected.tool_calls, f"{path}.tool_calls", compare)
        if isinstance(chosen, Similarity):
            return _with_causes(chosen, path)
        actual_value["tool_calls"] = [
            _call_value(*pair) for pair in zip(chosen, expected.tool_calls, strict=True)
        ]
        expected_value["tool_calls"] = [_expected_call_value(call) for call in expected.tool_calls]
    similarity = await is_similar(
        actual_value, expected_value, path=path, extra_keys=extra_keys, reply=("text",), judge=judge
    )
    return _with_causes(similarity, path)


def _needs_no_text(actual: Exchange) -> bool:
    """Return whether a turn needs no text: it ends with a hand-off, or has events."""
    return bool(actual.events or (actual.calls and actual.calls[-1].handoff))


_Compare = Callable[[ObservedCall, ToolCall, str], Awaitable[Similarity]]


def _with_events_as_calls(actual: Exchange, names: Set[str]) -> tuple[Exchange, list[TurnEvent]]:
    """Return a turn whose events are calls where one of their names is expected, and the other events."""
    rest: list[TurnEvent] = []
    calls = list(actual.calls or ())
    moved = 0
    for position, event in actual.events:
        name = _WORD.sub("_", event.name).lower()
        if name not in names or any(call.name == name for call in calls):
            rest.append(event)
            continue
        fields = {key: value for key, value in (event.fields or {}).items() if value is not None}
        call = ObservedCall(name, fields, None, True, False, False)
        calls.insert(min(position, len(calls)) + moved, call)
        moved += 1
    return (actual._replace(calls=tuple(calls)) if moved else actual), rest


def _listed(events: Iterable[TurnEvent]) -> str:
    return ", ".join(event.name if not event.fields else f"{event.name} {event.fields}" for event in events)


def _compare_events(actual: Sequence[TurnEvent], expected: Sequence[TurnEvent], path: str) -> Mismatch | None:
    """Return how the names of the events differ from the expected ones, None if they do not."""
    names, wanted = [event.name for event in actual], [event.name for event in expected]
    if names == wanted:
        return None
    return Mismatch(path, wanted, names, "other events, or in another order")


def _comparable_calls(actual: Exchange, expected: Sequence[ToolCall]) -> Sequence[ObservedCall]:
    """Return the calls without the hand-offs that are not expected."""
    expected_names = {call.name for call in expected}
    return [call for call in actual.calls or () if not call.handoff or call.name in expected_names]


def _compare_tools(
    actual: Sequence[ObservedCall],
    expected: Sequence[ToolCall],
    path: str,
    any_order: bool,
    others: bool,
) -> Mismatch | None:
    """Return how the names of the called tools differ from the expected ones, None if they do not."""
    expected_names = [call.name for call in expected]
    names = [call.name for call in actual]
    if others:
        fits = not Counter(expected_names) - Counter(names)
        if fits and (any_order or is_subsequence(expected_names, names, eq)):
            return None
        reason = "an expected tool was not called" if not fits else "tools were called in another order"
        return Mismatch(path, expected_names, names, reason)
    if names == expected_names or (any_order and sorted(names) == sorted(expected_names)):
        return None
    reason = f"other tools were called, or in another {'number' if any_order else 'order'}"
    return Mismatch(path, expected_names, names, reason)


def _expected_call_value(call: ToolCall) -> dict[str, Any]:
    arguments: Any = call.arguments
    if call.match is not None and arguments is not None:
        arguments = None if call.match == "ignore" else Keyed(arguments, call.match)
    return {"arguments": arguments, "result": call.result}


def _call_value(call: ObservedCall, expected: ToolCall) -> dict[str, Any]:
    """Return a call as the value to compare, without what is not known: that is then a missing key."""
    value = {}
    if call.arguments_known or expected.arguments is None:
        value["arguments"] = call.arguments
    if call.result_known or expected.result is None:
        value["result"] = call.result
    return value


async def _in_expected_order(
    actual: Sequence[ObservedCall], expected: Sequence[ToolCall], compare: _Compare
) -> Sequence[ObservedCall]:
    """Return the calls in the order of the expected ones that they match, as many as do."""

    async def matches(call: ObservedCall, wanted: ToolCall) -> bool:
        return call.name == wanted.name and bool(await compare(call, wanted, "call"))

    rows = await asyncio.gather(
        *(asyncio.gather(*(matches(call, wanted) for call in actual)) for wanted in expected)
    )
    chosen = maximum_matching([[i for i, is_match in enumerate(row) if is_match] for row in rows])
    unmatched = [i for i in range(len(actual)) if i not in chosen]
    ordered = []
    for wanted, index in zip(expected, chosen, strict=True):
        if index is None:  # no match: another call of the same tool, to show how it differs
            index = next(i for i in unmatched if actual[i].name == wanted.name)
            unmatched.remove(index)
        ordered.append(actual[index])
    return ordered


async def _among_others(
    actual: Sequence[ObservedCall], expected: Sequence[ToolCall], path: str, compare: _Compare
) -> Sequence[ObservedCall] | Similarity:
    """Return for each expected call the first match after the one before it, or why one has none."""
    chosen: list[ObservedCall] = []
    rest = iter(actual)
    for index, wanted in enumerate(expected):
        difference: Similarity | None = None
        for call in rest:
            if call.name == wanted.name:
                similarity = await compare(call, wanted, f"{path}[{index}]")
                if similarity:
                    chosen.append(call)
                    break
                difference = similarity if difference is None else difference
        else:
            reason = "not called after the expected calls before it"
            if difference is None:
                difference = Similarity((Mismatch(f"{path}[{index}]", wanted.name, ABSENT, reason),))
            return difference
    return chosen


def _with_causes(similarity: Similarity, path: str) -> Similarity:
    return Similarity(tuple(_explained(mismatch, path) for mismatch in similarity.mismatches))


def _explained(mismatch: Mismatch, path: str) -> Mismatch:
    """Return a mismatch of arguments or a result that no span contains with the likely cause."""
    is_whole = re.fullmatch(rf"{re.escape(path)}\.tool_calls\[\d+\]\.(arguments|result)", mismatch.path)
    if mismatch.actual is not ABSENT or not is_whole:
        return mismatch
    reason = f"not recorded; many instrumentations need {CAPTURE_CONTENT_VARIABLE}=span_and_event"
    return replace(mismatch, reason=reason)
