"""What a model call cost, by the prices that the `genai-prices` library keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from spangrade.converters.spans.observation import Observation

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

_DAY_NS = 86_400 * 10**9


class _Rates(NamedTuple):
    """US dollars a token, of a model whose price does not depend on how many there are."""

    input: Decimal
    cached: Decimal
    written: Decimal
    output: Decimal


def price(seen: Observation) -> float | None:
    """Return a call's cost in US dollars at the time of the call; None if its model or usage is unknown."""
    if seen.model is None or seen.input_tokens is None or seen.output_tokens is None:
        return None
    cached, written = seen.cached_input_tokens or 0, seen.cache_write_tokens or 0
    fresh = seen.input_tokens - cached - written
    if fresh < 0:
        return None  # counts that contradict each other
    rates = _rates(seen.model, seen.provider, seen.start_ns // _DAY_NS)
    if rates is None:
        return None
    if isinstance(rates, _Rates):
        cost = (
            fresh * rates.input
            + cached * rates.cached
            + written * rates.written
            + seen.output_tokens * rates.output
        )
        return float(cost)
    found = _find(seen.model, seen.provider, rates, seen.input_tokens, seen.output_tokens, cached, written)
    return None if found is None else float(found.total_price)


@lru_cache(maxsize=4096)
def _rates(model: str, provider: str | None, day: int) -> _Rates | datetime | None:
    """Return a model's rates; the time to ask the library about if its price has tiers; None if it has none.

    The library takes 95 µs a call, as much as all the rest of deriving one. A price without tiers is linear
    in each kind of token, so that its answers for one token of each kind are its answers for any number.
    """
    from genai_prices.types import TieredPrices

    at = datetime.fromtimestamp(day * 86_400, UTC)
    found = _find(model, provider, at, 1, 0, 0, 0)
    if found is None:
        return None
    if any(isinstance(value, TieredPrices) for value in vars(found.model_price).values()):
        return at
    # input and output tokens, and how many of the input were cached, or written to the cache
    kinds = ((1, 0, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (0, 1, 0, 0))
    prices = [answer.total_price for kind in kinds if (answer := _find(model, provider, at, *kind))]
    return _Rates(*prices) if len(prices) == len(kinds) else at


def _find(
    model: str, provider: str | None, at: datetime, tokens_in: int, tokens_out: int, cached: int, written: int
) -> PriceCalculation | None:
    import genai_prices

    usage = genai_prices.Usage(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=cached or None,
        cache_write_tokens=written or None,
    )
    try:
        return genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=at)
    except (LookupError, ValueError):  # no such model, or counts that contradict each other
        return None
