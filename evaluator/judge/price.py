"""The price of a judge's call."""

from __future__ import annotations

from genai_prices import Usage, calc_price


def price_usd(
    usage: Usage, model: str, *, provider_id: str | None = None, api_url: str | None = None
) -> float | None:
    """Return the price of one call in USD, by genai-prices; None if it has no price for the model."""
    try:
        if api_url is not None:
            return float(calc_price(usage, model, provider_api_url=api_url).total_price)
        return float(calc_price(usage, model, provider_id=provider_id).total_price)
    except LookupError:
        return None
