"""Intervals of time, as (start, end) in nanoseconds, and where the time of a session's turns went."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from spangrade.converters.spans.observation import ModelCall, Structure, ToolUse
from spangrade.evaluator.derive.span_tree import Node, Tree
from spangrade.evaluator.session import Latency, LLMCall, ToolInteraction, Turn

Interval = tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the disjoint intervals that cover the same time, in order."""
    merged: list[Interval] = []
    for start, end in sorted(i for i in intervals if i[1] > i[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def without(interval: Interval, holes: Sequence[Interval]) -> list[Interval]:
    """Return the parts of an interval outside the holes."""
    if not holes:
        return [interval]
    start, end = interval
    left: list[Interval] = []
    for hole_start, hole_end in union(holes):
        if hole_start > start:
            left.append((start, min(hole_start, end)))
        start = max(start, hole_end)
        if start >= end:
            break
    if start < end:
        left.append((start, end))
    return left


def overlap(one: Interval, other: Interval) -> bool:
    """Return whether two intervals have more than an end of one in common."""
    return max(one[0], other[0]) < min(one[1], other[1]) or one[0] == other[0]


def half_at_once(one: Interval, other: Interval) -> bool:
    """Return whether two intervals have at least half of the shorter one in common."""
    both = min(one[1], other[1]) - max(one[0], other[0])
    return both >= 0 and 2 * both >= min(one[1] - one[0], other[1] - other[0])


def length_s(intervals: Iterable[Interval]) -> float:
    """Return the seconds that intervals cover, overlaps counted once, to the microsecond."""
    return round(sum(end - start for start, end in union(intervals)) / 1e9, 6)


def seconds(start_ns: int, end_ns: int) -> float:
    """Return the seconds from start to end, to the microsecond."""
    return round((end_ns - start_ns) / 1e9, 6)


def latency(
    tree: Tree,
    turns: Sequence[Turn],
    first_turn_calls: Sequence[ModelCall],
    llm_calls: Sequence[LLMCall],
    tool_interactions: Sequence[ToolInteraction],
) -> Latency:
    """Return where the turns' time went; a sum with a part of unknown length is unknown.

    A model's span may enclose tools and whole sub-agents: its own time is its interval without theirs.
    """
    enclosed = _enclosed_intervals(tree)
    of_models, of_tools = (_own_intervals(calls, enclosed) for calls in (tree.model_calls, tree.tools))
    turn_times = [turn.latency_s for turn in turns if turn.latency_s is not None]
    total_s = round(math.fsum(turn_times), 6) if len(turn_times) == len(turns) else None
    llm_timed = bool(of_models) and all(call.latency_s is not None for call in llm_calls)
    tools_timed = all(tool.latency_s is not None for tool in tool_interactions)
    rest_s = None if total_s is None else total_s - length_s(of_models + of_tools)
    responses = [call.span for call in first_turn_calls if call.exchange.response]
    responded = responses and all(span.timed for span in responses)
    return Latency(
        total_s=total_s,
        llm_s=length_s(of_models) if llm_timed else None,
        tool_s=length_s(of_tools) if tools_timed else None,
        framework_s=round(max(0.0, rest_s), 6) if rest_s is not None and llm_timed and tools_timed else None,
        first_response_s=seconds(turns[0].start_ns, min(span.end_ns for span in responses))
        if responded
        else None,
    )


def _enclosed_intervals(tree: Tree) -> Mapping[Node, Sequence[Interval]]:
    """Return the intervals of an agent's work by the call that encloses it."""
    enclosed: dict[Node, list[Interval]] = {}
    for o in tree.ordered:
        if not isinstance(o, Structure) and isinstance(ancestor := tree.nearest(o), ModelCall | ToolUse):
            enclosed.setdefault(ancestor.span.node, []).append((o.span.start_ns, o.span.end_ns))
    return enclosed


def _own_intervals(
    calls: Iterable[ModelCall | ToolUse], enclosed: Mapping[Node, Sequence[Interval]]
) -> list[Interval]:
    """Return the intervals of calls, each without the spans that it encloses."""
    own: list[Interval] = []
    for call in calls:
        own += without((call.span.start_ns, call.span.end_ns), enclosed.get(call.span.node, ()))
    return own
