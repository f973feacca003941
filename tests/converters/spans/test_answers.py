"""Which calls are the agent's answer: whole names alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import sessions_of_file

from spangrade.converters.datasets.formats import read_dataset
from spangrade.converters.spans.parts import is_answer


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


TEXT = "Refunded."
ASKED = {"role": "user", "content": "Refund A1"}


def _otlp(name: str, arguments: str) -> dict[str, Any]:
    call = {"type": "tool_call", "id": "c1", "name": name, "arguments": arguments}
    output = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call]}])}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps([ASKED]), **output}
    tool = {"openinference.span.kind": "TOOL", "tool.name": name, "tool_call.id": "c1", "session.id": "s"}
    mlflow = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    spans = [
        {
            "traceId": "1" * 32,
            "spanId": f"{n:016x}",
            "name": "a",
            "startTimeUnixNano": str(n),
            "endTimeUnixNano": str(n),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
        }
        for n, attributes in enumerate((chat, tool, mlflow), 1)
    ]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]}


@pytest.mark.parametrize(
    "name", ["final_answer", "final_result_Refund", "set_model_response", "final_results"]
)
@pytest.mark.parametrize("form", ["chat", "results", "anthropic", "atif", "spans", "adk session"])
def test_an_answer_given_as_a_call_is_the_reply(form: str, name: str, tmp_path: Path) -> None:
    arguments = {"answer": TEXT} if name == "final_answer" else {"order": "A1", "done": True}
    expected = TEXT if name == "final_answer" else '{"done":true,"order":"A1"}'
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    use = {"type": "tool_use", "id": "c1", "name": name, "input": arguments}
    steps = [
        {"step_id": 1, "source": "user", "message": "Refund A1"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": "c1", "function_name": name, "arguments": arguments}],
        },
    ]
    parts = [{"functionCall": {"id": "c1", "name": name, "args": arguments}}]
    events = [
        {
            "author": author,
            "invocationId": "e1",
            "timestamp": 1.0,
            "content": {"role": role, "parts": content},
        }
        for author, role, content in (("user", "user", [{"text": "Refund A1"}]), ("shop", "model", parts))
    ]
    document = {
        "chat": [ASKED, call],
        "results": [
            ASKED,
            call,
            {"role": "tool", "tool_call_id": "c1", "content": "Final result processed."},
        ],
        "anthropic": [ASKED, {"role": "assistant", "content": [use]}],
        "atif": {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a"}, "steps": steps},
        "spans": _otlp(name, json.dumps(arguments)),
        "adk session": {"id": "s", "appName": "shop", "userId": "u", "events": events},
    }[form]
    file = tmp_path / "file.json"
    file.write_text(json.dumps(document))
    sessions = sessions_of_file(file, tmp_path / "s.duckdb")
    replies = [turn.final_response for session in sessions for turn in session.turns]
    calls = [one.tool_name for s in sessions for one in (*s.tool_interactions, *s.requested_calls)]
    if is_answer(name):
        assert (replies, calls) == ([expected], [])
    else:
        assert set(calls) == {name}
        assert expected not in replies


@pytest.mark.parametrize("camel", [False, True])
def test_an_answer_given_as_a_call_is_the_reply_of_a_converted_eval_case(camel: bool, tmp_path: Path) -> None:
    uses = [
        {"id": "c0", "name": "refund", "args": {}},
        {"id": "c1", "name": "final_answer", "args": {"answer": TEXT}},
    ]
    keys = ("evalSetId", "evalCases", "evalId", "userContent", "intermediateData", "toolUses")
    if not camel:
        keys = ("eval_set_id", "eval_cases", "eval_id", "user_content", "intermediate_data", "tool_uses")
    set_id, cases, eval_id, user, data, calls = keys
    turn = {user: {"parts": [{"text": "Refund A1"}]}, data: {calls: uses}}
    file = tmp_path / "set.json"
    file.write_text(json.dumps({set_id: "s", cases: [{eval_id: "q", "conversation": [turn]}]}))
    (question,) = read_dataset(file).questions.golden_questions
    reference = question.reference_data
    assert [call.tool_name for call in reference.reference_tool_interactions or ()] == ["refund"]
    assert reference.reference_response == TEXT
