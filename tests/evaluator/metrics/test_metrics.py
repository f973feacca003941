from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import llm, question, session, tool
from hypothesis import given
from hypothesis import strategies as st

from spangrade import InputError
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics import Inconclusive, Metric, Outcome, Score, load_metrics, parse_metric
from spangrade.evaluator.metrics.causes import Cause
from spangrade.evaluator.metrics.latency import nearest_rank
from spangrade.evaluator.metrics.registry import parse_metrics, version_of
from spangrade.evaluator.session import Latency, RequestedCall, Usage

BY = ("exact", "in_order", "any_order", "precision", "recall")
TRAJECTORY = (
    "trajectory:exact",
    "trajectory:in_order",
    "trajectory:any_order",
    "trajectory:precision",
    "trajectory:recall",
    "trajectory_accuracy",
)
TOOLS = ("tools:exact", "tools:in_order", "tools:any_order", "tools:precision", "tools:recall")


def value(outcome: Outcome) -> float | None:
    return outcome.value if isinstance(outcome, Score) else None


def measured(name: str, *args: Any) -> Outcome:
    return parse_metric(name)(*args)


# Both families, over agents a, b, c or calls of tools of these names; an empty reference is one of tools.
@pytest.mark.parametrize(
    ("happened", "expected", "exact", "in_order", "any_order", "precision", "recall", "accuracy"),
    [
        ("", "", 1, 1, 1, 1, 1, 1),
        ("", "a", 0, 0, 0, 0, 0, 0),
        ("a", "", 0, 1, 1, 0, 1, 0),
        ("abc", "abc", 1, 1, 1, 1, 1, 1),
        ("abc", "ac", 0, 1, 1, 2 / 3, 1, 4 / 5),
        ("abc", "cb", 0, 0, 1, 2 / 3, 1, 2 / 5),
        ("ac", "abc", 0, 0, 0, 1, 2 / 3, 4 / 5),
        ("aba", "ab", 0, 1, 1, 2 / 3, 1, 4 / 5),
        ("ab", "aba", 0, 0, 0, 1, 2 / 3, 4 / 5),
        ("b", "a", 0, 0, 0, 0, 0, 0),
    ],
)
def test_sequences_score_by_the_formulas_and_their_empty_cases(
    happened: str,
    expected: str,
    exact: float,
    in_order: float,
    any_order: float,
    precision: float,
    recall: float,
    accuracy: float,
) -> None:
    agents = list("abc") if expected else []
    by_agents = session(steps=list(happened), agents=agents), question(trajectory=list(expected))
    scores = [value(measured(name, *by_agents)) for name in TRAJECTORY]
    assert scores == [exact, in_order, any_order, precision, recall, accuracy]
    by_calls = session([("hi", [tool(name, {}) for name in happened])]), question(tools=list(expected))
    scores = [value(measured(name, *by_calls)) for name in (*TOOLS, "tool_usage_accuracy")]
    # An empty reference expects no calls.
    usage = recall if expected else precision
    assert scores == [exact, in_order, any_order, precision, recall, usage]


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), min_size=1, max_size=6))
def test_calls_without_arguments_score_as_their_names_do(happened: list[str], expected: list[str]) -> None:
    calls = session([("hi", [tool(name, {}) for name in happened])], steps=happened, agents=())
    asked = question(trajectory=expected, tools=expected, agents=["shop"])
    for trajectory_metric, tool_metric in zip(TRAJECTORY, TOOLS, strict=False):
        assert value(measured(trajectory_metric, calls, asked)) == value(measured(tool_metric, calls, asked))


def test_a_trajectory_reference_without_tools_is_compared_with_the_agents_alone() -> None:
    made = session([("hi", [tool("get_cart"), tool("pay")])])
    assert measured("trajectory:exact", made, question(trajectory=["shop"])) == Score(
        1.0, None, "as expected"
    )


