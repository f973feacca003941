"""Spans that are taken for model calls only because of what they look like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from spangrade.converters.spans.observation import (
    ModelCall,
    Notes,
    Observation,
    SessionContext,
    Structure,
    ToolUse,
    Traits,
)
from spangrade.evaluator.derive.span_tree import Node

_DOUBTFUL: Traits = frozenset({"by_content", "by_shape", "of_bus"})


def without_doubtful_calls(observations: Sequence[Observation]) -> Sequence[Observation]:
    """Return observations in which a span that only looks like a call is one only where it holds no other.

    A span with a model and tokens may be the sum of the calls inside it. One that names no operation counts
    only in traces without other model calls, and one of a tool's outcome only directly below that tool.
    """
    if not any(_DOUBTFUL & o.traits for o in observations):
        return observations
    calls = [o for o in observations if isinstance(o, ModelCall | ToolUse) and not _is_outcome(o)]
    tools = {o.span.node for o in calls if isinstance(o, ToolUse)}
    certain = {o.span.trace_id for o in calls if isinstance(o, ModelCall) and "by_shape" not in o.traits}
    parents = {o.span.node: o.span.parent_span_id for o in observations}
    around: dict[type[Observation], set[Node]] = defaultdict(set)
    for call in calls:
        passed = around[type(call)]
        above = call.span.parent_span_id
        while above is not None and (call.span.trace_id, above) not in passed:
            passed.add((call.span.trace_id, above))
            above = parents.get((call.span.trace_id, above))
    has_calls = any(isinstance(o, ModelCall) and "of_bus" not in o.traits for o in calls)

    def is_none(o: Observation) -> bool:
        if _is_outcome(o):
            return (o.span.trace_id, o.span.parent_span_id) not in tools
        return (
            o.span.node in around[type(o)]
            or ("by_shape" in o.traits and o.span.trace_id in certain)
            or ("of_bus" in o.traits and has_calls)
        )

    return [
        o
        if not _DOUBTFUL & o.traits
        else _structure(o)
        if is_none(o)
        else o._replace(notes=o.notes._replace(not_understood=None))
        for o in observations
    ]


def _is_outcome(o: Observation) -> bool:
    """Return whether a span only records the outcome of the tool above it."""
    return isinstance(o, ToolUse) and o.name is None and "by_content" in o.traits


def _structure(o: Observation) -> Structure:
    """Return a span that is not a call as structure: its place in the tree."""
    return Structure(
        o.span,
        SessionContext(conversation_id=o.session.conversation_id, question_id=o.session.question_id),
        Notes(not_understood=o.notes.not_understood),
    )
