"""Context windows of models, by every name under which frameworks record them."""

from __future__ import annotations

import pytest

from spangrade.evaluator.derive.context_window import context_window


@pytest.mark.parametrize(
    ("model", "provider", "tokens"),
    [
        ("gpt-4o", "openai", 128_000),
        ("gpt-4o", None, 128_000),
        pytest.param("gpt-4o", "langchain", 128_000, id="a framework as the provider"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", None, 200_000),
        ("bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0", "litellm", 200_000),
        ("gemini-2.5-flash", "gcp.gemini", 1_048_576),
        pytest.param("gemini-2.5-flash-001", "gcp.gemini", None, id="a name that the library does not have"),
        pytest.param("gpt-4o", "nobody", None, id="a provider that the library does not have"),
        (None, "openai", None),
    ],
)
def test_a_context_window_is_that_of_the_exact_model(
    model: str | None, provider: str | None, tokens: int | None
) -> None:
    assert context_window(model, provider) == tokens