@pytest.mark.parametrize("name", [*TRAJECTORY])
def test_an_empty_trajectory_reference_expects_no_calls(name: str) -> None:
    asked = question(trajectory=[])
    handoff = tool("transfer_to_agent", handoff=True)
    silent = session(
        [("hi", [handoff])], steps=["shop", "transfer_to_agent", "cashier"], agents=["shop", "cashier"]
    )
    assert value(measured(name, silent, asked)) == 1
    if name not in ("trajectory:in_order", "trajectory:any_order", "trajectory:recall"):
        assert value(measured(name, session([("hi", [tool("pay")])]), asked)) == 0


def test_of_agents_that_are_expected_more_than_once_those_that_are_missing_are_named() -> None:
    made = session(steps=["shop", "cashier", "shop"], agents=["shop", "cashier"])
    asked = question(trajectory=["shop", "cashier", "shop", "cashier", "shop"])
    due = (Cause(None, "cashier", after="shop step"), Cause(None, "shop", after="shop step"))
    assert measured("trajectory:exact", made, asked) == Score(0.0, None, "missing: shop, cashier", due)


def test_an_agent_is_not_named_again_after_the_tools_between_are_left_out() -> None:
    made = session([("hi", [tool("get_cart")])], steps=["shop", "get_cart", "shop"])
    assert value(measured("trajectory:exact", made, question(trajectory=["shop"]))) == 1


def test_a_trajectory_reference_that_names_a_tool_is_compared_with_all_steps_but_unnamed_handoffs() -> None:
    calls = [tool("get_cart"), tool("transfer_to_agent", handoff=True), tool("pay")]
    made = session(
        [("hi", calls)],
        steps=["shop", "get_cart", "transfer_to_agent", "cashier", "pay"],
        agents=["shop", "cashier"],
    )
    named = [
        ["shop", "get_cart", "cashier", "pay"],
        ["shop", "get_cart", "transfer_to_agent", "cashier", "pay"],
        ["shop", "cashier"],
        ["shop", "cashier", "pay"],
    ]
    metric = "trajectory:exact"
    assert [value(measured(metric, made, question(trajectory=names))) for names in named] == [1, 1, 1, 0]


def test_a_tool_that_only_the_tool_reference_names_makes_the_trajectory_reference_name_a_tool() -> None:
    made = session([("hi", [tool("get_cart")])])
    asked = question(trajectory=["shop", "pay"], tools=["pay"])
    assert measured("trajectory_accuracy", made, asked) == Score(
        0.5,
        None,
        "missing: pay; not expected: get_cart "
        '(steps that it does not name are free with "trajectory": "major_steps")',
        (Cause("get_cart step", "get_cart"),),
    )


def test_an_agent_used_as_a_tool_is_an_agent_to_the_trajectory_reference() -> None:
    made = session(
        [("hi", [tool("intake"), tool("pay")])], steps=["shop", "intake", "pay"], agents=["shop", "intake"]
    )
    assert value(measured("trajectory:exact", made, question(trajectory=["shop", "intake"]))) == 1


def test_unknown_agents_are_inconclusive() -> None:
    made = session(agents=None)
    asked = question(trajectory=["shop"])
    assert {measured(name, made, asked) for name in (*TRAJECTORY, "agent_routing")} == {
        Inconclusive(
            "which agents took part is not recorded; "
            "name them on the spans (gen_ai.agent.name) or by the setting run.agent_name"
        )
    }


def test_routing_is_the_share_of_agents_that_took_part_under_their_own_names() -> None:
    made = session(agents=["customer_service_agent", "cashier"])
    assert measured("agent_routing", made, question(agents=["cashier", "customer_service"])) == Score(
        0.5,
        None,
        "did not take part: customer_service; took part: customer_service_agent, cashier",
        (Cause("customer_service_agent step", "customer_service"),),
    )


def test_a_single_tool_is_looked_for_by_name() -> None:
    made = session([("hi", [tool("get_cart"), tool("get_cart")])])
    assert [measured(f"trajectory_single_tool_use:{name}", made) for name in ("get_cart", "pay")] == [
        Score(1.0, None, "get_cart was called", ("get_cart", "get_cart")),
        Score(0.0, None, "pay was not called", (Cause(None, "pay", after="get_cart"),)),
    ]
    asked = RequestedCall(1, 1, "find", None, False, None, "shop", 0, "t1", "llm")
    made = session(requested_calls=(asked, asked._replace(tool_name="sell")))
    whether = "whether find was executed is not recorded, only that it was requested"
    assert [measured(f"trajectory_single_tool_use:{name}", made) for name in ("find", "pay")] == [
        Inconclusive(whether),
        Score(0.0, None, "pay was not called", (Cause(None, "pay", after="shop step"),)),
    ]


