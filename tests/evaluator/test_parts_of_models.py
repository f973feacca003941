"""The parts of a model's message at each door: recorded messages, spans of two conventions, raw responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from builders import built_session, observed_fields

from spangrade import GradeSpec
from spangrade.converters.datasets import adk_events
from spangrade.converters.recordings import messages
from spangrade.evaluator.grading import grade as grading
from spangrade.evaluator.grading.prepare import prepare
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span

TEXT = {"type": "text", "text": "Done."}


def of_messages(parts: list[dict[str, Any]]) -> list[Span]:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [*parts, TEXT]}]
    read = messages.read({"id": "s1", "messages": said})
    assert read is not None
    return [one for one in read if isinstance(one, Span)]


def of_adk(parts: list[dict[str, Any]]) -> list[Span]:
    content = {"role": "model", "parts": [*parts, {"text": "Done."}]}
    event = {"author": "desk", "invocation_id": "i1", "timestamp": 1_795_000_000.0, "content": content}
    turns = adk_events.invocations({"events": [event]}, "s1")
    (turn,) = [one for one in turns if isinstance(one, adk_events.Invocation)]
    return list(adk_events.spans_of("s1", [turn._replace(user_input="Hi")], None))


def chat(attributes: dict[str, Any]) -> list[Span]:
    named = {key: one if isinstance(one, str) else json.dumps(one) for key, one in attributes.items()}
    return [Span("1" * 32, "1" * 16, None, "chat", "CLIENT", 1, 2 * 10**9, attributes=named, scope_name="x")]


def of_spans(parts: list[dict[str, Any]]) -> list[Span]:
    return chat(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "s1",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}],
            "gen_ai.output.messages": [{"role": "assistant", "parts": [*parts, TEXT]}],
        }
    )


def of_raw_response(parts: list[dict[str, Any]]) -> list[Span]:
    """OpenInference's flattened messages have the texts alone; the response beside them has all."""
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    return chat(
        {
            "openinference.span.kind": "LLM",
            "session.id": "s1",
            "llm.model_name": "m",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "Hi",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "Done.",
            "output.value": {"object": "response", "output": [*parts, item]},
        }
    )


DOORS = (of_messages, of_spans, of_raw_response, of_adk)
Door = Callable[[list[dict[str, Any]]], list[Span]]


def session_of(spans: list[Span]) -> Session:
    return built_session("s1", "conversation", observed_fields(spans))


def graded(spans: list[Span], **references: Any) -> Grade:
    spec = GradeSpec([{"id": "q1", "user_inputs": ["Hi"], "reference_data": references}])
    (only,) = grading.grade(prepare(spec, None), [session_of(spans)])
    return only


SEARCH = {"type": "web_search_call", "id": "w1", "name": "web_search", "status": "completed"}
GATES: dict[str, dict[str, Any]] = {
    "forbidden": {"forbidden_tools": ["web_search"]},
    "none": {"reference_tool_interactions": []},
    "further": {"no_further_calls": True, "reference_tool_interactions": []},
    "limit": {"at_most": {"web_search": 0}},
    "order": {"before": [["look_up", "web_search"]]},
}


@pytest.mark.parametrize("references", GATES.values(), ids=GATES)
@pytest.mark.parametrize("door", DOORS)
def test_a_tool_that_the_provider_ran_counts_in_every_gate(door: Door, references: dict[str, Any]) -> None:
    assert graded(door([SEARCH]), **references).verdict == "failed"
    (call,) = session_of(door([SEARCH])).tool_interactions
    assert (call.tool_name, call.provider, call.ok) == ("web_search", True, True)


@pytest.mark.parametrize("references", GATES.values(), ids=GATES)
@pytest.mark.parametrize("door", DOORS)
def test_a_part_that_nobody_knows_leaves_calls_unknown_and_is_named(
    door: Door, references: dict[str, Any]
) -> None:
    grade = graded(door([{"type": "brand_new", "id": "b1", "payload": {"a": 1}}]), **references)
    assert grade.verdict == "inconclusive"
    assert "`brand_new`" in grade.reason


@pytest.mark.parametrize("references", GATES.values(), ids=GATES)
@pytest.mark.parametrize(
    "part",
    [
        {"type": "mcp_list_tools", "id": "l1", "tools": [{"name": "web_search"}]},
        {"type": "mcp_approval_request", "id": "a1", "name": "web_search", "arguments": "{}"},
        {"type": "reasoning", "id": "r1", "summary": []},
    ],
)
@pytest.mark.parametrize("door", DOORS)
def test_what_is_on_offer_or_asks_for_approval_passes(
    door: Door, part: dict[str, Any], references: dict[str, Any]
) -> None:
    assert graded(door([part]), **references).verdict == "passed"


@pytest.mark.parametrize("door", DOORS[:2] + DOORS[3:])
def test_code_without_a_call_is_forbidden_as_code_execution_alone(door: Door) -> None:
    spans = door([{"executable_code": {"language": "PYTHON", "code": "1"}}])
    assert sum(call.code_executions or 0 for call in session_of(spans).llm_calls) == 1
    for name in ("code_execution", "code_interpreter"):
        assert graded(spans, forbidden_tools=[name]).verdict == "failed"
    assert graded(spans, forbidden_tools=["web_search"]).verdict == "passed"
    assert graded(spans, reference_tool_interactions=[]).verdict == "passed"


@pytest.mark.parametrize("references", GATES.values(), ids=GATES)
@pytest.mark.parametrize("door", DOORS)
def test_a_call_without_a_name_leaves_calls_unknown(door: Door, references: dict[str, Any]) -> None:
    part = {"type": "tool_use", "id": "t1", "input": {"a": 1}}
    assert graded(door([part]), **references).verdict == "inconclusive"


@pytest.mark.parametrize("references", GATES.values(), ids=GATES)
@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": "{}"},
        {"openinference.span.kind": "TOOL", "input.value": "{}"},
        {"langfuse.observation.type": "tool", "langfuse.observation.input": "{}"},
    ],
)
def test_a_tool_s_span_without_a_name_cannot_pass(
    attributes: dict[str, Any], references: dict[str, Any]
) -> None:
    (model,) = of_spans([])
    times = {"start_ns": 1, "end_ns": 2}
    tool = model._replace(span_id="2" * 16, name="", parent_span_id="1" * 16, attributes=attributes, **times)
    assert graded([model, tool], **references).verdict == "inconclusive"
    named = tool._replace(
        attributes={**attributes, "gen_ai.tool.name": "find", "tool.name": "find"}, name="find"
    )
    assert session_of([model, named]).tool_interactions[0].tool_name == "find"


@pytest.mark.parametrize(
    ("expected", "verdict"),
    [
        ({"limit": 5}, "passed"),
        ({"limit": 6}, "failed"),
        ({"order_id": "A-17"}, "inconclusive"),
        ({"order_id": "A-17", "limit": 6}, "failed"),
        ({"order_id": {"$pattern": "A-.*"}}, "inconclusive"),
    ],
)
def test_what_was_removed_from_arguments_may_be_any_value(expected: dict[str, Any], verdict: str) -> None:
    (model,) = of_spans([])
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find",
        "gen_ai.tool.call.arguments": '{"order_id": "[REDACTED]", "limit": 5}',
        "gen_ai.tool.call.result": "found",
    }
    tool = model._replace(span_id="2" * 16, name="find", parent_span_id="1" * 16, attributes=attributes)
    reference = [{"tool_name": "find", "input_arguments": expected}]
    grade = graded([model, tool], reference_tool_interactions=reference)
    assert grade.verdict == verdict
