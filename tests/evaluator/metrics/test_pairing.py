"""Which calls meet the expected ones."""

from __future__ import annotations

from typing import Any

import pytest
from builders import question, session, tool

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.pairing import best_met, pair_calls
from spangrade.evaluator.metrics.tools import tool_usage_accuracy

FIND = question(tools=[("find", {"q": "a"}), "pay"])


def alternatives(*lists: list[dict[str, Any]]) -> GoldenQuestion:
    first, *others = lists
    reference = {"reference_tool_interactions": first, "reference_tool_alternatives": others}
    return GoldenQuestion.model_validate(
        {"id": "q", "user_inputs": ["hi"], "agents_evaluated": ["shop"], "reference_data": reference}
    )


def test_a_call_whose_arguments_are_not_recorded_is_not_paired() -> None:
    calls = [tool("pay"), tool("find")]
    assert pair_calls(FIND.accepted_calls[0], calls, {}) == [None, 0]
    assert pair_calls(FIND.accepted_calls[0], [*calls, tool("find", {"q": "a"})], {}) == [2, 0]


@pytest.mark.parametrize(
    ("made", "best"), [(["find", "pay"], 0), (["ask"], 1), (["ask", "pay"], 2), (["other"], 1), ([], 1)]
)
def test_the_accepted_calls_that_differ_least_are_the_best_met(made: list[str], best: int) -> None:
    lists = [["find", "pay"], ["ask"], ["ask", "pay"]]
    asked = alternatives(*([{"tool_name": name} for name in names] for names in lists))
    found = best_met(session([("hi", [tool(name) for name in made])]), asked)
    assert [call.tool_name for call in found] == lists[best]


def test_calls_that_are_all_met_decide_whatever_is_unknown_of_the_alternatives() -> None:
    asked = alternatives([{"tool_name": "pay"}], [{"tool_name": "find", "input_arguments": {"q": "a"}}])
    made = session([("hi", [tool("pay"), tool("find")])])
    outcome = tool_usage_accuracy(made, asked)
    assert (outcome.value, outcome.reason) == (1.0, "as expected")


@pytest.mark.parametrize(("count", "rest"), [(4, ""), (5, ""), (6, " and 1 more"), (15, " and 10 more")])
def test_five_calls_are_named(count: int, rest: str) -> None:
    names = [f"t{number}" for number in range(count)]
    outcome = tool_usage_accuracy(session([("hi", [])]), question(tools=names))
    assert (outcome.value, outcome.reason) == (0.0, f"missing: {', '.join(names[:5])}{rest}")
