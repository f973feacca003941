"""Checks of what the dialects of other packages return; our own are checked by mypy and by tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import orjson

from spangrade.converters.spans.observation import Digests, MessageCall, ToolResult
from spangrade.converters.spans.reading import Reading
from spangrade.tracer.canonical_json import json_value
from spangrade.tracer.span import Span

_HINTS = get_type_hints(Reading)
_KINDS = get_args(_HINTS.pop("kind"))
# The classes of each field's values.
_CLASSES = {
    name: tuple(get_origin(option) or option for option in (get_args(hint) or (hint,)))
    if get_origin(hint) is not tuple
    else (tuple,)
    for name, hint in _HINTS.items()
}
_RECORDS = (MessageCall, ToolResult, Digests)
_INTEGERS = range(-(2**63), 2**63)
_COUNTS = range(2**63)


def checked(reading: object, span: Span) -> Reading:
    """Return a span's reading; raise TypeError or ValueError if it is not one, or a value is wrong."""
    if not isinstance(reading, Reading):
        raise TypeError(f"expected a Reading, got a value of type {type(reading).__name__}")
    if (reading.trace_id, reading.span_id) != (span.trace_id, span.span_id):
        raise ValueError("the reading has the ids of another span")
    if reading.kind not in _KINDS:
        raise ValueError(f"the kind is {reading.kind!r:.80}; expected one of {', '.join(_KINDS)}")
    for name, classes in _CLASSES.items():
        value = getattr(reading, name)
        if type(value) not in classes:
            raise TypeError(f"{name} is of type {type(value).__name__}")
        if type(value) is int and value not in (_INTEGERS if name.endswith("_ns") else _COUNTS):
            raise ValueError(f"{name} is out of range")
    digests = (reading.digests,) if reading.digests else ()
    for record in (
        *reading.tool_calls,
        *reading.repeated_calls,
        *reading.tool_results,
        *digests,
    ):
        fields = record[:3] if isinstance(record, ToolResult) else record
        if not isinstance(record, _RECORDS) or not all(isinstance(field, str | None) for field in fields):
            raise TypeError(f"expected a record of texts, got {record!r:.80}")
    if not all(isinstance(result.failed, bool | None) for result in reading.tool_results):
        raise TypeError("expected the mark of a tool's result as true, false or None")
    if not all(type(one) is str for one in (*reading.tags, *reading.prompts, *reading.session_candidates)):
        raise TypeError("expected tags, prompts and candidates as texts")
    # Plain values: another process may get them.
    state = tuple((time_ns, json_value(variables)) for time_ns, variables in reading.state)
    if not all(type(time_ns) is int and isinstance(variables, dict) for time_ns, variables in state):
        raise TypeError("expected state as (time in ns, variables)")
    for text in _json_texts(reading):
        orjson.loads(text)
    for text in _texts(reading):
        text.encode()  # half a surrogate pair cannot be stored
    return reading._replace(state=state)


def _json_texts(reading: Reading) -> Iterator[str]:
    calls = (call.arguments for call in reading.tool_calls)
    results = (result.result for result in reading.tool_results)
    for text in (reading.arguments, reading.result, reading.tool_declarations, *calls, *results):
        if text is not None:
            yield text


def _texts(reading: Reading) -> Iterator[str]:
    records: tuple[tuple[Any, ...], ...] = (reading, *reading.tool_calls, *reading.tool_results)
    for record in (*records, reading.digests or (), reading.tags):
        yield from (field for field in record if isinstance(field, str))
