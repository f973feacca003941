"""The price of a judge's call."""

from __future__ import annotations

import json

from spangrade.evaluator.judge.prompts import answer_type, render
from spangrade.evaluator.judge.protocol import Question

MAX_TOKENS = 8192  # of an answer: a reason of two sentences, and room for a model that thinks before it


def price_usd(
    model: str,
    *,
    input_tokens: int,
    output_tokens: int,
    cached: int = 0,
    written: int = 0,
    provider_id: str | None = None,
    api_url: str | None = None,
) -> float | None:
    """Return the price of one call in USD, by genai-prices; None if it has no price for the model.

    The tokens that were read from a cache (`cached`) or `written` to it are among the `input_tokens`.
    """
    from genai_prices import Usage, calc_price  # here, because it takes a sixth of a command's start

    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=written,
    )
    try:
        if api_url is not None:
            return float(calc_price(usage, model, provider_api_url=api_url).total_price)
        return float(calc_price(usage, model, provider_id=provider_id).total_price)
    except LookupError:
        return None


def largest_price_usd(
    model: str, question: Question, *, provider_id: str | None = None, api_url: str | None = None
) -> float | None:
    """Return the price of a call with the largest answer; None if genai-prices has none for the model.

    A token is one byte of UTF-8 or more.
    """
    sent = (*render(question), json.dumps(answer_type(question).model_json_schema()))
    return price_usd(
        model,
        input_tokens=sum(len(text.encode()) for text in sent),
        output_tokens=MAX_TOKENS,
        provider_id=provider_id,
        api_url=api_url,
    )