def test_the_version_of_a_metric_with_a_parameter_is_that_of_its_package() -> None:
    named = parse_metric("trajectory_single_tool_use:pay")
    assert version_of(named) == version_of(load_metrics()["trajectory_single_tool_use"])
    assert (version_of(named) or "").startswith("spangrade ")


def test_matching_calls_is_not_greedy() -> None:
    made = session([("hi", [tool("find", {"q": "a", "page": 1}), tool("find", {"q": "b"})])])
    # The first expected call takes either; the second only the first made.
    asked = question(tools=[("find", {"q": "*"}), ("find", {"page": 1})])
    assert value(measured("tools:any_order", made, asked)) == 1
    assert value(measured("tools:in_order", made, asked)) == 0


def test_what_differs_is_told_with_the_spans_of_unexpected_calls() -> None:
    made = session([("hi", [tool("find", {"q": "é"}), tool("pay", {}), tool("scan", ["x" * 100])])])
    asked = question(tools=[("find", {"q": "a"}), "pay"])
    assert measured("tools:recall", made, asked) == Score(
        0.5,
        None,
        'find(q): expected "a", was "é"; not expected: scan["' + "x" * 78 + "…",
        (Cause("find", "find(q)"),),
    )


def test_what_came_in_another_order_is_told() -> None:
    made = session([("hi", [tool("find", {}), tool("scan", {}), tool("pay", {})])])
    all_steps = question(trajectory=["shop", "pay", "find", "scan"], tools=["pay", "find", "scan"])
    some_steps = question(trajectory=["shop", "pay", "find"], tools=["pay", "find"])
    assert [
        measured(name, made, asked)[2:4]
        for asked in (all_steps, some_steps)
        for name in ("trajectory:in_order", "tools:in_order")
    ] == [
        ("in another order: shop, find, scan, pay", (Cause("pay step", "pay"),)),
        ("in another order: find, scan, pay", (Cause("pay", "pay"),)),
        ("not expected: scan; in another order: shop, find, scan, pay", (Cause("find step", "find"),)),
        ("not expected: scan{}; in another order: find, scan, pay", (Cause("find", "find"),)),
    ]


def test_arguments_nested_without_end_are_compared_and_told_in_short() -> None:
    deep: Any = {}
    for _ in range(50_000):  # json.dumps of Python 3.13 manages 5,000 levels
        deep = {"a": deep}
    made = session([("hi", [tool("find", deep)])])
    assert measured("tools:recall", made, question(tools=[("find", {"q": "a"})])) == Score(
        0.0, None, 'find(q): expected "a", was not set', (Cause("find", "find(q)"),)
    )


def test_each_tool_metric_takes_a_matcher_for_arguments() -> None:
    made = session([("hi", [tool("find", {"q": "a", "page": 1})])])
    asked = question(tools=[("find", {"q": "a"})])
    other = question(tools=[("find", {"q": "b"})])
    names = (
        "tools:exact",
        "tools:exact:subset",
        "tools:exact:exact",
        "tools:exact:ignore",
    )
    assert [value(measured(name, made, asked)) for name in names] == [1, 1, 0, 1]
    assert [value(measured(name, made, other)) for name in names] == [0, 0, 0, 1]


def test_handoffs_are_calls_only_where_the_reference_names_them() -> None:
    calls = [tool("find", {}), tool("transfer_to_agent", {"agent_name": "cashier"}, handoff=True)]
    made = session([("hi", calls)])
    handover = ("transfer_to_agent", {"agent_name": "cashier"})
    assert [
        value(measured("tools:exact", made, question(tools=tools)))
        for tools in (["find"], ["find", handover])
    ] == [1, 1]


FAILED = tool("pay", {"sum": 1}, ok=False, output={"status": "error"}, output_known=True)
PAID = tool("pay", {"sum": 1}, output={"id": "p1", "fee": 2}, output_known=True)
REQUESTED = tool("pay", {"sum": 1}, ok=None, span_id=None)  # by the model, without a span or a result


