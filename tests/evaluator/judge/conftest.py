"""The stand-in of the judge's API, for the tests of the judge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gemini_standin import GeminiStandIn, gemini_standin


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiStandIn]:
    """A stand-in of Gemini, with a key for it and without the caller's own settings."""
    for name in ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "SPANGRADE_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "the-key")
    with gemini_standin() as standin:
        yield standin
