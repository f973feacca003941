"""A session's spans over time: a bar for each, in the order of their tree, and the critical path.

Idle times between turns are cut out of the axis, so that a conversation over days can be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from spangrade.evaluator.reports.html.conversation import origin_of
from spangrade.evaluator.reports.html.session_source import SpanRow
from spangrade.evaluator.reports.html.texts import TextLimits
from spangrade.evaluator.session import LLMCall, Session

Kind = Literal["agent", "model", "tool", "hand-off", "other"]
Node = tuple[str, str]  # trace id, span id

AXIS = 1_000  # units of the axis, of `left` and `width`
_CUT_FROM_NS = 1_000_000_000  # idle times of this length are cut out
_DEEPEST = 10  # levels that are indented


class Bar(NamedTuple):
    """A span as a bar.

    `start_s` is from the session's start; `left` and `width` are on the axis. `critical_s` is how long the
    critical path led through the span itself, None if it did not. `depth` counts the agents, model calls and
    tools above it. `model` is the record of a model call, `approval` that of a call that people decide on.
    """

    trace_id: str
    span_id: str
    name: str
    kind: Kind
    depth: int
    start_s: float
    duration_s: float | None
    left: float
    width: float
    failed: bool
    critical_s: float | None
    model: LLMCall | None = None
    approval: str | None = None


class IdleGap(NamedTuple):
    """An idle time that is cut out of the axis: where, and how long it was."""

    at: float
    duration_s: float


class Waterfall(NamedTuple):
    """The bars of a session; `axis_s` is the length of the axis, `hidden` how many more bars there are."""

    bars: tuple[Bar, ...]
    axis_s: float
    gaps: tuple[IdleGap, ...]
    hidden: int
    next_skip: int | None


def waterfall(
    session: Session,
    spans: Sequence[SpanRow],
    *,
    skip: int = 0,
    most_bars: int = TextLimits().bars,
    always: Collection[str] = (),
) -> Waterfall:
    """Return the bars of a session's spans: `most_bars` from `skip` on, and always some (span ids).

    Agents are the spans of the trajectory, and those with their names: an agent that goes on is no new step.
    """
    ordered, parents = _in_tree_order(spans)
    axis = _Axis(spans, origin_of(session))
    kinds, calls = _kinds(session, spans)
    critical = critical_path(ordered, parents)
    failed = _failed(session)
    approvals = {(call.trace_id, call.span_id): call.approval for call in session.tool_interactions}
    depths: dict[Node, int] = {}
    bars = []
    for place, span in enumerate(ordered):
        node = (span.trace_id, span.span_id)
        parent = parents.get(node)
        above = 0
        if parent is not None:
            above = depths[parent] + (kinds.get(parent, "other") != "other")
        depths[node] = above
        if not (skip <= place < skip + most_bars or (not skip and span.span_id in always)):
            continue
        left, right = axis.at(span.start_ns), axis.at(_end(span))
        ended = span.end_ns >= span.start_ns
        bars.append(
            Bar(
                span.trace_id,
                span.span_id,
                span.name,
                kinds.get(node, "other"),
                min(above, _DEEPEST),
                (span.start_ns - axis.origin_ns) / 1e9,
                (span.end_ns - span.start_ns) / 1e9 if ended else None,
                left,
                right - left,
                span.status == "ERROR" or node in failed,
                critical.get(node),
                calls.get(node),
                approvals.get(node),
            )
        )
    next_skip = skip + most_bars
    hidden = len(ordered) - next_skip
    return Waterfall(tuple(bars), axis.length_s, axis.gaps, max(0, hidden), next_skip if hidden > 0 else None)


def _failed(session: Session) -> Collection[Node]:
    return {
        (call.trace_id, call.span_id)
        for call in session.tool_interactions
        if call.ok is False and call.span_id is not None
    }


def _kinds(session: Session, spans: Iterable[SpanRow]) -> tuple[Mapping[Node, Kind], Mapping[Node, LLMCall]]:
    steps = {(step.trace_id, step.span_id) for step in session.trajectory if step.kind == "agent"}
    names = {span.name for span in spans if (span.trace_id, span.span_id) in steps}
    kinds: dict[Node, Kind] = {(span.trace_id, span.span_id): "agent" for span in spans if span.name in names}
    calls = {(call.trace_id, call.span_id): call for call in session.llm_calls}
    kinds.update(dict.fromkeys(calls, "model"))
    for tool in session.tool_interactions:
        if tool.span_id is not None:
            kinds[tool.trace_id, tool.span_id] = "hand-off" if tool.handoff else "tool"
    return kinds, calls


def _end(span: SpanRow) -> int:
    return max(span.start_ns, span.end_ns)


def _in_tree_order(spans: Sequence[SpanRow]) -> tuple[list[SpanRow], Mapping[Node, Node]]:
    """Return the spans, each after its parent, by start, and the recorded parent of each that has one."""
    by_node = {(span.trace_id, span.span_id): span for span in spans}
    children: dict[Node | None, list[SpanRow]] = {}
    for span in by_node.values():
        parent = (span.trace_id, span.parent_span_id or "")
        children.setdefault(parent if parent in by_node else None, []).append(span)
    ordered: list[SpanRow] = []
    parents: dict[Node, Node] = {}

    def add_below(tops: Iterable[SpanRow]) -> None:
        waiting = sorted(tops, key=_start, reverse=True)
        while waiting:
            span = waiting.pop()
            node = (span.trace_id, span.span_id)
            ordered.append(span)
            below = sorted(children.pop(node, ()), key=_start, reverse=True)
            parents.update(((child.trace_id, child.span_id), node) for child in below)
            waiting += below

    add_below(children.pop(None, ()))
    while children:  # spans that name each other as parents
        one = min((span for below in children.values() for span in below), key=_start)
        siblings = children[one.trace_id, one.parent_span_id or ""]
        siblings.remove(one)
        if not siblings:
            del children[one.trace_id, one.parent_span_id or ""]
        add_below([one])
    return ordered, parents


def _start(span: SpanRow) -> tuple[int, int]:
    return span.start_ns, -span.end_ns


def critical_path(ordered: Sequence[SpanRow], parents: Mapping[Node, Node]) -> Mapping[Node, float]:
    """Return the spans that determined how long the session took, each with its own seconds on the path.

    From the end of a span the path goes back to the child that ended last before, from its start to the one
    that ended last before that, and so on. What a child outlives its parent by is not on it.
    """
    children: dict[Node | None, list[SpanRow]] = {}
    for span in ordered:
        children.setdefault(parents.get((span.trace_id, span.span_id)), []).append(span)
    own_ns: dict[Node, int] = {}
    waiting: list[tuple[Node | None, int, int]] = [(None, -(2**64), 2**64)]
    while waiting:
        node, start_ns, until_ns = waiting.pop()
        left_ns = until_ns - start_ns
        at_ns = until_ns
        for child in sorted(children.get(node, ()), key=_end, reverse=True):
            end_ns = min(_end(child), until_ns)
            if end_ns > at_ns or child.start_ns > at_ns:
                continue
            begin_ns = max(child.start_ns, start_ns)
            if end_ns < begin_ns:
                continue
            waiting.append(((child.trace_id, child.span_id), begin_ns, end_ns))
            left_ns -= end_ns - begin_ns
            at_ns = begin_ns
        if node is not None:
            own_ns[node] = left_ns
    return {node: ns / 1e9 for node, ns in own_ns.items()}


class _Axis:
    """The times in which anything ran, one after the other."""

    def __init__(self, spans: Sequence[SpanRow], origin_ns: int) -> None:
        self.origin_ns = origin_ns
        self._starts: list[int] = []
        self._shifts: list[int] = []  # idle nanoseconds before each start
        idle, end_ns = 0, None
        cuts: list[tuple[int, int]] = []
        for span in sorted(spans, key=_start):
            if end_ns is None:
                self._starts.append(span.start_ns)
                self._shifts.append(span.start_ns)
                idle = span.start_ns
            elif span.start_ns - end_ns >= _CUT_FROM_NS:
                cuts.append((end_ns - idle, span.start_ns - end_ns))
                idle += span.start_ns - end_ns
                self._starts.append(span.start_ns)
                self._shifts.append(idle)
            end_ns = _end(span) if end_ns is None else max(end_ns, _end(span))
        self._length_ns = 0 if end_ns is None else end_ns - idle
        self.length_s = self._length_ns / 1e9
        self.gaps = tuple(IdleGap(self._scaled(at_ns), idle_ns / 1e9) for at_ns, idle_ns in cuts)

    def at(self, time_ns: int) -> float:
        """Return where a time is on the axis."""
        part = bisect_right(self._starts, time_ns) - 1
        return self._scaled(time_ns - self._shifts[max(0, part)])

    def _scaled(self, offset_ns: int) -> float:
        return round(offset_ns / self._length_ns * AXIS, 3) if self._length_ns else 0.0
