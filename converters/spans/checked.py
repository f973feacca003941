"""Checks of the observations by other packages' dialects; our own are checked by mypy and by tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

import orjson

from spangrade.converters.spans.observation import (
    TYPES,
    Digests,
    MessageCall,
    MessageExchange,
    Notes,
    Observation,
    SessionContext,
    SpanFailure,
    SpanRef,
    TokenCounts,
    ToolResult,
    changed,
)
from spangrade.tracer.base.canonical_json import json_value
from spangrade.tracer.span import Span

_KINDS = tuple(dict.fromkeys(TYPES.values()))
_GROUPS = (SpanRef, SessionContext, Notes, SpanFailure, MessageExchange, TokenCounts)


def _classes(record: type[Any]) -> Mapping[str, tuple[type[Any], ...]]:
    """Return the classes of the values of each field."""
    return {
        name: (get_origin(hint),)
        if get_origin(hint) in (tuple, frozenset)
        else tuple(get_origin(option) or option for option in (get_args(hint) or (hint,)))
        for name, hint in get_type_hints(record).items()
    }


_CLASSES = {record: _classes(record) for record in (*_KINDS, *_GROUPS)}
_RECORDS = (MessageCall, ToolResult, Digests)
_INTEGERS = range(-(2**63), 2**63)
_COUNTS = range(2**63)


def checked(observation: object, span: Span) -> Observation:
    """Return an observation; raise TypeError or ValueError if it is not one, or a field is wrong."""
    if not isinstance(observation, _KINDS):
        raise TypeError(f"expected an Observation, got a value of type {type(observation).__name__}")
    if observation.span[:2] != (span.trace_id, span.span_id):
        raise ValueError("the observation has the ids of another span")
    fields = dict(_checked_fields(observation))
    records = [
        *fields.get("tool_calls", ()),
        *fields.get("repeated_calls", ()),
        *fields.get("tool_results", ()),
    ]
    records += [fields["digests"]] if fields.get("digests") else []
    records += [record.result for record in records if isinstance(record, MessageCall) and record.result]
    for record in records:
        texts = record if isinstance(record, Digests) else record[:3]
        if not isinstance(record, _RECORDS) or not all(isinstance(field, str | None) for field in texts):
            raise TypeError(f"expected a record of texts, got {record!r:.80}")
    results = [record for record in records if isinstance(record, ToolResult)]
    if not all(isinstance(result.failed, bool | None) for result in results):
        raise TypeError("expected the mark of a tool's result as true, false or None")
    lists = (
        *fields["tags"],
        *fields["prompts"],
        *fields["session_candidates"],
        *fields.get("unread", ()),
    )
    if not all(type(one) is str for one in lists):
        raise TypeError("expected tags, prompts, candidates and types as texts")
    for text in (*fields.values(), *lists, *(field for record in records for field in record)):
        if isinstance(text, str):
            text.encode()  # half a surrogate pair cannot be stored
    for name in ("arguments", "result", "tool_declarations"):
        for value in (fields.get(name), *(getattr(record, name, None) for record in records)):
            if isinstance(value, str):
                orjson.loads(value)
    # Plain values: another process may get them.
    state = tuple((time_ns, json_value(variables)) for time_ns, variables in fields["state"])
    if not all(type(time_ns) is int and isinstance(variables, dict) for time_ns, variables in state):
        raise TypeError("expected state as (time in ns, variables)")
    return changed(observation, state=state)


def _checked_fields(record: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an observation, and of its groups; raise if one has a value of another type."""
    for name, classes in _CLASSES[type(record)].items():
        value = getattr(record, name)
        if type(value) not in classes:
            raise TypeError(f"{name} is of type {type(value).__name__}")
        if type(value) is int and value not in (_INTEGERS if name.endswith("_ns") else _COUNTS):
            raise ValueError(f"{name} is out of range")
        if isinstance(value, _GROUPS):
            yield from _checked_fields(value)
        elif name != "traits":
            yield name, value
