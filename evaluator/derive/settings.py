"""The settings of a database that decide how its spans are read, and those that a project configures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import nanoarrow as na
import orjson

from spangrade.converters.spans.values import known
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.derive.cost import OwnPrice
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows, sql_types
from spangrade.tracer.store.untrusted import column_types

if TYPE_CHECKING:  # to import it takes a process that reads spans 15 ms
    from spangrade.tracer.base import settings as project


_INTEGER, _TEXT, _NUMBER = na.int64(), na.string(), na.float64()
# The tables of settings, in the order of the fields of `Settings`. The first price of a model counts.
_TABLES: Mapping[str, dict[str, na.Schema]] = {
    "session_from": {"position": _INTEGER, "attribute": _TEXT},
    "ignored_scopes": {"scope": _TEXT},
    "own_prices": {
        "position": _INTEGER,
        "model": _TEXT,
        **dict.fromkeys(("input", "output", "cached", "written"), _NUMBER),
    },
    "own_dialects": {"position": _INTEGER, "definition": _TEXT},
}


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

    def over(self, settings: Settings) -> Settings:
        """Return settings with those that are configured."""
        given = {"ignored_scopes": self.ignored_scopes, "prices": self.prices, "dialects": self.dialects}
        return settings._replace(**known(given))


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
    if store.known is None:
        return _read(store)
    if "settings" not in store.known:
        store.known["settings"] = _read(store)
    settings: Settings = store.known["settings"]
    return settings


def _read(store: Store) -> Settings:
    session_from, scopes, prices, dialects = (_stored(store, table) for table in _TABLES)
    return Settings(
        tuple(name for _, name in session_from),
        frozenset(scope for (scope,) in scopes),
        tuple(OwnPrice(*price) for _, *price in prices),
        tuple(_stored_vendor(orjson.loads(definition)) for _, definition in dialects),
    )


def differs(store: Store, configured: Configured) -> bool:
    """Return whether a database has other settings than those configured."""
    return (stored := settings_of(store)) != configured.over(stored)


def apply(store: Store, configured: Configured) -> None:
    """Give a database the settings configured; if they change, all is derived again."""
    if any(value is not None for value in configured[:3]):
        _change(store, configured.over(settings_of(store)))


def set_session_from(store: Store, attributes: Iterable[str]) -> None:
    """Set the names of the attributes that hold a session's id; if they change, all is derived again."""
    _change(store, settings_of(store)._replace(session_from=tuple(dict.fromkeys(attributes))))


def _change(store: Store, settings: Settings) -> None:
    if store.known is not None:
        store.known.pop("settings", None)
    rows: tuple[list[tuple[Any, ...]], ...] = (
        list(enumerate(settings.session_from)),
        [(scope,) for scope in sorted(settings.ignored_scopes)],
        [(position, *price) for position, price in enumerate(settings.prices)],
        [(position, canonical(one._asdict())) for position, one in enumerate(settings.dialects)],
    )
    for (table, types), new in zip(_TABLES.items(), rows, strict=True):
        if new == _stored(store, table):
            continue
        defined = ", ".join(f"{name} {kind} NOT NULL" for name, kind in sql_types(types).items())
        with store.transaction():
            store.query(f"CREATE OR REPLACE TABLE {table} ({defined})")
            if new:
                store.query(f"INSERT INTO {table} BY NAME FROM incoming", incoming=arrow_rows(new, types))
            if store.query("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'derived'"):
                store.query("DELETE FROM derived.progress")


def _stored(store: Store, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table of settings, in order; none without the table."""
    if column_types(store.connection, table) is None:
        return []
    return store.query(f"SELECT {', '.join(_TABLES[table])} FROM {table} ORDER BY ALL")  # noqa: S608 (our own names)


def _stored_vendor(definition: dict[str, Any]) -> Vendor:
    lists = {name: tuple(definition[name]) for name in ("scopes", "attributes")}
    return Vendor(**definition | lists | {"kinds": tuple(map(tuple, definition["kinds"]))})