def pay(**result: Any) -> dict[str, Any]:
    return {"tool_name": "pay", "input_arguments": {"sum": 1}, **result}


@pytest.mark.parametrize(
    ("calls", "result", "expected"),
    [
        ([FAILED], {}, 0),
        ([FAILED, PAID], {}, 1),
        ([FAILED], {"status": "ok"}, 0),
        ([FAILED], {"status": "error"}, 1),
        ([FAILED], {"output": {"status": "error"}}, 1),
        ([PAID], {"status": "error"}, 0),
        ([PAID], {"output": {"id": "*"}}, 1),
        ([PAID], {"output": {"id": "p2"}}, 0),
        ([PAID], {"output": {"id": "p1"}, "status": "error"}, 0),
        ([PAID._replace(output=None, output_known=False)], {"output": {"id": "p1"}}, None),
        ([PAID._replace(ok=None)], {}, 1),  # it ran, and nothing tells of a failure
        ([PAID._replace(ok=None)], {"status": "ok"}, None),
        ([REQUESTED], {}, None),
        ([REQUESTED, PAID], {}, 1),
        ([REQUESTED, FAILED], {}, None),
    ],
)
def test_a_failed_call_meets_only_a_reference_that_expects_it(
    calls: list[Any], result: dict[str, Any], expected: float | None
) -> None:
    asked = GoldenQuestion.model_validate(
        {
            "id": "q1",
            "user_inputs": ["hi"],
            "agents_evaluated": ["shop"],
            "reference_data": {"reference_tool_interactions": [pay(**result)]},
        }
    )
    for metric in ("tools:recall", "tools:any_order", "tools:in_order:ignore"):
        assert value(measured(metric, session([("hi", calls)]), asked)) == expected


def test_a_call_that_failed_and_one_without_a_result_are_named() -> None:
    asked = question(tools=[("pay", {"sum": 1})])
    assert measured("tools:recall", session([("hi", [FAILED])]), asked).reason == (
        "pay: expected to succeed (failed)"
    )
    assert measured("tools:recall", session([("hi", [REQUESTED])]), asked) == Inconclusive(
        "the result of pay is not recorded (spangrade lint says how)", 1.0
    )


def test_arguments_that_are_not_recorded_are_inconclusive_unless_the_rest_decides() -> None:
    made = session([("hi", [tool("find"), tool("pay", {"sum": 1})])])
    find, pay = ("find", {"q": "a"}), ("pay", {"sum": 1})
    assert measured("tools:recall", made, question(tools=[find, pay])) == Inconclusive(
        "the arguments of find are not recorded (spangrade lint says how)", 1.0
    )
    assert measured("tools:recall", made, question(tools=[find, ("scan", {})])) == Inconclusive(
        (
            "the arguments of find are not recorded (spangrade lint says how); missing: scan{}; "
            'not expected: pay{"sum":1}'
        ),
        0.5,
    )
    decided = {
        "names alone": question(tools=["find", pay]),
        "free keys": question(tools=[("find", {"q": None}), pay]),
        "missing by name": question(tools=[find, ("scan", {})]),
        "another call": question(tools=[pay]),
    }
    in_any_order = {why: value(measured("tools:any_order", made, asked)) for why, asked in decided.items()}
    assert in_any_order == {"names alone": 1, "free keys": 1, "missing by name": 0, "another call": 1}
    assert value(measured("tools:any_order:ignore", made, question(tools=[find, pay]))) == 1
    assert value(measured("tools:any_order:exact", made, question(tools=[("find", {}), pay]))) is None


