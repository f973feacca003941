"""Why the spans of a session count, or do not, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spangrade.converters.spans.observation import Structure, kind_of
from spangrade.evaluator.derive.passes import SpanChange
from spangrade.evaluator.derive.sync.why import SpanReading


def why_rows(readings: Iterable[SpanReading]) -> Iterator[dict[str, Any]]:
    """Yield one row per span: its name, its id, its dialect, what it was read as and counts as, and why."""
    for reading in readings:
        observation = reading.observation
        read_as = counts_as = kind_of(observation)
        for change in reading.changes:
            counts_as = change.fields["kind"][1] if "kind" in change.fields else counts_as  # type: ignore[assignment]
        yield {
            "span": observation.span.name or observation.agent,
            "span_id": observation.span.span_id,
            "dialect": reading.dialect,
            "read_as": _word(read_as),
            "counts_as": _word(counts_as),
            "why": "; ".join(_reasons(reading)) or None,
        }


def why_json(readings: Iterable[SpanReading]) -> list[dict[str, Any]]:
    """Return the same as JSON, with the names of the passes and the fields that each changed."""
    spans = list(readings)
    return [
        {
            **row,
            "trace_id": reading.observation.span.trace_id,
            "passes": [
                {"pass": change.by, "reason": change.reason, "changed": sorted(change.fields)}
                for change in reading.changes
            ],
        }
        for row, reading in zip(why_rows(spans), spans, strict=True)
    ]


def _word(kind: str) -> str:
    return {"llm": "model call", "handoff": "hand-off", "other": "no step"}.get(kind, kind)


def _reasons(reading: SpanReading) -> Iterator[str]:
    observation = reading.observation
    notes = observation.notes
    if notes.unreadable is not None:
        yield f"the dialect {notes.unreadable[0]} could not read it: {notes.unreadable[1]}"
    elif notes.not_understood is not None:
        yield "it looks like an agent's, and no dialect understands it"
    elif isinstance(observation, Structure):
        yield "it records no step: it only holds others together"
    elif "by_shape" in observation.traits:
        yield "it has a model with tokens or messages"
    elif "inferred" in observation.traits:
        yield "inferred: no convention names its question and its answer, which are the turn's texts"
    yield from map(_reason, reading.changes)


def _reason(change: SpanChange) -> str:
    names = ", ".join(sorted(name for name in change.fields if name != "kind"))
    return change.reason if not names or "kind" in change.fields else f"{change.reason} ({names})"
