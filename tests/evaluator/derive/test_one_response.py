"""Spans with the id of one response are one model call if they overlap in time, whatever they count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from recordings import sessions

from spangrade.evaluator.session import LLMCall
from spangrade.tracer.span import Span

CLIENT, SDK = "opentelemetry.instrumentation.anthropic", "com.anthropic.sdk.python"


def span(number: int, at: tuple[int, int], scope: str, trace: int = 1, **fields: Any) -> Span:
    given: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.response.id": "msg_1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        **{name.replace("__", "."): value for name, value in fields.items()},
    }
    ids = f"{trace:032x}", f"{number:016x}"
    return Span(*ids, None, "chat", "CLIENT", *at, attributes=given, scope_name=scope)


def texts(asked: str = "Hello", answered: str = "Hi.") -> dict[str, Any]:
    def message(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    return {
        "gen_ai__input__messages": message("user", asked),
        "gen_ai__output__messages": message("assistant", answered),
    }


def calls(spans: Sequence[Span], db: Path) -> list[LLMCall]:
    return [call for session in sessions(spans, db) for call in session.llm_calls]


@pytest.mark.parametrize("other", [(0, 100), (10, 20), (-50, 1), (99, 300), (-50, 300), (0, 0)])
@pytest.mark.parametrize("trace", [1, 2])
@pytest.mark.parametrize("output_tokens", [10, 11, None])
@pytest.mark.short_form("output_tokens", 3)
def test_the_span_with_content_is_kept_and_completed(
    other: tuple[int, int], trace: int, output_tokens: int | None, tmp_path: Path
) -> None:
    at = (other[0] + 1_000, other[1] + 1_000)
    more = {
        "gen_ai__response__model": "claude-sonnet-4-5-20250929",
        "gen_ai__usage__output_tokens": output_tokens,
    }
    kept = span(1, (1_000, 1_100), CLIENT, gen_ai__usage__output_tokens=12, **texts())
    (call,) = calls([kept, span(2, at, SDK, trace, **more)], tmp_path / "s.duckdb")
    assert (call.span_id, call.input_tokens, call.output_tokens) == (kept.span_id, 100, 12)


@pytest.mark.parametrize("trace", [1, 2])
@pytest.mark.parametrize(
    "second",
    [
        span(2, (1_100, 1_200), SDK),  # a stand-in's one id, again
        span(2, (9_000, 9_100), SDK),
        span(2, (9_000, 9_100), CLIENT, **texts("And now?", "Hm.")),
        span(2, (1_050, 1_200), SDK, gen_ai__provider__name="openai"),
        span(2, (1_050, 1_200), SDK, gen_ai__response__id="msg_2", **texts("And now?", "Hm.")),
        span(2, (1_050, 1_200), CLIENT, **texts("And now?", "Hm.")),  # parallel calls of one client
    ],
)
@pytest.mark.short_form("second", 2)
def test_a_later_one_another_providers_and_another_answer_are_other_calls(
    second: Span, trace: int, tmp_path: Path
) -> None:
    first = span(1, (1_000, 1_100), CLIENT, **texts())
    found = calls([first, second._replace(trace_id=f"{trace:032x}")], tmp_path / "s.duckdb")
    assert len(found) == 2
