"""The settings of a database that decide how its spans are read, and those that a project configures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.derive.not_understood import ignored_scopes, set_ignored_scopes
from spangrade.evaluator.derive.own_dialects import own_dialects, set_own_dialects
from spangrade.evaluator.derive.price_overrides import OwnPrice, own_prices, set_own_prices
from spangrade.evaluator.derive.session_from import session_from
from spangrade.tracer.store import Store

if TYPE_CHECKING:  # to import it takes a process that reads spans 15 ms
    from spangrade.tracer import settings as project


class Settings(NamedTuple):
    """The settings of a database that decide how spans are read.

    `session_from` are the attributes that hold a session's id; spans that were not understood are not counted
    in the `ignored_scopes`; `prices` come before those of `genai-prices`, `dialects` before installed ones.
    """

    session_from: tuple[str, ...] = ()
    ignored_scopes: frozenset[str] = frozenset()
    prices: tuple[OwnPrice, ...] = ()
    dialects: tuple[Vendor, ...] = ()


NO_SETTINGS = Settings()


class Configured(NamedTuple):
    """A project's values of these settings; where one is None, the database keeps its own.

    `redact` is what is taken out of spans before they are stored, as `$SPANGRADE_REDACT` has it.
    """

    ignored_scopes: frozenset[str] | None = None
    prices: tuple[OwnPrice, ...] | None = None
    dialects: tuple[Vendor, ...] | None = None
    redact: str | None = None

    @classmethod
    def of(cls, settings: project.AgentSettings) -> Self:
        """Return what the settings of a project configure."""
        scopes, prices, dialects = settings.ignore_scopes, settings.prices, settings.dialects
        return cls(
            None if scopes is None else frozenset(scopes),
            None if prices is None else tuple(map(_own_price, prices)),
            None if dialects is None else tuple(map(_vendor, dialects)),
            None if settings.redaction.mode == "off" else settings.redaction.text,
        )


NOT_CONFIGURED = Configured()


def _own_price(price: project.PriceOverride) -> OwnPrice:
    per_input = price.input_per_million
    cached, written = price.cached_input_per_million, price.cache_write_per_million
    return OwnPrice(
        price.model,
        per_input,
        price.output_per_million,
        per_input if cached is None else cached,
        per_input if written is None else written,
    )


def _vendor(dialect: project.DialectSettings) -> Vendor:
    values = dialect.model_dump()
    lists = {name: tuple(values[name]) for name in ("scopes", "attributes")}
    return Vendor(**{**values, **lists, "kinds": tuple(values["kinds"].items())})


def settings_of(store: Store) -> Settings:
    """Return the settings of a database."""
    return Settings(session_from(store), ignored_scopes(store), own_prices(store), own_dialects(store))


def differs(store: Store, configured: Configured) -> bool:
    """Return whether a database has other settings than those configured."""
    scopes, prices, dialects, _ = configured
    return (
        (scopes is not None and scopes != ignored_scopes(store))
        or (prices is not None and prices != own_prices(store))
        or (dialects is not None and dialects != own_dialects(store))
    )


def apply(store: Store, configured: Configured) -> None:
    """Give a database the settings configured; if they change, all is derived again."""
    if configured.ignored_scopes is not None:
        set_ignored_scopes(store, configured.ignored_scopes)
    if configured.prices is not None:
        set_own_prices(store, configured.prices)
    if configured.dialects is not None:
        set_own_dialects(store, configured.dialects)
