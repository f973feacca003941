"""What two instrumentations record of one call counts once."""

from __future__ import annotations

from typing import Any

import pytest
from builders import Fields, built_session, reading

from spangrade.evaluator.session import Session

SHOP = reading("agent", "shop", None, (0, 9), name="shop")
OUTER = reading("llm", "outer", "shop", (1, 4), model="gpt-4o", input_tokens=10, output_tokens=5)
INNER = OUTER._replace(span_id="inner", parent_span_id="outer", start_ns=2 * 10**9, end_ns=3 * 10**9)
REFUSED = {"failed": True, "error": "429", "raised": True}


def session(*observations: Fields) -> Session:
    return built_session("s1", "conversation", [SHOP, *observations])


def failures(*observations: Fields) -> list[tuple[str, str | None]]:
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


BESIDE = OUTER._replace(scope="shop.llm", user_input="hi", response="ho")
AGAIN = BESIDE._replace(
    span_id="again", scope="b", start_ns=2 * 10**9, end_ns=3 * 10**9, input_tokens=None, output_tokens=None
)


def test_two_spans_beside_each_other_with_other_texts_are_two_calls() -> None:
    for response in ("hello", "hut"):  # before "ho" in the alphabet, and after it
        assert len(session(BESIDE, AGAIN._replace(response=response)).llm_calls) == 2


@pytest.mark.parametrize(("more", "calls"), [(0, 1), (1, 2)])
def test_two_spans_beside_each_other_are_one_call_if_what_both_count_is_equal(more: int, calls: int) -> None:
    counted = BESIDE._replace(input_tokens=1_000)
    assert len(session(counted, AGAIN._replace(input_tokens=1_000 + more)).llm_calls) == calls


def test_two_spans_beside_each_other_are_one_call_by_their_times_and_texts() -> None:
    (call,) = session(BESIDE, AGAIN._replace(cached_input_tokens=4)).llm_calls
    assert (call.span_id, call.input_tokens, call.cached_input_tokens) == ("outer", 10, 4)
    third = AGAIN._replace(span_id="third", scope="c")
    assert [c.span_id for c in session(BESIDE, AGAIN, third).llm_calls] == ["outer"]


@pytest.mark.parametrize(
    "changes",
    [
        {"scope": "".join(["shop", ".llm"])},  # the same instrumentation: two calls at once
        {"response": "no"},
        {"response": None},
        {"user_input": "hello"},
        {"input_tokens": 11},
        {"start_ns": 38 * 10**8, "end_ns": 5 * 10**9},  # not within the time of the other
        {"call_key": "r2"},
    ],
)
def test_two_model_calls_at_once_that_differ_are_two(changes: dict[str, Any]) -> None:
    outer = BESIDE._replace(call_key="r1" if "call_key" in changes else None)
    later = BESIDE._replace(span_id="later", scope="c", start_ns=6 * 10**9, end_ns=7 * 10**9)
    assert len(session(outer, AGAIN._replace(**changes), later).llm_calls) == 3


def test_as_many_equal_calls_at_once_as_one_instrumentation_records_count() -> None:
    twice = [BESIDE, BESIDE._replace(span_id="other")]
    both = [*twice, AGAIN, AGAIN._replace(span_id="other again")]
    assert len(session(*both).llm_calls) == 2


TOOL = reading(
    "tool", "look", "shop", (5, 8), name="look", call_id="c1", arguments='{"a":1}', scope="a", result="1"
)
TOOL_AGAIN = TOOL._replace(span_id="look again", scope="b", start_ns=6 * 10**9, end_ns=7 * 10**9)


@pytest.mark.parametrize(
    ("changes", "calls"),
    [
        ({}, 1),
        ({"call_id": None}, 1),  # by its time and arguments
        ({"arguments": '{"a":1,"context":{}}'}, 1),  # by its id
        ({"call_id": "c2"}, 2),
        ({"call_id": None, "arguments": '{"a":2}'}, 2),
        ({"call_id": None, "scope": "a"}, 2),
        ({"start_ns": 8 * 10**9, "end_ns": 9 * 10**9}, 2),  # the call is repeated
        ({"name": "sell"}, 2),
        ({"scope": "a"}, 2),  # an id that one instrumentation uses twice
    ],
)
def test_a_tool_call_that_two_instrumentations_recorded_counts_once(
    changes: dict[str, Any], calls: int
) -> None:
    assert len(session(TOOL, TOOL_AGAIN._replace(**changes)).tool_interactions) == calls


def test_a_call_beside_another_without_texts_is_the_same_if_all_its_tokens_are() -> None:
    """One instrumentation of two may be told not to record messages, or both."""
    beside = INNER._replace(parent_span_id="shop", scope="client")
    plain = OUTER._replace(scope="framework")
    assert session(plain, beside).usage.llm_calls == 1
    assert session(plain._replace(response="done"), beside).usage.llm_calls == 1
    assert session(plain, beside._replace(model="gpt-4o-2024-08-06")).usage.llm_calls == 1
    changes: list[dict[str, Any]] = [{"output_tokens": 6}, {"output_tokens": None}, {"model": "o3"}]
    for change in (*changes, {"start_ns": 38 * 10**8, "end_ns": 5 * 10**9}, {"user_input": "And now?"}):
        assert session(plain._replace(user_input="hi"), beside._replace(**change)).usage.llm_calls == 2


def test_a_failure_that_two_instrumentations_record_beside_each_other_is_one() -> None:
    beside = INNER._replace(parent_span_id="shop", scope="client", input_tokens=None, **REFUSED)
    plain = OUTER._replace(scope="framework", input_tokens=None, **REFUSED)
    assert failures(plain, beside) == [("llm gpt-4o", "429")]
    assert len(failures(plain, beside._replace(error="500"))) == 2


def test_an_agent_around_a_call_comes_before_one_that_only_its_second_span_names() -> None:
    (call,) = session(OUTER, INNER._replace(agent="OpenAI Agent")).llm_calls
    assert call.agent == "shop"
    alone = built_session("s1", "trace", [OUTER._replace(parent_span_id=None), INNER._replace(agent="desk")])
    assert [call.agent for call in alone.llm_calls] == ["desk"]
