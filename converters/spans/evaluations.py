"""Scores in traces: evaluation events of the conventions, OpenInference's annotations, Langfuse's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Literal, NamedTuple

from spangrade.converters.spans.values import text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

Scope = Literal["span", "trace", "session"]

# https://arize-ai.github.io/openinference/spec/feedback/annotations.html
_SCOPES: Mapping[str, Scope] = {"": "span", "trace.": "trace", "session.": "session"}
_LISTS = tuple(
    (f"{prefix}{kind}s.", kind, scope)
    for prefix, scope in _SCOPES.items()
    for kind in ("annotation", "evaluation")
)
_MAX_LISTED = 1_000  # of one span
_LANGFUSE_NAME = "langfuse.score.name"
_SIGNS = frozenset(
    {semconv.EVALUATION_NAME, _LANGFUSE_NAME, *(f"{prefix}0.{kind}.name" for prefix, kind, _ in _LISTS)}
)


class Evaluation(NamedTuple):
    """A score that a trace records: of a span, of the trace or of its session.

    It has a `value`, a `label` in words, or an `explanation`. `author` is who or what gave it, None if
    unknown.
    """

    scope: Scope
    name: str
    value: float | None
    label: str | None
    explanation: str
    author: str | None
    time_ns: int


def evaluations_of(span: Span) -> tuple[Evaluation, ...]:
    """Return the scores in the attributes and events of a span."""
    if _SIGNS.isdisjoint(span.attributes) and not (
        span.events and any(event.get("name") == semconv.EVALUATION_RESULT for event in span.events)
    ):
        return ()
    return tuple(_evaluations(span))


def evaluation_of_log(log: LogRecord) -> Evaluation | None:
    """Return the score in a log record; None for any other record, and for a score of `watch`."""
    name = log.event_name or log.attributes.get("event.name")
    if name != semconv.EVALUATION_RESULT or log.scope_name == semconv.SCOPE_OF_WATCH:
        return None
    return _of_conventions(log.attributes, log.scope_name, log.time_ns)


def _evaluations(span: Span) -> Iterator[Evaluation]:
    of_events = (
        _of_conventions(event.get("attributes") or {}, span.scope_name, event.get("time_ns") or span.end_ns)
        for event in span.events
        if event.get("name") == semconv.EVALUATION_RESULT
    )
    own = _of_conventions(span.attributes, span.scope_name, span.end_ns)
    yield from (one for one in (*of_events, own) if one is not None)
    for prefix, kind, scope in _LISTS:
        yield from _listed(span, prefix, kind, scope)
    if one := _of_langfuse(span):
        yield one


def _of_conventions(attributes: Mapping[str, Any], scope: str | None, time_ns: int) -> Evaluation | None:
    """Return the score of an event; its author is the evaluator that it names, or else the event's scope."""
    return _evaluation(
        "span",
        attributes.get(semconv.EVALUATION_NAME),
        attributes.get(semconv.EVALUATION_SCORE_VALUE),
        attributes.get(semconv.EVALUATION_SCORE_LABEL),
        attributes.get(semconv.EVALUATION_EXPLANATION),
        text(attributes.get(semconv.EVALUATOR_NAME)) or scope,
        time_ns,
    )


def _listed(span: Span, prefix: str, kind: str, scope: Scope) -> Iterator[Evaluation]:
    """Yield OpenInference's annotations of a scope, numbered from 0."""
    for number in range(_MAX_LISTED):
        fields = f"{prefix}{number}.{kind}."
        if f"{fields}name" not in span.attributes:
            return
        field = {
            name: span.attributes.get(fields + name)
            for name in ("name", "score", "label", "explanation", "annotator_kind", "identifier")
        }
        who = text(field["identifier"]) or text(field["annotator_kind"])
        one = _evaluation(
            scope, field["name"], field["score"], field["label"], field["explanation"], who, span.end_ns
        )
        if one is not None:
            yield one


def _of_langfuse(span: Span) -> Evaluation | None:
    """Return the score that a span stands for: Langfuse's own API takes no scores over OTLP, exporters do."""
    get = span.attributes.get
    value = get("langfuse.score.value")
    label = value if isinstance(value, str) else get("langfuse.score.string_value")
    scope: Scope = "span" if text(get("langfuse.score.observation_id")) else "trace"
    author = text(get("langfuse.score.source"))
    return _evaluation(
        scope, get(_LANGFUSE_NAME), value, label, get("langfuse.score.comment"), author, span.end_ns
    )


def _evaluation(
    scope: Scope,
    name: Any,
    value: Any,
    label: Any,
    explanation: Any,
    author: str | None,
    time_ns: int,
) -> Evaluation | None:
    """Return a score; None without a name, or if there is nothing else to it."""
    number = float(value) if isinstance(value, int | float) and isfinite(value) else None
    words, why = text(label), text(explanation) or ""
    named = text(name)
    if named is None or (number is None and words is None and not why):
        return None
    return Evaluation(scope, named, number, words, why, author, time_ns)
