"""Which calls are the agent's answer: whole names alone."""

from __future__ import annotations

import pytest

from spangrade.converters.spans.answers import is_answer


@pytest.mark.parametrize(
    "name",
    ["final_answer", "final_result", "final_result_Refund", "set_model_response", "json_tool_call"],
)
def test_an_answer_given_as_a_call_is_no_tool(name: str) -> None:
    assert is_answer(name)
    for other in (f"x{name}", f"{name}s", f"my_{name}", name.upper(), f"mcp__{name}"):
        assert is_answer(other) is other.startswith("final_result_")


@pytest.mark.parametrize("name", ["final_results_upload", "final_result_", "final_answers", "final", ""])
def test_a_name_that_only_begins_as_an_answers_is_a_tool(name: str) -> None:
    assert not is_answer(name)
