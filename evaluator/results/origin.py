"""Which sessions count by their origin: production, unless another origin is requested."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from spangrade.tracer.base.fields import FieldError

if TYPE_CHECKING:
    from spangrade.tracer.store import Store


class OriginFilter(StrEnum):
    """An origin of sessions, or any."""

    PRODUCTION = "production"
    RUN = "run"
    SIMULATED = "simulated"
    TEST = "test"
    DRILL = "drill"
    REPLAY = "replay"
    ANY = "any"


_Enum = TypeVar("_Enum", bound=StrEnum)


def one_of(kind: type[_Enum], value: str, name: str) -> _Enum:
    """Return the member of an enumeration with a value. Raises FieldError, of `name`, if there is none."""
    try:
        return kind(value)
    except ValueError:
        raise FieldError(name, f"expected one of {', '.join(kind)}, found {value!r}") from None


def origin_filter(origin: str, name: str = "origin") -> OriginFilter:
    """Return an origin as a filter. Raises FieldError, of the field `name`, if there is no such origin."""
    return one_of(OriginFilter, origin, name)


def origin_condition(origin: str) -> str:
    """Return the condition on the column `origin`, in SQL. Raises FieldError if there is no such origin."""
    chosen = origin_filter(origin)
    return "true" if chosen is OriginFilter.ANY else f"origin = '{chosen}'"


def listed_origin(store: Store, origin: str | None) -> OriginFilter:
    """Return the origin of the sessions that a list shows.

    Unless one is asked for it is production, or any as long as the database has no production sessions.
    """
    if origin is not None:
        return origin_filter(origin)
    found = store.query("SELECT 1 FROM derived.sessions WHERE origin = 'production' LIMIT 1")
    return OriginFilter.PRODUCTION if found else OriginFilter.ANY


def counts_by_origin(store: Store) -> dict[str, int]:
    """Return how many sessions there are of each origin that has any, in the order of `OriginFilter`."""
    found = dict(store.query("SELECT origin, count(*) FROM derived.sessions GROUP BY origin"))
    return {origin: found[origin] for origin in map(str, OriginFilter) if origin in found}


def left_out_origins(store: Store, origin: OriginFilter) -> dict[str, int]:
    """Return how many sessions there are of each origin that a filter leaves out."""
    if origin is OriginFilter.ANY:
        return {}
    return {one: number for one, number in counts_by_origin(store).items() if one != origin}
