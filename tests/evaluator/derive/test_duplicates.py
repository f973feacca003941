"""What two instrumentations record of one call counts once."""

from __future__ import annotations

from builders import observation

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.session import Session

SHOP = observation("agent", "shop", None, (0, 9), name="shop")
OUTER = observation("llm", "outer", "shop", (1, 4), model="gpt-4o", input_tokens=10, output_tokens=5)
INNER = OUTER._replace(span_id="inner", parent_span_id="outer", start_ns=2 * 10**9, end_ns=3 * 10**9)
REFUSED = {"failed": True, "error": "429", "raised": True}


def session(*observations: Observation) -> Session:
    return build_session("s1", "conversation", [SHOP, *observations])


def failures(*observations: Observation) -> list[tuple[str, str | None]]:
    return [(error.where, error.message) for error in session(*observations).errors]


def test_the_failure_of_the_inner_of_two_instrumentations_is_kept() -> None:
    assert failures(OUTER, INNER._replace(**REFUSED)) == [("llm gpt-4o", "429")]
    # It was an attempt if the call has an answer after all.
    assert failures(OUTER._replace(response="done"), INNER._replace(**REFUSED)) == []
    again = INNER._replace(span_id="again", start_ns=INNER.end_ns, end_ns=INNER.end_ns + 1)
    assert failures(OUTER, INNER._replace(**REFUSED), again) == []


def test_the_provider_that_a_framework_does_not_know_is_that_of_the_inner_span() -> None:
    outer = OUTER._replace(provider="gcp.vertex.agent", model="openai/gpt-4o")
    (call,) = session(outer, INNER._replace(provider="openai")).llm_calls
    assert (call.provider, call.cost_usd is not None) == ("openai", True)
