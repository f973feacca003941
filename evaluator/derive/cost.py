"""What model calls cost, by the prices of the `genai-prices` library."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.session import LLMCall

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

_DAY_NS = 86_400 * 10**9


class _Rates(NamedTuple):
    """US dollars per token, of a model whose price does not depend on their number."""

    input: Decimal
    cached: Decimal
    written: Decimal
    output: Decimal


def price(call: Observation) -> float | None:
    """Return a call's cost in US dollars at the time of the call; None if its model or usage is unknown."""
    if call.model is None or call.input_tokens is None or call.output_tokens is None:
        return None
    cached, written = call.cached_input_tokens or 0, call.cache_write_tokens or 0
    fresh = call.input_tokens - cached - written
    if fresh < 0:
        return None  # counts that contradict each other
    rates = _rates(call.model, call.provider, call.start_ns // _DAY_NS)
    if rates is None:
        return None
    if isinstance(rates, _Rates):
        cost = (
            fresh * rates.input
            + cached * rates.cached
            + written * rates.written
            + call.output_tokens * rates.output
        )
        return float(cost)
    found = _find(call.model, call.provider, rates, call.input_tokens, call.output_tokens, cached, written)
    return None if found is None else float(found.total_price)


def total_cost(llm_calls: Iterable[LLMCall]) -> tuple[float | None, str | None]:
    """Return the cost of a session's calls in US dollars, and the models that have no known price.

    Both are None without a call; one unknown price makes the total unknown.
    """
    costs = []
    unpriced = set()
    for call in llm_calls:
        if call.cost_usd is None:
            unpriced.add(call.model or "a model without a name")
        else:
            costs.append(call.cost_usd)
    if unpriced or not costs:
        return None, ", ".join(sorted(unpriced)) or None
    return math.fsum(costs), None  # the same in any order and on every version of Python


@lru_cache(maxsize=4096)
def _rates(model: str, provider: str | None, day: int) -> _Rates | datetime | None:
    """Return a model's rates; the time at which to price each call if it has tiers; None if it has no price.

    The library takes 95 µs per call, as much as all the rest of deriving one. A price without tiers is linear
    in each kind of token, so its answers for one token of each kind hold for any number.
    """
    from genai_prices.types import TieredPrices

    at = datetime.fromtimestamp(day * 86_400, UTC)
    found = _find(model, provider, at, 1, 0, 0, 0)
    if found is None:
        return None
    if any(isinstance(value, TieredPrices) for value in vars(found.model_price).values()):
        return at
    # (input, output, of the input: read from the cache, written to the cache)
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
