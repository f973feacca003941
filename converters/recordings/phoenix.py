"""Phoenix's exports: the rows of `get_spans_dataframe()`, and the spans of its API (`get_spans()`).

A row has its ids under `context.trace_id` and `context.span_id`, its attributes under `attributes.NAME`.
Phoenix makes lists of numbered attributes and objects of the JSON texts that OpenInference keeps; this module
reverses it. Missing values are null.

https://arize.com/docs/phoenix/tracing/how-to-tracing/importing-and-exporting-traces/extract-data-from-spans
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.spans.values import parse_json
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.otlp.common import MalformedError, ScopeGroup, decoded, span_warnings
from spangrade.tracer.span import Attributes, Problem, Span

_ROW_KEYS = frozenset({"context.trace_id", "context.span_id", "span_kind", "start_time"})
_API_KEYS = frozenset({"context", "span_kind", "parent_id", "start_time", "attributes"})
_PREFIX = "attributes."
_KIND = "openinference.span.kind"
# https://github.com/Arize-ai/phoenix/blob/main/src/phoenix/trace/attributes.py
_JSON_TEXTS = frozenset({"document.metadata", "llm.prompt_template.variables", "metadata", "tool.parameters"})
# Columns that a frame has as lists or objects, and CSV as texts.
_NESTED = (
    ".input_messages",
    ".output_messages",
    ".documents",
    ".tools",
    ".metadata",
    ".tool.parameters",
    ".variables",
)
_KINDS_UNKNOWN = frozenset({"", "UNKNOWN"})


def read(document: Any) -> Iterator[Span | Problem] | None:
    """Return the spans of a row, a list of rows or of the API's answer, or None if it is something else."""
    found = plain.rows(document)
    if found is None:
        return None
    where, rows = found
    keys = rows[0].keys()
    if not (keys >= _ROW_KEYS or (keys >= _API_KEYS and isinstance(rows[0]["context"], dict))):
        return None
    return decoded([ScopeGroup(where, rows, {}, None, None)], _span, span_warnings)


def _span(row: Any, group: ScopeGroup) -> Span:  # noqa: ARG001 (nothing is shared by rows)
    if not isinstance(row, dict):
        raise MalformedError("expected a span, a JSON object")
    context = row.get("context")
    ids = (
        context
        if isinstance(context, dict)
        else {key: row.get(f"context.{key}") for key in ("trace_id", "span_id")}
    )
    return Span(
        trace_id=plain.trace_id(ids.get("trace_id")),
        span_id=plain.span_id(ids.get("span_id")),
        parent_span_id=plain.optional_span_id(row.get("parent_id")),
        name=plain.text(row.get("name"), "name"),
        kind="INTERNAL",
        start_ns=plain.time_ns(row.get("start_time"), "start_time"),
        end_ns=plain.time_ns(row.get("end_time"), "end_time"),
        status=plain.status(row.get("status_code")),
        status_message=plain.text(row.get("status_message"), "status_message") or None,
        attributes=_attributes(row),
        events=[_event(event) for event in plain.objects(plain.cell(row.get("events")), "events")],
    )


def _attributes(row: Mapping[str, Any]) -> Attributes:
    nested = plain.cell(row.get("attributes"))
    given = nested if isinstance(nested, dict) else {}
    columns = {
        key.removeprefix(_PREFIX): _of_column(key, value)
        for key, value in row.items()
        if key.startswith(_PREFIX)
    }
    attributes: Attributes = {}
    metadata: Attributes = {}
    for key, value in plain.json_object({**given, **columns}, "attributes").items():
        if key.startswith("metadata."):
            metadata[key.removeprefix("metadata.")] = value
        else:
            _flatten(key, value, attributes)
    if metadata:
        attributes["metadata"] = dumps(metadata)
    kind = row.get("span_kind")
    if _KIND not in attributes and isinstance(kind, str) and kind not in _KINDS_UNKNOWN:
        attributes[_KIND] = kind
    return attributes


def _of_column(key: str, value: Any) -> Any:
    """Return the value of a column, which CSV has as text: the lists, objects and counts of OpenInference."""
    if not isinstance(value, str):
        return value
    if ".token_count." in key:
        return parse_json(value)
    parsed = plain.cell(value) if key.endswith(_NESTED) else value
    return parsed if isinstance(parsed, dict | list) else value


def _flatten(key: str, value: Any, attributes: Attributes) -> None:
    """Set an attribute, or those that Phoenix made an object or a list of objects of."""
    match value:
        case None:
            pass
        case dict() | list() if key in _JSON_TEXTS:
            attributes[key] = dumps(_without_nulls(value))
        case dict():
            for name, item in value.items():
                _flatten(f"{key}.{name}", item, attributes)
        case [dict(), *_]:
            for number, item in enumerate(value):
                _flatten(f"{key}.{number}", item, attributes)
        case float() if value.is_integer() and ".token_count." in key:
            attributes[key] = int(value)  # a column with missing values is of floating-point numbers
        case _:
            attributes[key] = value


def _without_nulls(value: Any) -> Any:
    """Return a value without the members that a table adds, because other rows have them."""
    match value:
        case dict():
            return {key: _without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [_without_nulls(item) for item in value]
    return value


def _event(event: Mapping[str, Any]) -> Attributes:
    attributes: Attributes = {}
    for key, value in plain.json_object(event.get("attributes"), "attributes of an event").items():
        _flatten(key, value, attributes)
    return {
        "name": plain.text(event.get("name"), "name of an event"),
        "time_ns": plain.time_ns(event.get("timestamp"), "timestamp of an event"),
        "attributes": attributes,
    }
