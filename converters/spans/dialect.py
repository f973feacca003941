"""A dialect: how the spans of one family of instrumentations are found and read, as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.reading import Reading
from spangrade.tracer.span import LogRecord, Span

Read = Callable[[Span, Sequence[LogRecord]], Reading]
_NO_SCOPES: Mapping[str, Advice] = MappingProxyType({})


class Signs(NamedTuple):
    """What the spans of a dialect have: each has at least one of these scopes, attributes or names.

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
    """How the spans of one family of instrumentations are found and read, and what they can record more.

    - `read` returns what a span records, given the log records of the same trace id and span id.
    - `signs` are what its spans have, None for any span; `only_if` is a further condition.
    - `before` are the dialects that it comes before, where both could read a span: it knows more of it.
    - `repeats_calls`: whether spans that are model calls by the conventions repeat others, and are none.
    - `advice` are the stack's settings that record more; `advice_by_scope` are those of instrumentations
      whose spans it reads, by the beginning of their scope's name.
    """

    name: str
    read: Read
    signs: Signs | None = None
    only_if: Callable[[Span], bool] | None = None
    before: tuple[str, ...] = ()
    repeats_calls: bool = False
    advice: Advice | None = None
    advice_by_scope: Mapping[str, Advice] = _NO_SCOPES

    def claims(self, span: Span) -> bool:
        """Return whether this dialect reads a span."""
        return (self.signs is None or self.signs.are_on(span)) and (
            self.only_if is None or self.only_if(span)
        )
