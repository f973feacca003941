"""What messages tell, whoever shaped them."""

from __future__ import annotations

from typing import Any

import pytest

from spangrade.converters.spans.messages import code_executions

RAN = {"executable_code": {"code": "print(1)", "language": "PYTHON"}}
RESULT = {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}}
INTERPRETER = {"type": "server_tool_call", "name": "code", "server_tool_call": {"type": "code_interpreter"}}
SEARCH = {"type": "server_tool_call", "name": "search", "server_tool_call": {"type": "web_search"}}
UNSET = {"text": "1", "executable_code": {}, "code_execution_result": {}}


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        ({"role": "model", "parts": [{"text": "so"}, RAN, RESULT, RAN, RESULT]}, 2),
        ([{"role": "assistant", "parts": [INTERPRETER, SEARCH]}], 1),
        ([{"role": "assistant", "content": [{"type": "server_tool_use", "name": "code_execution"}]}], 1),
        ({"parts": [UNSET, {"type": ["server_tool_call"], "name": {}}, "text", None]}, 0),
        ({"content": "print(1)"}, 0),
        (None, 0),
    ],
)
def test_code_runs_are_counted_in_geminis_parts_and_in_those_of_the_conventions(
    answer: Any, runs: int
) -> None:
    assert code_executions(answer) == runs
