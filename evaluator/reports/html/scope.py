"""The header's filters: which sessions the pages are about, in the address of each page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from spangrade.evaluator.reports.html.filters import SessionFilter, session_filter
from spangrade.evaluator.results.origin import OriginFilter, listed_origin
from spangrade.tracer.store import Store

# As parameters of an address, with what the header calls them.
SCOPE = {
    "origin": "Origin",
    "agent": "Agent",
    "service": "Service",
    "version": "Version",
    "since": "Since",
    "until": "Until",
}


class Scope(NamedTuple):
    """The sessions that a page is about.

    Attributes:
        given: the header's filters that the address has, as texts.
        origin: the origin of the sessions: production where there is some, unless the address has another.
    """

    given: Mapping[str, str]
    origin: OriginFilter

    @property
    def filters(self) -> dict[str, str]:
        """The filters of the list that leave these sessions."""
        return {**self.given, "origin": str(self.origin)}

    def sessions(self, only: Collection[str] | None = None, *without: str) -> SessionFilter:
        """Return the condition on these sessions, of those of the ids `only`, without some filters."""
        filters = {name: text for name, text in self.filters.items() if name not in without}
        return session_filter(filters, only)

    def values(self) -> dict[str, Any]:
        """Return what the header of a page of these sessions needs."""
        return {
            "scope": dict(self.given),
            "scoped": SCOPE,
            "origins": tuple(map(str, OriginFilter)),
            "origin": self.origin,
            "elsewhere": False,
        }


def scope_of(store: Store, texts: Mapping[str, str]) -> Scope:
    """Return the scope in the parameters of a URL. Raises InputError for an origin that there is not."""
    given = given_scope(texts)
    return Scope(given, listed_origin(store, given.get("origin")))


def given_scope(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the header's filters in the parameters of a URL."""
    return {name: text for name in SCOPE if (text := texts.get(name, "")).strip()}


def header_elsewhere(given: Mapping[str, str]) -> dict[str, Any]:
    """Return what the header of a page needs whose content does not depend on the filters: they lead away."""
    return {
        "scope": dict(given),
        "scoped": SCOPE,
        "origins": ("", *map(str, OriginFilter)),
        "origin": given.get("origin", ""),
        "elsewhere": True,
    }
