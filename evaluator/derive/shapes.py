"""Spans that are taken for model calls only because of what they look like."""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans.observation import (
    ModelCall,
    Notes,
    Observation,
    SessionContext,
    Structure,
)


def without_doubtful_calls(observations: Sequence[Observation]) -> Sequence[Observation]:
    """Return observations in which a span that looks like a model call is one only in traces without others.

    A span with a model and tokens may be the sum of the calls inside it. Where only such spans record model
    calls, those that hold none of the others count.
    """
    doubtful = [o for o in observations if "by_shape" in o.traits]
    if not doubtful:
        return observations
    calls = (o for o in observations if isinstance(o, ModelCall))
    certain = {call.span.trace_id for call in calls if "by_shape" not in call.traits}
    parents = {o.span.node: o.span.parent_span_id for o in observations}
    around: set[tuple[str, str]] = set()
    for call in doubtful:
        above = call.span.parent_span_id
        while above is not None and (call.span.trace_id, above) not in around:
            around.add((call.span.trace_id, above))
            above = parents.get((call.span.trace_id, above))
    return [
        o
        if "by_shape" not in o.traits
        else _structure(o)
        if o.span.trace_id in certain or o.span.node in around
        else o._replace(notes=o.notes._replace(not_understood=None))
        for o in observations
    ]


def _structure(o: Observation) -> Structure:
    """Return what is left of a span that is not a call: its place in the tree."""
    return Structure(
        o.span,
        SessionContext(conversation_id=o.session.conversation_id, question_id=o.session.question_id),
        Notes(not_understood=o.notes.not_understood),
    )
