"""A dialect that needs no Python: the names of a vendor's attributes, from the settings of a project."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from spangrade.converters.spans.agents import without_operation
from spangrade.converters.spans.dialect import Attributes, Dialect, Signs
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.structure import kind_in_word
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_KINDS: Mapping[str, Kind] = {"agent": "agent", "llm": "llm", "tool": "tool", "workflow": "workflow"}
# The conventions' names by the fields of a `Vendor`, and those of spans of which it tells no kind.
_OF_ANY_KIND = {
    "session_id": semconv.CONVERSATION_ID,
    "input_tokens": semconv.INPUT_TOKENS,
    "output_tokens": semconv.OUTPUT_TOKENS,
}
_FIELDS = {
    **_OF_ANY_KIND,
    "agent_name": semconv.AGENT_NAME,
    "model": semconv.REQUEST_MODEL,
    "tool_name": semconv.TOOL_NAME,
    "call_id": semconv.TOOL_CALL_ID,
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
    return Dialect(
        name=vendor.name,
        signs=Signs(scopes=frozenset(vendor.scopes), attributes=frozenset(vendor.attributes)),
        kind=lambda _, attributes: _kind(vendor, attributes),
        inputs=tuple(filter(None, (vendor.arguments, vendor.input))),
        outputs=tuple(filter(None, (vendor.result, vendor.output))),
        values=partial(_values, vendor),
    )


def _values(vendor: Vendor, span: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    """Return the values of a vendor's attributes, under the conventions' names."""
    fields = _FIELDS if kind is not None else _OF_ANY_KIND
    own = {
        name: attributes[key]
        for field, name in fields.items()
        if (key := getattr(vendor, field)) in attributes
    }
    if kind == "tool":
        own.setdefault(semconv.TOOL_NAME, without_operation(span.name))
    elif kind == "agent" and semconv.AGENT_NAME not in attributes:
        own.setdefault(semconv.AGENT_NAME, without_operation(span.name))
    return own


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
