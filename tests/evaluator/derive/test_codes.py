"""The message of a failed call that is only a code yields to the text of its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import sessions

from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span

SAID = "Refund limit is 40.00 EUR"
CODES = ("TOOL_ERROR", "ValueError", "app.errors.LimitError", "tool_error", "500", "E-42")
RESULTS: tuple[Any, ...] = (
    {"error": SAID},
    {"error": {"message": SAID}},
    {"error": {"code": "LIMIT", "message": SAID}},
    {"error": "LIMIT", "message": SAID},
    {"status": "error", "detail": SAID},
    {"isError": True, "content": [{"type": "text", "text": SAID}]},
    SAID,
)


def failed(message: str | None, result: Any, db: Path, **more: Any) -> Session:
    around = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund", **more}
    if result is not None:
        given["gen_ai.tool.call.result"] = json.dumps(result)
    ended = {"status": "ERROR", "status_message": message}
    spans = [
        Span("a" * 32, "1" * 16, None, "desk", "INTERNAL", 0, 9, attributes=around, **ended),
        Span("a" * 32, "2" * 16, "1" * 16, "refund", "INTERNAL", 1, 8, attributes=given, **ended),
    ]
    (session,) = sessions(spans, db)
    return session


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("result", RESULTS, ids=str)
def test_a_code_yields_to_the_text_of_the_result(code: str, result: Any, tmp_path: Path) -> None:
    session = failed(code, result, tmp_path / "s.duckdb", **{"error.type": code})
    (call,) = session.tool_interactions
    assert (call.ok, call.error) == (False, SAID)
    assert [(one.where, one.message) for one in session.errors] == [("tool refund", SAID)]


@pytest.mark.parametrize(
    ("message", "result", "expected"),
    [
        ("TOOL_ERROR", None, "TOOL_ERROR"),
        ("TOOL_ERROR", {"error": True}, "TOOL_ERROR"),
        ("TOOL_ERROR", {"order": "A-17"}, "TOOL_ERROR"),
        ("TOOL_ERROR", {"error": "LIMIT"}, "TOOL_ERROR"),
        ("TimeoutError", "Error: TimeoutError", "TimeoutError"),
        ("TimeoutError", "Tool failed: TimeoutError", "Tool failed: TimeoutError"),
        ("The shop is closed", {"error": SAID}, "The shop is closed"),
        ("退款失败", {"error": SAID}, "退款失败"),
    ],
)
def test_a_code_stays_without_a_text_and_a_message_always(
    message: str, result: Any, expected: str, tmp_path: Path
) -> None:
    (call,) = failed(message, result, tmp_path / "s.duckdb").tool_interactions
    assert call.error == expected
