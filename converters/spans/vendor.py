"""A dialect that needs no Python: the names of a vendor's attributes, from the settings of a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from spangrade.converters.spans import provider_values, run_io
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.structure import kind_in_word
from spangrade.converters.spans.values import count, json_text, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_KINDS: dict[str, tuple[Kind, str]] = {
    "agent": ("agent", semconv.INVOKE_AGENT),
    "llm": ("llm", semconv.CHAT),
    "tool": ("tool", semconv.EXECUTE_TOOL),
    "workflow": ("workflow", semconv.INVOKE_WORKFLOW),
}


class Vendor(NamedTuple):
    """The names of a vendor's attributes; None where its spans follow the conventions, or have none.

    Its spans are those of the `scopes`, or with one of the `attributes`. `kind` is the attribute for a span's
    kind, `kinds` what its values mean: pairs of a value and `agent`, `llm`, `tool` or `workflow`. Values that
    are not in it, and are a known word (see `structure`), mean that.
    """

    name: str
    scopes: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    kind: str | None = None
    kinds: tuple[tuple[str, str], ...] = ()
    session_id: str | None = None
    agent_name: str | None = None
    model: str | None = None
    input: str | None = None
    output: str | None = None
    tool_name: str | None = None
    arguments: str | None = None
    result: str | None = None
    call_id: str | None = None
    input_tokens: str | None = None
    output_tokens: str | None = None


def dialect_of_vendor(vendor: Vendor) -> Dialect:
    """Return the dialect that reads a vendor's spans."""
    signs = Signs(scopes=frozenset(vendor.scopes), attributes=frozenset(vendor.attributes))
    return Dialect(vendor.name, partial(_read, vendor), signs)


def _read(vendor: Vendor, span: Span, logs: Sequence[LogRecord]) -> Reading:
    attributes = with_events(span, logs)
    kind = _kind(vendor, attributes)
    if kind is None:
        return _with_session(vendor, attributes, genai.read_attributes(span, attributes))
    named = {
        semconv.CONVERSATION_ID: vendor.session_id,
        semconv.AGENT_NAME: vendor.agent_name,
        semconv.REQUEST_MODEL: vendor.model,
        semconv.TOOL_NAME: vendor.tool_name,
        semconv.TOOL_CALL_ID: vendor.call_id,
    }
    own: dict[str, Any] = {semconv.OPERATION_NAME: _KINDS[kind][1]}
    own |= {name: attributes[key] for name, key in named.items() if key is not None and key in attributes}
    given, returned = (parse_json(attributes.get(key or "")) for key in (vendor.input, vendor.output))
    if kind == "llm":
        own |= _found({semconv.INPUT_MESSAGES: provider_values.request_messages(given)})
        own |= _found({semconv.OUTPUT_MESSAGES: provider_values.response_messages(returned)})
    elif kind == "tool":
        own.setdefault(semconv.TOOL_NAME, span.name)
        own |= _given(attributes, {semconv.TOOL_CALL_ARGUMENTS: (vendor.arguments, vendor.input)})
        own |= _given(attributes, {semconv.TOOL_CALL_RESULT: (vendor.result, vendor.output)})
    elif kind == "agent" and semconv.AGENT_NAME not in attributes:
        own.setdefault(semconv.AGENT_NAME, span.name)
    observation = genai.read_attributes(span, {**attributes, **own})
    changes: dict[str, Any] = {}
    for field, key in (("input_tokens", vendor.input_tokens), ("output_tokens", vendor.output_tokens)):
        if kind != "tool" and key is not None and (number := count(attributes.get(key))) is not None:
            changes[field] = number
    if kind == "tool" and (arguments := run_io.arguments(parse_json(observation.arguments))) is not None:
        changes["arguments"] = json_text(arguments)
    if kind in {"agent", "workflow"}:
        changes["run_input"] = run_io.user_input(given, topmost=True)
        changes["run_output"] = run_io.response(returned, topmost=True)
    return observation._replace(**changes)


def _kind(vendor: Vendor, attributes: Mapping[str, Any]) -> str | None:
    """Return the kind that a vendor's attribute gives a span; without it, what the span's other ones show."""
    value = attributes.get(vendor.kind or "")
    word = dict(vendor.kinds).get(str(value)) if value is not None else None
    if word is None and value is not None:
        word = kind_in_word(value)
    if word is None and value is None and vendor.kind is None:
        shows = ((vendor.tool_name, "tool"), (vendor.model, "llm"), (vendor.agent_name, "agent"))
        word = next((kind for key, kind in shows if key is not None and key in attributes), None)
    return word


def _with_session(vendor: Vendor, attributes: Mapping[str, Any], observation: Reading) -> Reading:
    session_id = text(attributes.get(vendor.session_id or ""))
    return observation._replace(conversation_id=session_id or observation.conversation_id)


def _found(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _given(attributes: Mapping[str, Any], names: Mapping[str, Sequence[str | None]]) -> dict[str, Any]:
    """Return the first of the attributes of each name that a span has."""
    return {
        name: attributes[key]
        for name, keys in names.items()
        if (key := next((key for key in keys if key is not None and key in attributes), None)) is not None
    }
