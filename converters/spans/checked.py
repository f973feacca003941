"""Checks of what the dialects of other packages return; our own are checked by mypy and by tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

import orjson

from spangrade.converters.spans.observation import Digests, MessageCall, Observation, ToolResult
from spangrade.tracer.span import Span

_HINTS = get_type_hints(Observation)
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


def checked(observation: object, span: Span) -> Observation:
    """Return a span's observation; raise TypeError or ValueError if it is not one, or a value is wrong."""
    if not isinstance(observation, Observation):
        raise TypeError(f"expected an Observation, got a value of type {type(observation).__name__}")
    if (observation.trace_id, observation.span_id) != (span.trace_id, span.span_id):
        raise ValueError("the observation has the ids of another span")
    if observation.kind not in _KINDS:
        raise ValueError(f"the kind is {observation.kind!r:.80}; expected one of {', '.join(_KINDS)}")
    for name, classes in _CLASSES.items():
        value = getattr(observation, name)
        if type(value) not in classes:
            raise TypeError(f"{name} is of type {type(value).__name__}")
        if type(value) is int and value not in (_INTEGERS if name.endswith("_ns") else _COUNTS):
            raise ValueError(f"{name} is out of range")
    digests = (observation.digests,) if observation.digests else ()
    for record in (
        *observation.tool_calls,
        *observation.repeated_calls,
        *observation.tool_results,
        *digests,
    ):
        fields = record[:3] if isinstance(record, ToolResult) else record
        if not isinstance(record, _RECORDS) or not all(isinstance(field, str | None) for field in fields):
            raise TypeError(f"expected a record of texts, got {record!r:.80}")
    if not all(isinstance(result.failed, bool | None) for result in observation.tool_results):
        raise TypeError("expected the mark of a tool's result as true, false or None")
    if not all(type(tag) is str for tag in observation.tags):
        raise TypeError("expected tags as texts")
    for time_ns, variables in observation.state:
        if type(time_ns) is not int or not isinstance(variables, Mapping):
            raise TypeError("expected state as (time in ns, variables)")
    for text in _json_texts(observation):
        orjson.loads(text)
    for text in _texts(observation):
        text.encode()  # half a surrogate pair cannot be stored
    return observation


def _json_texts(observation: Observation) -> Iterator[str]:
    calls = (call.arguments for call in observation.tool_calls)
    results = (result.result for result in observation.tool_results)
    for text in (observation.arguments, observation.result, observation.tool_declarations, *calls, *results):
        if text is not None:
            yield text


def _texts(observation: Observation) -> Iterator[str]:
    records: tuple[tuple[Any, ...], ...] = (observation, *observation.tool_calls, *observation.tool_results)
    for record in (*records, observation.digests or (), observation.tags):
        yield from (field for field in record if isinstance(field, str))