def test_state_is_compared_by_final_values_and_a_missing_variable_is_not_null() -> None:
    made = session(state_variables={"total": 1.0, "name": "Zoe\u0308", "city": "Bonn", "free": "x"})
    asked = question(state={"total": 1, "name": "Zo\u00eb", "city": "*", "coupon": None})
    assert measured("state_management_fidelity", made, asked) == Score(
        0.5,
        None,
        'city: expected "*", was "Bonn"; coupon: expected null, was not set',
        (Cause(None, "city", after="shop step"), Cause(None, "coupon", after="shop step")),
    )
    written = replace(made, state_spans={"city": "set city"})
    assert measured("state_management_fidelity", written, asked).evidence[0] == Cause("set city", "city")
    assert measured("state_management_fidelity", session(), asked) == Inconclusive(
        "no state is recorded; set_state records it, or extracted_data in a CSV or JSONL"
    )
    long = measured(
        "state_management_fidelity",
        session(state_variables={"a": [1, "x" * 300]}),
        question(state={"a": [1]}),
    )
    shown = 'a[1]: expected nothing, was "' + "x" * 99 + '…"'
    assert long == Score(0, None, shown, (Cause(None, "a[1]", after="shop step"),))
    assert value(measured("state_management_fidelity", made, question(state={}))) == 1


def test_in_state_null_is_a_value() -> None:
    made = session(state_variables={"coupon": None, "total": 1, "items": [None]})
    asked = question(state={"coupon": None, "total": None, "items": [None]})
    assert measured("state_management_fidelity", made, asked) == Score(
        2 / 3, None, "total: expected null, was 1", (Cause(None, "total", after="shop step"),)
    )


def used(llm_calls: int | None = 2, complete: bool = True, **tokens: int | None) -> Usage:
    known = {"input_tokens": 100, "output_tokens": 40, "cached_input_tokens": 25, "reasoning_tokens": 10}
    return Usage(llm_calls=llm_calls, complete=complete, **{**known, **tokens})


def test_token_metrics() -> None:
    made = session(usage=used())
    counts = {
        "llm_calls": 2,
        "input_tokens": 100,
        "output_tokens": 40,
        "cached_input_tokens": 25,
        "reasoning_tokens": 10,
    }
    names = ("token_usage", "cache_efficiency", "thinking_metrics", "output_density")
    assert [measured(name, made) for name in names] == [
        Score(140.0, None, "100 in, 40 out", (), counts),
        Score(0.25, None, "25 of 100 input tokens"),
        Score(0.25, None, "10 of 40 output tokens"),
        Score(20.0, None, "40 tokens in 2 model calls"),
    ]
    assert value(measured("output_density", session(usage=replace(used(), output_tokens=41)))) == 20.5


@pytest.mark.parametrize(
    ("name", "usage", "outcome"),
    [
        (
            "token_usage",
            used(complete=False),
            Inconclusive(
                "not every model call recorded its tokens; record the usage of each response", 140.0
            ),
        ),
        (
            "token_usage",
            used(output_tokens=None),
            Inconclusive(
                "not every model call recorded its tokens; record the usage of each response", 100.0
            ),
        ),
        (
            "cache_efficiency",
            used(cached_input_tokens=None),
            Inconclusive("cached input tokens are not recorded; record the usage of each response"),
        ),
        ("cache_efficiency", used(input_tokens=0), Inconclusive("there are no input tokens")),
        (
            "thinking_metrics",
            used(output_tokens=None),
            Inconclusive("output tokens are not recorded; record the usage of each response"),
        ),
        (
            "token_usage",
            used(llm_calls=0),
            Inconclusive("no model call is recorded; instrument the model's client, or use llm_call"),
        ),
        (
            "output_density",
            used(llm_calls=0),
            Inconclusive("no model call is recorded; instrument the model's client, or use llm_call"),
        ),
        (
            "output_density",
            used(complete=False),
            Inconclusive("not every model call recorded its tokens; record the usage of each response"),
        ),
    ],
)
def test_tokens_that_are_not_recorded_are_inconclusive(name: str, usage: Usage, outcome: Outcome) -> None:
    assert measured(name, session(usage=usage)) == outcome


def test_cost_is_known_or_says_why_not() -> None:
    known = session(cost_usd=0.02, llm_calls=(llm(), llm()))
    unknown = session(cost_unknown="model-x", llm_calls=(llm(), llm("model-x", cost_usd=None)))
    takes = "it takes the tokens, and a model that genai-prices has"
    assert [measured("cost", made) for made in (known, unknown, session())] == [
        Score(0.02, None, "2 model calls"),
        Inconclusive(f"no price is known for model-x; {takes}", 0.01),
        Inconclusive(f"the cost is not known; {takes}", 0),
    ]


