"""The signs of a dialect's spans, by which the registry finds a span's dialect without trying them all."""

from __future__ import annotations

from typing import NamedTuple

from spangrade.tracer.span import Span


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
