"""What an agent yields as the outcome of a call, by the marks beside the result."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from spangrade.evaluator.agents.adapters.reading import read_reply


@dataclass
class Event:
    tool_name: str
    tool_args: dict[str, Any]
    result: Any
    is_error: bool = False
    status: str = ""


@pytest.mark.parametrize(
    ("event", "result"),
    [
        (Event("pay", {}, "done"), "done"),
        (Event("pay", {}, "no", is_error=True), {"error": "no"}),
        (Event("pay", {}, "no", status="failed"), {"error": "no"}),
        (SimpleNamespace(tool_name="pay", result=None, error="no"), {"error": "no"}),
        (SimpleNamespace(tool_name="pay", result=None, exception="no"), {"error": True}),
        (SimpleNamespace(tool_name="pay", result="done", error=None), "done"),
    ],
)
def test_a_call_failed_by_the_marks_that_messages_and_spans_have_too(event: Any, result: Any) -> None:
    reply = read_reply([event, "Paid."])
    assert reply.tool_calls is not None
    assert [call.result for call in reply.tool_calls] == [result]
