"""What a model call cost, by the prices that the `genai-prices` library keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from spangrade.converters.observation import Observation


def price(seen: Observation) -> float | None:
    """Return a call's cost in US dollars at the time of the call; None if its model or usage is unknown."""
    if seen.model is None or seen.input_tokens is None or seen.output_tokens is None:
        return None
    return _price(
        seen.model,
        seen.provider,
        seen.input_tokens,
        seen.output_tokens,
        seen.cached_input_tokens,
        seen.cache_write_tokens,
        seen.start_ns // (86_400 * 10**9),
    )


@lru_cache(maxsize=65536)  # the library takes 95 µs a call
def _price(
    model: str,
    provider: str | None,
    input_tokens: int,
    output_tokens: int,
    cached: int | None,
    written: int | None,
    day: int,
) -> float | None:
    import genai_prices

    try:
        usage = genai_prices.Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cached,
            cache_write_tokens=written,
        )
        at = datetime.fromtimestamp(day * 86_400, UTC)
        found = genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=at)
    except (
        LookupError,
        ValueError,
        OverflowError,
        OSError,
    ):  # no such model, or counts that contradict each other
        return None
    return float(found.total_price)
