"""How many tokens a model takes, by the `genai-prices` library."""

from __future__ import annotations

from functools import lru_cache

from spangrade.evaluator.derive.cost import providers_of


@lru_cache(maxsize=1024)
def context_window(model: str | None, provider: str | None) -> int | None:
    """Return the context window of a model in tokens; None if the library has none for its exact name."""
    if model is None:
        return None
    from genai_prices.data_snapshot import get_snapshot  # here, because it takes a sixth of a command's start

    for provider_id in providers_of(model, provider):
        try:
            found = get_snapshot().find_provider_model(model, None, provider_id, None)[1]
        except LookupError:
            continue
        if found.context_window is not None:
            return found.context_window
    return None
