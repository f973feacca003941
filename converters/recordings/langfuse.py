"""Langfuse's exports: traces with their observations, and observations of the API and the blob storage.

What the page downloads has a trace beside its observations, some of them again within the trace, and may
leave out their inputs and outputs: these are unknown then. Keys are in camelCase (the API and the page) or
snake_case (the blob storage). An observation becomes a span with the attributes that Langfuse's SDKs record,
so that it is read like theirs. What belongs to a trace (session, user, input and output) is put on its
topmost observations. Ids that are not OpenTelemetry's become digests.

https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.spans.values import either, parse_json
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.otlp.common import MalformedError, ScopeGroup, decoded, span_warnings
from spangrade.tracer.span import Attributes, Problem, Span

_OBSERVATION = "langfuse.observation."
# By the name in an export; the attributes of Langfuse's SDKs.
_TEXTS = {
    "level": f"{_OBSERVATION}level",
    "status_message": f"{_OBSERVATION}status_message",
    "version": "langfuse.version",
    "environment": "langfuse.environment",
    "release": "langfuse.release",
    "trace_name": "langfuse.trace.name",
    "session_id": "session.id",
    "user_id": "user.id",
}
_VALUES = {
    "input": f"{_OBSERVATION}input",
    "output": f"{_OBSERVATION}output",
    "usage_details": f"{_OBSERVATION}usage_details",
    "cost_details": f"{_OBSERVATION}cost_details",
    "model_parameters": f"{_OBSERVATION}model.parameters",
}
_MODELS = ("provided_model_name", "model")
_OF_A_TRACE = {"session_id": "session.id", "user_id": "user.id", "name": "langfuse.trace.name"}
_TRACE_VALUES = {"input": "langfuse.trace.input", "output": "langfuse.trace.output"}


def read(document: Any) -> Iterator[Span | Problem] | None:
    """Return the observations of an export as spans, or None if the document is something else."""
    found = plain.rows(_downloaded(document))
    if found is None:
        return None
    where, rows = found
    if _is_trace(rows[0]):
        return _traces(rows, where)
    if _is_observation(rows[0]):
        return decoded([ScopeGroup(where, rows, {}, None, None)], _span, span_warnings)
    return None


def _downloaded(document: Any) -> Any:
    """Return a trace with its observations, given what the page downloads: both, side by side."""
    trace = document.get("trace") if isinstance(document, dict) else None
    if not isinstance(trace, dict) or not isinstance(document.get("observations"), list):
        return document
    return {**trace, "observations": document["observations"] or trace.get("observations")}


def _is_trace(row: Mapping[str, Any]) -> bool:
    observations = row.get("observations")
    return "id" in row and isinstance(observations, list) and all(map(_is_observation, observations[:1]))


def _is_observation(row: Any) -> bool:
    named = isinstance(row, dict) and {"id", "type"} <= row.keys()
    return (
        named
        and bool({"traceId", "trace_id"} & row.keys())
        and bool({"startTime", "start_time"} & row.keys())
    )


def _traces(traces: Sequence[Any], place: str) -> Iterator[Span | Problem]:
    for number, trace in enumerate(traces):
        where = f"{place}[{number}].observations"
        observations = trace.get("observations") if isinstance(trace, dict) else None
        if not isinstance(observations, list):
            yield Problem(where, "expected a list of observations")
            continue
        try:
            shared = _of_trace(trace)
        except MalformedError as error:
            yield Problem(
                where, f"{error}; its observations are kept without what belongs to the trace", dropped=False
            )
            shared = {}
        group = ScopeGroup(where, observations, shared, None, None)
        yield from decoded([group], _span_of_trace, span_warnings)


def _of_trace(trace: Mapping[str, Any]) -> Attributes:
    attributes = {name: text for key, name in _OF_A_TRACE.items() if (text := _text(trace, key))}
    return attributes | {
        name: value for key, name in _TRACE_VALUES.items() if (value := _value(trace, key)) is not None
    }


def _span_of_trace(row: Any, group: ScopeGroup) -> Span:
    """Return an observation as a span, with the fields of its trace if it is topmost."""
    span = _span(row, group)
    if span.parent_span_id is not None:
        return span
    return span._replace(attributes={**group.resource, **span.attributes})


def _span(row: Any, group: ScopeGroup) -> Span:  # noqa: ARG001 (what a trace shares, `_span_of_trace` adds)
    if not isinstance(row, dict):
        raise MalformedError("expected an observation, a JSON object")
    level = row.get("level")
    start_ns, end = plain.time_ns(either(row, "start_time"), "start_time"), either(row, "end_time")
    return Span(
        trace_id=plain.trace_id(either(row, "trace_id")),
        span_id=plain.span_id(row.get("id")),
        parent_span_id=plain.optional_span_id(either(row, "parent_observation_id")),
        name=plain.text(row.get("name"), "name"),
        kind="INTERNAL",
        start_ns=start_ns,
        end_ns=plain.time_ns(end, "end_time") if end else start_ns,  # an event has no end
        status="ERROR" if level == "ERROR" else "UNSET",
        status_message=_text(row, "status_message") if level == "ERROR" else None,
        attributes=_attributes(row),
    )


def _attributes(row: Mapping[str, Any]) -> Attributes:
    attributes: Attributes = {f"{_OBSERVATION}type": plain.text(row.get("type"), "type").lower()}
    attributes |= {name: text for key, name in _TEXTS.items() if (text := _text(row, key))}
    attributes |= {name: value for key, name in _VALUES.items() if (value := _value(row, key)) is not None}
    if model := next((text for key in _MODELS if (text := _text(row, key))), None):
        attributes[f"{_OBSERVATION}model.name"] = model
    metadata = parse_json(row.get("metadata"))
    for key, value in plain.json_object(metadata if isinstance(metadata, dict) else None, "metadata").items():
        attributes[f"{_OBSERVATION}metadata.{key}"] = value if isinstance(value, str) else dumps(value)
    return attributes


def _text(row: Mapping[str, Any], key: str) -> str | None:
    return plain.text(either(row, key), key) or None


def _value(row: Mapping[str, Any], key: str) -> str | None:
    """Return a value as JSON text; a text is one already, or is itself the value. None for none."""
    value = plain.json_value(either(row, key))
    if value is None or value == "" or value == {}:
        return None
    return value if isinstance(value, str) else dumps(value)
