"""A dialect that needs no Python: the names of a vendor's attributes, from the settings of a project."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from spangrade.converters.spans import provider_values, run_io
from spangrade.converters.spans.dialect import Attributes, Dialect, Signs
from spangrade.converters.spans.observation import Kind, ModelCall, Observation, RunSpan, ToolUse, changed
from spangrade.converters.spans.structure import kind_in_word
from spangrade.converters.spans.values import count, json_text, parse_json
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_KINDS: Mapping[str, Kind] = {"agent": "agent", "llm": "llm", "tool": "tool", "workflow": "workflow"}


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
    return Dialect(
        name=vendor.name,
        signs=Signs(scopes=frozenset(vendor.scopes), attributes=frozenset(vendor.attributes)),
        kind=lambda _, attributes: _kind(vendor, attributes),
        values=partial(_values, vendor),
        fixes={
            "llm": partial(_with_tokens, vendor),
            "tool": _with_arguments,
            "agent": partial(_run, vendor),
            "workflow": partial(_run, vendor),
        },
    )


def _values(vendor: Vendor, span: Span, attributes: Attributes, kind: Kind | None) -> Attributes:
    """Return the values of a vendor's attributes, under the conventions' names."""
    session = _given(attributes, semconv.CONVERSATION_ID, vendor.session_id)
    if kind is None:
        return session
    own = {
        **session,
        **_given(attributes, semconv.AGENT_NAME, vendor.agent_name),
        **_given(attributes, semconv.REQUEST_MODEL, vendor.model),
        **_given(attributes, semconv.TOOL_NAME, vendor.tool_name),
        **_given(attributes, semconv.TOOL_CALL_ID, vendor.call_id),
    }
    if kind == "llm":
        exchange = provider_values.exchange(*_io(vendor, attributes))
        own |= {name: messages for name, messages in exchange.items() if messages}
    elif kind == "tool":
        own.setdefault(semconv.TOOL_NAME, span.name)
        own |= _given(attributes, semconv.TOOL_CALL_ARGUMENTS, vendor.arguments, vendor.input)
        own |= _given(attributes, semconv.TOOL_CALL_RESULT, vendor.result, vendor.output)
    elif kind == "agent" and semconv.AGENT_NAME not in attributes:
        own.setdefault(semconv.AGENT_NAME, span.name)
    return own


def _given(attributes: Attributes, name: str, *own: str | None) -> dict[str, Any]:
    """Return the first of a vendor's attributes that a span has, under a name of the conventions."""
    return next(({name: attributes[key]} for key in own if key is not None and key in attributes), {})


def _io(vendor: Vendor, attributes: Attributes) -> tuple[Any, Any]:
    given, returned = (parse_json(attributes.get(key or "")) for key in (vendor.input, vendor.output))
    return given, returned


def _with_tokens(
    vendor: Vendor, observation: ModelCall | RunSpan, _: Span, attributes: Attributes
) -> ModelCall | RunSpan:
    names = (("input_tokens", vendor.input_tokens), ("output_tokens", vendor.output_tokens))
    counts = {field: count(attributes.get(key or "")) for field, key in names}
    return changed(observation, **{field: number for field, number in counts.items() if number is not None})


def _with_arguments(call: ToolUse, _: Span, __: Attributes) -> ToolUse:
    arguments = run_io.arguments(parse_json(call.arguments))
    return call if arguments is None else call._replace(arguments=json_text(arguments))


def _run(vendor: Vendor, run: RunSpan, span: Span, attributes: Attributes) -> Observation:
    given, returned = _io(vendor, attributes)
    run = run._replace(
        run_input=run_io.user_input(given, topmost=True), run_output=run_io.response(returned, topmost=True)
    )
    return _with_tokens(vendor, run, span, attributes)


def _kind(vendor: Vendor, attributes: Mapping[str, Any]) -> Kind | None:
    """Return the kind that a vendor's attribute gives a span; without it, that of its other attributes."""
    value = attributes.get(vendor.kind or "")
    word = _KINDS.get(dict(vendor.kinds).get(str(value), "")) if value is not None else None
    if word is None and value is not None:
        word = kind_in_word(value)
    if word is None and value is None and vendor.kind is None:
        shows: tuple[tuple[str | None, Kind], ...] = (
            (vendor.tool_name, "tool"),
            (vendor.model, "llm"),
            (vendor.agent_name, "agent"),
        )
        word = next((kind for key, kind in shows if key is not None and key in attributes), None)
    return word
