"""A dialect: how the spans of one family of instrumentations are found and read, as a value.

It is its difference from the conventions: what its spans call otherwise, how their kind is told, and what is
left to be changed in the observation of a kind. `genai.reader` makes what reads a span of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from spangrade.converters.spans.observation import Kind, Observation, changed
from spangrade.tracer.frameworks import GENAI
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import LogRecord, Span

Attributes: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[Span, Sequence[LogRecord]], Observation]
KindOf: TypeAlias = Callable[[Span, Attributes], Kind | None]
# Returns attributes under the conventions' names, given a span, its attributes and its kind.
Values: TypeAlias = Callable[[Span, Attributes, Kind | None], Attributes]
# Changes an observation of one kind, given its span and its attributes.
Fix: TypeAlias = Callable[[Any, Span, Attributes], Observation]
_NONE: Mapping[Any, Any] = MappingProxyType({})


class Advice(NamedTuple):
    """The settings of one stack, which `name` names.

    `content` records messages, arguments and results, `replies` the agent's answers where that is another
    setting, `conversation` the conversation's id, `agents` their
    names, `tools` a span per tool call, `model_calls` a span per model call, `tokens` their counts, `state`
    the state variables.

    Each setting is documented by its stack, or is in its source: docs/reading.md has the links. Where a stack
    has None, it has no setting: it records that always, or it cannot. The settings stand in the dialects.
    """

    name: str
    content: str | None = None
    replies: str | None = None
    conversation: str | None = None
    agents: str | None = None
    tools: str | None = None
    model_calls: str | None = None
    tokens: str | None = None
    state: str | None = None


STREAMED = 'ask for usage in streamed answers: stream_options={"include_usage": True}'
GENAI_CONTENT = (
    f"set {GENAI.settings} (older instrumentations: {CAPTURE_CONTENT_VARIABLE}=true, and import the logs too)"
)
OPENAI_TRACES = "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA=0"
CLIENT = Advice(
    name="a client of a model's API",
    content=GENAI_CONTENT,
    conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
    agents="run each agent in spangrade.agent(NAME), or record gen_ai.agent.name on a span around it",
    tools="run each tool in spangrade.tool(NAME), or record an execute_tool span around it",
    tokens=STREAMED,
)


class Signs(NamedTuple):
    """The signs of a dialect: each of its spans has at least one of these scopes, attributes or names.

    `scope_prefixes` and `name_prefixes` are beginnings of the names of scopes and spans.
    """

    scopes: frozenset[str] = frozenset()
    scope_prefixes: tuple[str, ...] = ()
    attributes: frozenset[str] = frozenset()
    name_prefixes: tuple[str, ...] = ()

    def are_on(self, span: Span) -> bool:
        """Return whether a span has one of the signs."""
        scope = span.scope_name or ""
        return (
            scope in self.scopes
            or scope.startswith(self.scope_prefixes)
            or not self.attributes.isdisjoint(span.attributes)
            or span.name.startswith(self.name_prefixes)
        )


class Dialect(NamedTuple):
    """How the spans of one family of instrumentations are found and read, and the settings to record more.

    - `read`, where its tables are not enough, returns what a span records, given the log records of its ids.
    - `signs` are what its spans have, None for any span; `only_if` is a further condition.
    - `names` are the conventions' names for attributes that its spans have under others; an attribute of the
      conventions' own name comes first.
    - `kind` tells a span's kind; None, or where it returns None, for that of the conventions.
    - `inputs` and `outputs` are attributes with what a span was given and what it returned, by its kind: the
      messages of a model, the arguments and the result of a tool, the user's message and the reply of a run.
      The first that a span has counts.
    - `named_by_span` are the kinds whose spans have the name of their agent or tool.
    - `values` are attributes under the conventions' names that take more than another name.
    - `fixes` change the observation of a kind, or, under None and before those, that of any.
    - `alone` tells whether only what `names` and `values` give is read, and nothing else by the conventions:
      `kind` then tells the kind of every span.
    - `before` are the dialects that it comes before, where both could read a span: it knows more of it.
    - `repeats_calls`: whether spans that are model calls by the conventions repeat others, and are none.
    - `advice` are the stack's settings that record more; `advice_by_scope` are those of instrumentations
      whose spans it reads, by the beginning of their scope's name.
    """

    name: str
    read: Read | None = None
    signs: Signs | None = None
    only_if: Callable[[Span], bool] | None = None
    names: Mapping[str, str] = _NONE
    kind: KindOf | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    named_by_span: frozenset[Kind] = frozenset()
    values: Values | None = None
    fixes: Mapping[Kind | None, Fix] = _NONE
    alone: bool = False
    before: tuple[str, ...] = ()
    repeats_calls: bool = False
    advice: Advice | None = None
    advice_by_scope: Mapping[str, Advice] = _NONE

    def claims(self, span: Span) -> bool:
        """Return whether this dialect reads a span."""
        return (self.signs is None or self.signs.are_on(span)) and (
            self.only_if is None or self.only_if(span)
        )


def kind_by(attribute: str, kinds: Mapping[str | None, Kind], default: Kind | None = None) -> KindOf:
    """Return a function from a span to its kind, by the word in an attribute; `default` for other words."""

    def kind(span: Span, attributes: Attributes) -> Kind | None:  # noqa: ARG001
        word = attributes.get(attribute)
        return kinds.get(word, default) if isinstance(word, str | None) else default

    return kind


def failing(attribute: str, word: str) -> Fix:
    """Return a fix by which an observation is one of a failure where an attribute has this word."""

    def fix(observation: Observation, _: Span, attributes: Attributes) -> Observation:
        return changed(observation, failed=True) if attributes.get(attribute) == word else observation

    return fix


def renaming(names: Mapping[str, str]) -> Callable[[Attributes], dict[str, Any]]:
    """Return a function that renames attributes to the conventions' names, unless these are there."""
    known = frozenset(names)

    @lru_cache(maxsize=1024)
    def pairs(present: frozenset[str]) -> tuple[tuple[str, str], ...]:
        return tuple((own, name) for own, name in names.items() if own in present)

    def renamed(attributes: Attributes) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for own, name in pairs(known.intersection(attributes)):
            if name not in attributes and name not in given:
                given[name] = attributes[own]
        return given

    return renamed
