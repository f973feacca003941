"""Spans that are taken for model calls only because of what they look like."""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans.observation import Observation


def without_doubtful_calls(observations: Sequence[Observation]) -> Sequence[Observation]:
    """Return observations in which a span that looks like a model call is one only in traces without others.

    A span with a model and tokens may be the sum of the calls inside it. Where only such spans record model
    calls, those that hold none of the others count.
    """
    doubtful = [o for o in observations if o.by_shape]
    if not doubtful:
        return observations
    certain = {o.trace_id for o in observations if o.kind == "llm" and not o.by_shape}
    parents = {(o.trace_id, o.span_id): o.parent_span_id for o in observations}
    around: set[tuple[str, str]] = set()
    for call in doubtful:
        above = call.parent_span_id
        while above is not None and (call.trace_id, above) not in around:
            around.add((call.trace_id, above))
            above = parents.get((call.trace_id, above))
    return [
        o
        if not o.by_shape
        else _structure(o)
        if o.trace_id in certain or (o.trace_id, o.span_id) in around
        else o._replace(not_understood=None)
        for o in observations
    ]


def _structure(o: Observation) -> Observation:
    """Return what is left of a span that is not a call: its place in the tree."""
    return Observation(
        "other",
        *o[1:6],
        conversation_id=o.conversation_id,
        question_id=o.question_id,
        not_understood=o.not_understood,
        span_name=o.span_name,
        scope=o.scope,
    )