def test_context_saturation_is_that_of_the_fullest_call() -> None:
    half, quarter = llm(tokens=(64_000, 1), span_id="half"), llm(tokens=(32_000, 1))
    unknown, uncounted = llm("model-x", context_window=None), llm(tokens=(None, None))
    calls = [(quarter, half), (quarter, unknown), (quarter, uncounted), ()]
    assert [measured("context_saturation", session(llm_calls=made)) for made in calls] == [
        Score(0.5, None, "64000 of 128000 tokens of gpt-4o", ("half",)),
        Inconclusive(
            "the context window of model-x is not known; it takes a model that genai-prices has", 0.25
        ),
        Inconclusive("not every model call recorded its tokens; record the usage of each response", 0.25),
        Inconclusive("no model call is recorded; instrument the model's client, or use llm_call"),
    ]


def test_latency_is_the_sum_of_the_turns() -> None:
    parts = {"llm_s": 3.0, "tool_s": 2.0, "framework_s": 1.0, "first_response_s": 0.5}
    made = session([("a", ()), ("b", ()), ("c", ())], latency=Latency(total_s=6.0, **parts))
    turns = {"average_turn_s": 2.0, "p50_turn_s": 2.0, "p95_turn_s": 3.0}
    assert measured("latency_metrics", made) == Score(6.0, None, "3 turns", (), {**parts, **turns})
    assert measured("latency_metrics", session([])) == Inconclusive(
        "no turn is recorded; record each user message with turn, or on a span"
    )


def test_percentiles_are_nearest_ranks_and_none_of_nothing() -> None:
    ten = [float(n) for n in range(1, 11)]
    assert [nearest_rank(ten, share) for share in (0, 0.5, 0.51, 0.95, 1)] == [1, 5, 6, 10, 10]
    assert nearest_rank([], 0.5) is None


def test_activity_metrics_leave_handoffs_to_their_own() -> None:
    calls = [tool("find"), tool("find", ok=False), tool("pay"), tool("transfer", handoff=True, ok=None)]
    made = session([("hi", calls)], handoffs=(("shop", "cashier"),))
    assert [measured(name, made) for name in ("tool_utilization", "tool_success_rate", "agent_handoffs")] == [
        Score(3.0, None, "3 calls of 2 tools", (), {"unique_tools": 2, "tool_counts": {"find": 2, "pay": 1}}),
        Score(
            2 / 3,
            None,
            "failed: find",
            ("find",),
            {"tool_calls": 3, "failed_tool_calls": 1, "failed_tools": ["find"]},
        ),
        Score(1.0, None, "shop to cashier", (), {"handoffs": [["shop", "cashier"]], "agents": ["shop"]}),
    ]


def test_activity_that_is_not_recorded_is_inconclusive() -> None:
    made = session([("hi", [tool("find"), tool("pay", ok=None)])], handoffs=None)
    assert [measured("tool_success_rate", one) for one in (made, session())] == [
        Inconclusive("whether pay failed is not recorded; record the result or the error", 1.0),
        Inconclusive("no tool call is recorded; if a tool ran, record it with a span"),
    ]
    assert measured("agent_handoffs", made) == Inconclusive(
        "hand-offs are not recorded; name the agents on the spans (gen_ai.agent.name)"
    )
    assert measured("grounding_utilization", made) == Inconclusive(
        "no model call is recorded; instrument the model's client, or use llm_call"
    )
    assert measured("sandbox_usage", made) == Inconclusive(
        "no model call is recorded; instrument the model's client, or use llm_call"
    )


