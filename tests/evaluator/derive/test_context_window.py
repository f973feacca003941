"""Context windows of models, by the names and providers that frameworks record.

The models are such that releases of genai-prices agree on them.
"""

from __future__ import annotations

import pytest

from spangrade.evaluator.derive.cost import context_window


@pytest.mark.parametrize(
    ("model", "provider", "tokens"),
    [
        ("gpt-4o", "openai", 128_000),
        ("gpt-4o", None, 128_000),
        pytest.param("gpt-4o", "langchain", 128_000, id="a framework as the provider"),
        pytest.param("openai/gpt-4o", "litellm", 128_000, id="a router's name"),
        pytest.param("ours-4o", "openai", None, id="a model that the library does not have"),
        pytest.param("gpt-4o", "nobody", None, id="a provider that the library does not have"),
        (None, "openai", None),
    ],
)
def test_a_context_window_is_that_of_the_exact_model(
    model: str | None, provider: str | None, tokens: int | None
) -> None:
    assert context_window(model, provider) == tokens
