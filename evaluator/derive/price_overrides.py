"""Prices of one's own, which come before those of `genai-prices`; the database remembers them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple

from spangrade.converters.spans.observation import ModelCall
from spangrade.tracer.store import Store
from spangrade.tracer.store.untrusted import column_types

_COLUMNS = (
    "position INTEGER NOT NULL, model VARCHAR NOT NULL, input DOUBLE NOT NULL, output DOUBLE NOT NULL, "
    "cached DOUBLE NOT NULL, written DOUBLE NOT NULL"
)


class OwnPrice(NamedTuple):
    """The price of the models of a name or pattern (`acme-*`), in USD per million tokens.

    `cached` and `written` are those of input tokens that are read from and written to a cache.
    """

    model: str
    input: float
    output: float
    cached: float
    written: float


def own_prices(store: Store) -> tuple[OwnPrice, ...]:
    """Return the prices that a database remembers, in order: the first one of a model counts."""
    if column_types(store.connection, "own_prices") is None:
        return ()
    rows = store.query("SELECT model, input, output, cached, written FROM own_prices ORDER BY position")
    return tuple(OwnPrice(*row) for row in rows)


def set_own_prices(store: Store, prices: Sequence[OwnPrice]) -> None:
    """Set the prices that a database remembers; if they change, all is derived again."""
    if tuple(prices) == own_prices(store):
        return
    with store.transaction():
        store.query(f"CREATE OR REPLACE TABLE own_prices ({_COLUMNS})")
        for position, price in enumerate(prices):
            store.query(
                "INSERT INTO own_prices VALUES ($position, $model, $input, $output, $cached, $written)",
                {"position": position, **price._asdict()},
            )
        if store.query("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'derived'"):
            store.query("DELETE FROM derived.progress")


def own_cost(call: ModelCall, fresh: int, prices: Iterable[OwnPrice]) -> float | None:
    """Return a call's cost in USD by the first price of its model; None if there is none.

    `fresh` are its input tokens that are neither read from nor written to a cache.
    """
    for price in prices:
        if any(name and _matches(price.model, name) for name in (call.model, call.requested_model)):
            usd = (
                fresh * price.input
                + (call.tokens.cached_input_tokens or 0) * price.cached
                + (call.tokens.cache_write_tokens or 0) * price.written
                + (call.tokens.output_tokens or 0) * price.output
            )
            return usd / 1_000_000
    return None


@lru_cache(maxsize=4096)
def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(translate(pattern.lower()), name.lower()) is not None