def test_grounding_and_code_execution_are_told_by_the_model_calls() -> None:
    calls = (
        llm(grounding_chunks=3, code_executions=0),
        llm(grounding_chunks=0, code_executions=2, span_id="ran"),
    )
    made = session(llm_calls=calls)
    assert measured("grounding_utilization", made) == Score(
        0.5,
        None,
        "1 of 2 model calls, on 3 sources",
        ("llm",),
        {"grounded_llm_calls": 1, "llm_calls": 2, "grounding_chunks": 3},
    )
    assert measured("sandbox_usage", made) == Score(2.0, None, "2 runs in 1 of 2 model calls", ("ran",))
    made = session(llm_calls=(*calls, llm()))
    assert measured("grounding_utilization", made) == Inconclusive(
        "grounding is not recorded for 1 of 3 model calls; record the model's response with its grounding",
        2 / 3,
    )
    assert measured("sandbox_usage", made) == Inconclusive(
        "code execution is not recorded for 1 of 3 model calls; "
        "record the model's response with all its parts"
    )


@pytest.mark.parametrize(
    ("text", "name", "threshold", "higher_is_better"),
    [
        ("tools:recall", "tools:recall", 1.0, True),
        (" tools:recall >= 0.5 ", "tools:recall", 0.5, True),
        ("tools:recall:exact>=0.5", "tools:recall:exact", 0.5, True),
        ("cost", "cost", None, False),
        ("cost<=1e-2", "cost", 0.01, False),
        ("agent_handoffs<=3", "agent_handoffs", 3.0, False),
        ("agent_handoffs>=1", "agent_handoffs", 1.0, True),
        ("trajectory_single_tool_use:get-cart.v2", "trajectory_single_tool_use:get-cart.v2", 1.0, True),
    ],
)
def test_a_metric_is_asked_for_by_name_parameter_and_threshold(
    text: str, name: str, threshold: float | None, higher_is_better: bool
) -> None:
    asked = parse_metric(text)
    assert (asked.name, asked.threshold, asked.higher_is_better) == (name, threshold, higher_is_better)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tool_utilisation", 'metric "tool_utilisation" is not known; did you mean "tool_utilization"?'),
        ("", 'metric "": expected NAME, NAME>=THRESHOLD or NAME<=THRESHOLD'),
        ("tools:recall>=most", 'metric "tools:recall": expected a number after >=, found "most"'),
        ("tools:recall>=", 'metric "tools:recall": expected a number after >=, found ""'),
        ("tools:recall>=1.5", 'metric "tools:recall": expected a threshold from 0 to 1, found 1.5'),
        ("tools:recall>=nan", 'metric "tools:recall": expected a threshold from 0 to 1, found nan'),
        (
            "tools:recall<=0.5",
            'metric "tools:recall": expected >= before the threshold, found <=; write tools:recall>=0.5',
        ),
        (
            "tools:recall=0.5",
            'metric "tools:recall": expected >= before the threshold, found =; write tools:recall>=0.5',
        ),
        (
            "agent_handoffs>3",
            (
                'metric "agent_handoffs": expected >= or <= before the threshold, found >; '
                "write agent_handoffs>=3"
            ),
        ),
        ("cost>=1", 'metric "cost": expected <= before the threshold, found >=; write cost<=1'),
        ("cost<=-1", 'metric "cost": expected a threshold of 0 or more, found -1'),
        ("cost<=inf", 'metric "cost": expected a threshold of 0 or more, found inf'),
        ("cost:x", 'metric "cost" takes nothing after a colon, found "x"'),
        (
            "tools:recall:loose",
            'metric "tools": "loose" is not a matcher; expected one of subset, exact, superset, ignore',
        ),
        (
            "tools:any",
            f'metric "tools": "any" is not a by; expected one of {", ".join(BY)}',
        ),
        ("trajectory>=1", f'metric "trajectory" needs a by: {", ".join(f"trajectory:{by}" for by in BY)}'),
        ("tool_recall>=1", 'metric "tool_recall" is not known; did you mean "tools:recall"?'),
        ("conversation", 'metric "conversation" is not known; did you mean "turns_answered"?'),
        (
            "trajectory_single_tool_use",
            'metric "trajectory_single_tool_use" needs a tool: trajectory_single_tool_use:NAME',
        ),
    ],
)
def test_a_request_that_cannot_be_met_says_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_metric(text)
    assert str(refused.value) == message


def test_metrics_asked_for_together_are_each_asked_once() -> None:
    asked = parse_metrics(["cost", "tools:recall:exact", "tools:recall>=0.5"])
    assert [one.name for one in asked] == ["cost", "tools:recall:exact", "tools:recall"]
    with pytest.raises(InputError, match='metric "cost" is requested twice'):
        parse_metrics(["cost<=1", "cost<=2"])


