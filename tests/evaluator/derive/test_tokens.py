"""Token counts that allow only one reading, and the models that only an agent's span names."""

from __future__ import annotations

from typing import Any

import pytest
from builders import Fields, built_session, reading
from recordings import dotted, observed

from spangrade.evaluator.session import Usage

CALL = reading("llm", "ask", "shop", (1, 2), model="m", input_tokens=100, output_tokens=10)
SHOP = reading("agent", "shop", None, (0, 9), name="shop")


def tokens(*calls: Fields) -> list[tuple[int | None, int | None]]:
    session = built_session("s1", "conversation", [SHOP, *calls])
    return [(call.input_tokens, call.output_tokens) for call in session.llm_calls]


def test_cached_tokens_above_the_input_were_left_out_of_it_in_all_calls_of_the_model() -> None:
    above = CALL._replace(cached_input_tokens=150, cache_write_tokens=5)
    below = CALL._replace(cached_input_tokens=20, span_id="2", start_ns=3 * 10**9)
    other = below._replace(model="n", span_id="3")
    assert tokens(above, below, other) == [(255, 10), (120, 10), (100, 10)]
    assert tokens(below) == [(100, 10)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"total_tokens": 100}, (100, 0)),
        ({"total_tokens": 100, "output_tokens": 0}, (100, 0)),
        ({"total_tokens": 100, "response": " \n"}, (100, 0)),
        ({"total_tokens": 100, "response": "Your cart"}, (100, None)),
        ({"total_tokens": 100, "output_tokens": 0, "response": "Your cart"}, (100, None)),
        ({"total_tokens": 120}, (100, None)),
    ],
)
def test_a_total_that_equals_the_input_means_no_output_unless_there_is_an_answer(
    changes: dict[str, Any], expected: tuple[int | None, int | None]
) -> None:
    assert tokens(CALL._replace(**{"output_tokens": None} | changes)) == [expected]


def test_the_usage_of_an_agents_span_counts_where_no_model_call_is_recorded() -> None:
    run = SHOP._replace(input_tokens=300, output_tokens=30, model="m")
    inner = run._replace(span_id="inner", parent_span_id="shop")
    session = built_session("s1", "conversation", [run, inner])
    assert session.usage == Usage(input_tokens=300, output_tokens=30)
    assert (session.models, session.cost_usd, session.llm_calls) == (("m",), None, ())
    beside = built_session("s1", "conversation", [run, CALL])
    assert (beside.usage.input_tokens, beside.llm_calls[0].input_tokens) == (300, 100)


def test_the_usage_of_runs_counts_where_model_calls_record_no_tokens() -> None:
    bare = CALL._replace(input_tokens=None, output_tokens=None, model=None)
    outer = reading("workflow", "sum", "shop", (0, 9), model="m", input_tokens=300, output_tokens=30)
    tool = reading("tool", "desk", "sum", (4, 8), name="desk")
    inner = reading("workflow", "inner", "desk", (5, 7), model="n", input_tokens=50, output_tokens=5)
    called = [bare._replace(parent_span_id="sum"), bare._replace(span_id="second", parent_span_id="inner")]
    session = built_session("s1", "conversation", [SHOP, outer, tool, inner, *called])
    assert session.usage == Usage(llm_calls=2, input_tokens=350, output_tokens=35)
    assert session.models == ("m", "n")
    counted = built_session("s1", "conversation", [SHOP, outer, CALL._replace(parent_span_id="sum")])
    assert counted.usage.input_tokens == 100


def test_counts_of_0_for_an_answer_are_kept_but_the_usage_is_not_complete() -> None:
    call = CALL._replace(input_tokens=0, output_tokens=0, response="hi", model="gpt-4o")
    session = built_session("s1", "conversation", [SHOP, call])
    assert (session.usage.input_tokens, session.usage.output_tokens) == (0, 0)
    assert (session.usage.complete, session.cost_usd) == (False, None)


def test_a_model_that_the_agents_span_alone_names_is_that_of_its_calls() -> None:
    run = SHOP._replace(model="gpt-4o")
    session = built_session("s1", "conversation", [run, CALL._replace(model=None)])
    assert [call.model for call in session.llm_calls] == ["gpt-4o"]
    assert session.cost_usd is not None


def test_a_tools_own_name_comes_before_its_agents() -> None:
    attributes = dotted(
        traceloop__span__kind="tool", traceloop__entity__name="get_cart", gen_ai__agent__name="shop"
    )
    assert (observed(attributes).name, observed(attributes).agent) == ("get_cart", "shop")


@pytest.mark.parametrize("cached", [{"cached_input_tokens": 40}, {"cache_write_tokens": 40}])
@pytest.mark.parametrize("read", [{}, {"cached_unplaced": True}])
@pytest.mark.parametrize(("total", "expected"), [(150, 140), (110, 100), (151, 100), (None, 100)])
def test_a_total_of_input_cached_and_output_says_that_the_cached_tokens_are_beside(
    cached: dict[str, int], read: dict[str, bool], total: int | None, expected: int
) -> None:
    counted = CALL._replace(total_tokens=total, **cached, **read)
    unknown = bool(read) and total != 150
    assert tokens(counted) == [(None if unknown else expected, 10)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"user_input": "Hi"}, None),
        ({"response": "Hello."}, None),
        ({}, 0),
        ({"user_input": "Hi", "scope": "acme"}, 0),
        ({"user_input": "Hi", "provider": "openai"}, 0),
        ({"user_input": "Hi", "cached_input_tokens": None}, 0),
    ],
)
def test_an_input_of_0_beside_a_text_is_unknown_where_nothing_names_the_writer(
    changes: dict[str, Any], expected: int | None
) -> None:
    empty = CALL._replace(**{"input_tokens": 0, "cached_input_tokens": 0} | changes)
    session = built_session("s1", "conversation", [SHOP, empty])
    (call,) = session.llm_calls
    assert (call.input_tokens, call.doubtful_tokens) == (expected, expected is None)
