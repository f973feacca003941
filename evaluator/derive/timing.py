"""Intervals of time, as (start, end) in nanoseconds, and where the time of a session's turns went."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.span_tree import Node, Tree, node_of
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
    """Return what is left of an interval without the holes."""
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


def length_s(intervals: Iterable[Interval]) -> float:
    """Return the seconds that intervals cover, overlaps counted once, to the microsecond."""
    return round(sum(end - start for start, end in union(intervals)) / 1e9, 6)


def seconds(start_ns: int, end_ns: int) -> float:
    """Return the seconds from start to end, to the microsecond."""
    return round((end_ns - start_ns) / 1e9, 6)


def latency(
    tree: Tree,
    turns: Sequence[Turn],
    first_turn_calls: Sequence[Observation],
    llm_calls: Sequence[LLMCall],
    tool_interactions: Sequence[ToolInteraction],
) -> Latency:
    """Return where the turns' time went; a sum with a part of unknown length is unknown.

    A model's span may enclose tools and whole sub-agents: its own time is its interval without theirs.
    """
    own = _own_intervals(tree)
    turn_times = [turn.latency_s for turn in turns if turn.latency_s is not None]
    total_s = round(math.fsum(turn_times), 6) if len(turn_times) == len(turns) else None
    llm_timed = bool(own["llm"]) and all(call.latency_s is not None for call in llm_calls)
    tools_timed = all(tool.latency_s is not None for tool in tool_interactions)
    rest_s = None if total_s is None else total_s - length_s(own["llm"] + own["tool"])
    responses = [o for o in first_turn_calls if o.response]
    responded = responses and all(o.timed for o in responses)
    return Latency(
        total_s=total_s,
        llm_s=length_s(own["llm"]) if llm_timed else None,
        tool_s=length_s(own["tool"]) if tools_timed else None,
        framework_s=round(max(0.0, rest_s), 6) if rest_s is not None and llm_timed and tools_timed else None,
        first_response_s=seconds(turns[0].start_ns, min(o.end_ns for o in responses)) if responded else None,
    )


def _own_intervals(tree: Tree) -> dict[str, list[Interval]]:
    """Return the intervals of model calls and of tools, each without what its span encloses."""
    enclosed: dict[Node, list[Interval]] = {}
    for observation in tree.ordered:
        if observation.kind != "other":
            ancestor = tree.nearest(observation)
            if ancestor is not None:
                interval = (observation.start_ns, observation.end_ns)
                enclosed.setdefault(node_of(ancestor), []).append(interval)
    own: dict[str, list[Interval]] = {"llm": [], "tool": []}
    for observation in tree.ordered:
        if observation.kind in own:
            holes = enclosed.get(node_of(observation), ())
            own[observation.kind] += without((observation.start_ns, observation.end_ns), holes)
    return own
