"""What model calls cost: which name has the price, and what a failed call does to the total."""

from __future__ import annotations

from typing import Any

import pytest
from builders import Fields, built_session, reading
from recordings import dotted, observed

from spangrade.converters.spans.observation import MessageCall, ModelCall
from spangrade.evaluator.derive.cost import Price, price
from spangrade.evaluator.metrics import Inconclusive, Score, load_metrics

CALL = reading(
    "llm", "ask", None, (0, 1), model="gpt-4o", input_tokens=1000, output_tokens=100, response="done"
)
REFUSED = reading("llm", "refused", None, (2, 3), model="gpt-4o", failed=True, error="429")


def total(*calls: Fields) -> tuple[float | None, str | None, bool]:
    session = built_session("s1", "conversation", calls)
    return session.cost_usd, session.cost_unknown, session.usage.complete


def test_a_call_that_failed_before_any_output_costs_nothing() -> None:
    assert total(CALL, REFUSED) == (0.0035, None, True)
    assert total(REFUSED) == (None, None, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"response": "Your cart"},
        {"tool_calls": (MessageCall("look", None, None),)},
        {"cut_off": True},
        {"failed": False},
        {"input_tokens": 5},
    ],
)
def test_the_cost_is_unknown_if_output_may_have_begun_before_the_failure(changes: dict[str, Any]) -> None:
    assert total(CALL, REFUSED._replace(**changes)) == (None, "gpt-4o", False)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"error__type": "openai.RateLimitError"}, False),
        ({"error__type": "500"}, False),
        ({"error__type": "asyncio.CancelledError"}, True),
        ({"error__type": "httpx.RemoteProtocolError"}, True),
        ({"error__type": "500", "gen_ai__response__time_to_first_chunk": 0.2}, True),
        ({"gen_ai__response__time_to_first_chunk": 0.2}, False),
    ],
)
def test_a_failed_call_was_cut_off_if_its_first_output_or_an_interruption_is_recorded(
    attributes: dict[str, Any], expected: bool
) -> None:
    assert observed(dotted(gen_ai__operation__name="chat", **attributes)).cut_off is expected


@pytest.mark.parametrize(
    ("model", "requested", "provider", "expected"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o", "openai", Price(0.0035, False)),
        ("gpt-4o", None, None, Price(0.0035, False)),
        # The model that answered has no price, the requested one has.
        ("served-by-us", "gpt-4o", "openai", Price(0.0035, False)),
        ("gemini-2.5-flash-001", None, "gcp.gemini", Price(0.00055, True)),
        ("gemini-2.5-flash-001", "gemini-2.5-flash", "gcp.gemini", Price(0.00055, False)),
        ("gpt-4o-2031-01-02", "gpt-4o-2031-01-02", "openai", Price(0.0035, True)),
        ("served-by-us", "ours", "openai", None),
        (None, None, "openai", None),
        # Behind a router, and under a framework's name.
        ("openai/gpt-4o", None, None, Price(0.0035, False)),
        ("openai/gpt-4o", None, "gcp.vertex.agent", Price(0.0035, False)),
        ("bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0", None, None, Price(0.0045, False)),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", None, "strands-agents", Price(0.0045, False)),
        ("gpt-4o", None, "strands-agents", Price(0.0035, False)),
        ("gpt-4o", None, "a-gateway", None),
    ],
)
def test_the_price_is_that_of_the_first_name_that_has_one(
    model: str | None, requested: str | None, provider: str | None, expected: Price | None
) -> None:
    named = CALL._replace(
        model=model, requested_model=requested, provider=provider, start_ns=1_760_000_000 * 10**9
    )
    call = named.observation
    assert isinstance(call, ModelCall)
    found = price(call)
    assert (
        found is None
        if expected is None
        else found == (pytest.approx(expected.cost_usd), expected.estimated, False)
    )


@pytest.mark.parametrize(
    ("minutes", "expected"), [(0, 0.00019), (29, 0.00019), (30, 0.00038), (990, 0.00019)]
)
def test_a_price_that_depends_on_the_time_of_day_is_that_of_the_call(minutes: int, expected: float) -> None:
    """DeepSeek halved its prices from 16:30 to 00:30 UTC."""
    start_ns = (1_744_848_000 + minutes * 60) * 10**9  # of 2025-04-17
    call = CALL._replace(model="deepseek-chat", provider="deepseek", start_ns=start_ns).observation
    assert isinstance(call, ModelCall)
    assert price(call) == Price(pytest.approx(expected), False)


def test_an_estimated_price_shows_in_the_session_its_call_and_the_reason() -> None:
    revised = CALL._replace(model="gemini-2.5-flash-001", provider="gcp.gemini")
    session = built_session("s1", "conversation", [CALL._replace(span_id="other"), revised])
    assert (session.cost_estimated, [call.cost_estimated for call in session.llm_calls]) == (
        "gemini-2.5-flash-001",
        [True, False],
    )
    outcome = load_metrics()["cost"](session)
    assert isinstance(outcome, Score)
    assert outcome.reason == (
        "2 model calls; estimated, without date or revision: the price of gemini-2.5-flash-001"
    )
    assert built_session("s1", "conversation", [CALL]).cost_estimated is None


def test_a_failed_call_takes_no_part_in_tokens_and_context() -> None:
    session = built_session("s1", "conversation", [CALL, REFUSED])
    metrics = load_metrics()
    assert metrics["token_usage"](session).value == 1100
    assert not isinstance(metrics["context_saturation"](session), Inconclusive)