def test_an_unknown_metric_near_no_other_is_answered_with_all() -> None:
    one = Metric("only", lambda made: Score(1.0))
    with pytest.raises(InputError, match='metric "zzz" is not known; there are only'):
        parse_metric("zzz", {"only": one})


def test_every_installed_metric_bears_its_own_name_and_says_what_it_gives() -> None:
    metrics = load_metrics()
    assert {
        name for name, one in metrics.items() if one.name != name or not one.description.endswith(".")
    } == set()
    assert set(metrics) >= {"trajectory", "tools", "cost", "agent_routing", "state_management_fidelity"}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Mapping[str, Metric]]:
    """Installs a package with this entry point for a metric, and loads all metrics."""

    def loaded(value: str) -> Mapping[str, Metric]:
        folder = tmp_path / "strange-1.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(f"[spangrade.metrics]\nzz = {value}\n")
        return load_metrics.__wrapped__()

    (tmp_path / "strange_metrics.py").write_text(
        "from spangrade.evaluator.metrics import metric\n"
        "from spangrade.evaluator.metrics import Score\n"
        "@metric(threshold=0.5)\n"
        "def tone(session):\n"
        "    'How polite it was.'\n"
        "    return Score(0.7)\n"
        "@metric()\n"
        "def cost(session):\n"
        "    'Another cost.'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return loaded


def test_a_metric_of_ones_own_comes_in_by_an_entry_point(
    installed: Callable[[str], Mapping[str, Metric]],
) -> None:
    own = installed("strange_metrics:tone")["tone"]
    assert (own.description, own.threshold, own(session())) == ("How polite it was.", 0.5, Score(0.7))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:x", "cannot be loaded: No module named 'no_such_module'"),
        ("math:no_such_name", "cannot be loaded: module 'math' has no attribute 'no_such_name'"),
        ("math:pi", "expected a Metric or several, found float"),
        ("strange_metrics:cost", 'another metric has the name "cost"'),
    ],
)
def test_an_entry_point_that_is_no_new_metric_is_refused(
    installed: Callable[[str], Mapping[str, Metric]], value: str, reason: str
) -> None:
    with pytest.raises(InputError) as refused:
        installed(value)
    assert str(refused.value) == (
        f'entry point "zz" ({value}) in spangrade.metrics, installed by strange 1: {reason}'
    )


def test_a_turn_that_ended_in_an_error_without_an_answer_fails_the_conversation() -> None:
    def conversation(**changes: Any) -> Outcome:
        made = session([("hi", [])])
        return measured(
            "turns_answered", replace(made, turns=(made.turns[0]._replace(**changes),)), question()
        )

    due = (Cause(None, "turns[1].reply", after="shop step"),)
    failed = Score(0.0, None, "turn 1 ended in an error without an answer", due)
    assert conversation(failed=True, final_response=None) == failed
    assert conversation(failed=True, final_response=" ") == failed
    assert value(conversation(failed=True, final_response="Sorry, try again later.")) == 1
    raised = failed._replace(reason=f"{failed.reason}: TimeoutError")
    assert conversation(failed=True, final_response="Recorded.", raised="TimeoutError") == raised
    not_recorded = Inconclusive("turn 1 has no reply, and no turn has: record the model's output", 1.0)
    assert conversation(failed=False, final_response=None) == not_recorded


def test_a_turn_without_a_users_message_may_be_begun_by_an_event() -> None:
    made = session([("hi", []), (None, []), ("bye", [])])
    whether = Inconclusive("whether a user began turn 2 is not recorded", 1.0)
    assert measured("turns_answered", made, question("hi", "bye")) == whether
    assert value(measured("turns_answered", made, question("hi", "what?", "bye"))) == 1
    too_many = Score(0.0, None, "went on for 3 turns of 1")
    assert measured("turns_answered", made, question("hi"))._replace(evidence=()) == too_many
    unrecorded = session([(None, []), (None, []), (None, [])])
    assert measured("turns_answered", unrecorded, question("hi"))._replace(evidence=()) == too_many
