"""OpenInference and OpenLLMetry, and what LangChain and LangGraph mean in both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import Fields, reading
from recordings import PARENT_ID, SPAN_ID, TRACE_ID, TURNS, dotted, observed, records, sessions

from spangrade.converters.spans import langchain_values, run_io
from spangrade.converters.spans.flattened import numbered
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.evaluator.session import Session
from spangrade.tracer.span import LogRecord, Span

CART = {
    "customer_id": "C-1001",
    "items": [
        {"product_id": "soil-123", "name": "potting soil", "quantity": 1},
        {"product_id": "fert-456", "name": "fertilizer", "quantity": 2},
    ],
    "subtotal": 129.9,
}


def discount(value: int) -> dict[str, Any]:
    return {"value": value, "type": "percentage", "reason": "price match"}


TOOLS = [
    ("get_cart", {"customer_id": "C-1001"}, CART, True, "call_1", 1),
    ("approve_discount", discount(50), None, False, "call_2", 2),
    ("approve_discount", discount(10), {"status": "approved", **discount(10)}, True, "call_3", 2),
    ("get_cart", {"customer_id": "C-1001"}, CART, True, "call_4", 2),
]
LIMIT = "discount 50.0 exceeds the limit of 20"
BOTH = ("customer_service_agent", "returns_agent")


def tools(found: Session) -> list[tuple[Any, ...]]:
    return [
        (t.tool_name, t.input_arguments, t.output if t.ok else None, t.ok, t.call_id, t.turn)
        for t in found.tool_interactions
        if not t.handoff
    ]


@pytest.mark.parametrize("name", ["langgraph_openinference", "langgraph_traceloop", "langgraph_genai"])
def test_langgraph_is_the_same_session_by_whichever_instrumentation(name: str, tmp_path: Path) -> None:
    (found,) = sessions(records(name), tmp_path / "s.duckdb")

    assert found.session_id == "conv-cs-001"
    assert [(t.user_input, t.final_response) for t in found.turns] == TURNS
    assert found.agents == BOTH
    assert found.handoffs == (BOTH,)
    assert tools(found) == TOOLS
    assert found.state_variables == {"customer_id": "C-1001", "cart_subtotal": 129.9}
    assert [(e.where, e.message) for e in found.errors] == [("tool approve_discount", LIMIT)]
    assert (found.usage.llm_calls, found.usage.input_tokens, found.usage.output_tokens) == (7, 980, 168)
    assert found.usage.cached_input_tokens == 280


def test_two_instrumentations_at_once_count_nothing_twice(tmp_path: Path) -> None:
    (found,) = sessions(records("openai_agents_double"), tmp_path / "s.duckdb")

    assert [(t.user_input, t.final_response) for t in found.turns] == TURNS
    assert found.agents == BOTH
    assert found.handoffs == (BOTH,)
    assert tools(found) == TOOLS
    usage = found.usage
    assert (usage.llm_calls, usage.input_tokens, usage.output_tokens) == (7, 980, 168)
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (280, 56)
    assert found.state_variables is None


def test_crewai_gives_its_template_s_one_input_as_the_user_s(tmp_path: Path) -> None:
    (found,) = sessions(records("crewai"), tmp_path / "s.duckdb")

    assert [(t.user_input, t.final_response) for t in found.turns] == TURNS
    assert found.handoffs == (BOTH,)
    assert tools(found) == [(*call[:4], None, call[5]) for call in TOOLS]  # no span has a call id
    assert found.usage.llm_calls is None
    assert found.models is None
    assert found.state_variables is None


# --- one span at a time


def observation(
    attributes: dict[str, Any],
    name: str = "s",
    *,
    parent: str | None = PARENT_ID,
    scope: str = "some.scope",
    **more: Any,
) -> Fields:
    """Return the observation of one span, by default under another."""
    return observed(attributes, name, parent, scope_name=scope, **more)


def tool_output(value: Any) -> dict[str, Any]:
    """Return what a tool's output changes of its call."""
    plain = reading("tool", "b", seconds=(0, 2e-9))
    changed = Fields(langchain_values.with_tool_output(plain.observation, value))  # type: ignore[arg-type]
    names = ("result", "call_id", "failed", "state", "handoff_to")
    return {name: getattr(changed, name) for name in names if getattr(changed, name) != getattr(plain, name)}


def oi(kind: str, name: str = "s", **attributes: Any) -> Fields:
    return observation({"openinference.span.kind": kind, **dotted(**attributes)}, name)


def test_a_model_call_is_read_from_flattened_attributes() -> None:
    found = observation(
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m-1",
            "llm.provider": "openai",
            "llm.system": "azure",
            "llm.token_count.prompt": "10",
            "llm.token_count.completion": 3,
            "llm.token_count.prompt_details.cache_read": 4,
            "llm.token_count.completion_details.reasoning": 2,
            "session.id": "s-1",
            "output.value": '{"id": "resp_1"}',
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "Where is it?",
            "llm.input_messages.1.message.role": "assistant",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "find",
            "llm.input_messages.2.message.role": "user",  # as Anthropic's messages have it
            "llm.input_messages.2.message.tool_call_id": "c1",
            "llm.input_messages.2.message.content": '{"at": "home"}',
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "Let me see.",
            "llm.output_messages.0.message.contents.0.message_content.type": "text",
            "llm.output_messages.0.message.contents.0.message_content.text": "Let me see.",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c2",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"at": "home"}',
        }
    )
    assert found == reading("llm", SPAN_ID, PARENT_ID)._replace(
        trace_id=TRACE_ID,
        start_ns=1,
        end_ns=2,
        conversation_id="s-1",
        user_input="Where is it?",
        user_messages=1,
        response="Let me see.",
        continues=True,
        provider="openai",
        model="m-1",
        call_key="resp_1",
        input_tokens=10,
        output_tokens=3,
        cached_input_tokens=4,
        reasoning_tokens=2,
        tool_calls=(MessageCall("look", "c2", '{"at":"home"}'),),
        tool_results=(ToolResult(None, "c1", '{"at":"home"}'),),
        repeated_calls=(MessageCall("find", None, None),),
        span_name="s",
        scope="some.scope",
    )


def test_members_come_in_the_order_of_their_numbers() -> None:
    spelled = {f"m.{n}.role": str(n) for n in (10, 2, 0)} | {"m.x.role": "none", "other.1.role": "none"}
    assert numbered(spelled, "m.") == [{"role": "0"}, {"role": "2"}, {"role": "10"}]


def test_a_number_of_more_than_nine_digits_is_no_place_in_a_list() -> None:
    spelled = {f"m.{'1' * digits}.role": str(digits) for digits in (9, 10)}
    assert numbered(spelled, "m.") == [{"role": "9"}]


def test_a_run_is_an_agent_only_where_something_names_one() -> None:
    assert [
        (o.kind, o.name)
        for o in (
            oi("AGENT", "Customer service"),
            oi("AGENT", "x", agent__name="returns"),
            oi("AGENT", "x", graph__node__id="returns"),
            oi("AGENT", "x", graph__node__id="0f3a6bc2d91e77aa"),
            oi("CHAIN", "x", graph__node__id="turn"),
            oi("AGENT", "returns.run", smolagents__max_steps=20),
            oi("AGENT", "CodeAgent.run", smolagents__max_steps=20),
        )
    ] == [
        ("workflow", None),
        ("agent", "returns"),
        ("agent", "returns"),
        ("workflow", None),
        ("workflow", None),
        ("agent", "returns"),
        ("workflow", None),
    ]


@pytest.mark.parametrize(
    ("kind", "run", "metadata", "name"),
    [
        ("CHAIN", "returns", {"lc_agent_name": "returns", "langgraph_node": "node"}, "returns"),
        ("AGENT", "returns_agent", {"langgraph_node": "returns_agent"}, "returns_agent"),
        ("AGENT", "agent", {"langgraph_node": "agent"}, None),  # the node that asks the model
        ("AGENT", "pick_agent", {"langgraph_node": "returns_agent"}, None),  # a function inside a node
        ("AGENT", "OpenAIToolsAgentOutputParser", {"ls_integration": "langgraph"}, None),
    ],
)
def test_not_every_run_that_langchain_calls_an_agent_is_one(
    kind: str, run: str, metadata: dict[str, str], name: str | None
) -> None:
    assert oi(kind, run, metadata=json.dumps(metadata)).name == name


def test_a_tools_arguments_are_recorded_in_many_forms() -> None:
    def arguments(**attributes: Any) -> str | None:
        return oi("TOOL", tool__name="find", **attributes).arguments

    schema = {"type": "object", "properties": {"order": {"type": "string"}}}
    assert arguments(input__value='{"order": "7"}') == '{"order":"7"}'
    assert arguments(input__value="{'order': '7', 'now': True}") == '{"now":true,"order":"7"}'
    assert arguments(input__value='{"args": [], "kwargs": {"order": "7"}}') == '{"order":"7"}'
    assert arguments(input__value='{"kwargs": {"order": "7"}}') == '{"order":"7"}'
    assert arguments(input__value='{"args": ["7"], "kwargs": {}}') is None
    assert arguments(input__value="A-7", tool__parameters=json.dumps(schema)) == '{"order":"A-7"}'
    assert arguments(input__value="A-7") == '"A-7"'
    assert arguments() is None


def test_a_final_answer_and_a_handoff_are_not_tools() -> None:
    handoff = oi("TOOL", "handoff to returns", input__value="service", output__value="returns")
    assert (handoff.kind, handoff.agent, handoff.handoff_to) == ("handoff", "service", "returns")
    assert oi("TOOL", "FinalAnswerTool", tool__name="final_answer").kind == "other"
    assert oi("TOOL", "unnamed").kind == "other"
    assert oi("RETRIEVER", "unnamed").kind == "other"
    assert oi("LLM", "OpenAI._prepare_chat_with_tools").kind == "other"
    delegation = {"coworker": "returns", "task": "do it"}
    crew = oi("TOOL", tool__name="Delegate work to coworker", input__value=json.dumps(delegation))
    assert (crew.kind, crew.handoff_to) == ("tool", "returns")


def test_a_framework_s_own_type_of_answer_is_unwrapped() -> None:
    raw = {"tool_name": "find", "raw_input": {"kwargs": {}}, "raw_output": {"at": "home"}, "is_error": True}
    index = oi("TOOL", tool__name="find", output__value=json.dumps(raw))
    assert (index.result, index.failed) == ('{"at":"home"}', True)
    adk = oi(
        "TOOL",
        tool__name="find",
        output__value=json.dumps({"id": "c1", "name": "find", "response": {"ok": 1}}),
    )
    assert (adk.result, adk.call_id) == ('{"ok":1}', "c1")
    other = oi("TOOL", tool__name="find", output__value='{"name": "Ann", "response": "yes"}')
    assert other.result == '{"name":"Ann","response":"yes"}'


def test_only_the_topmost_run_s_plain_input_is_the_user_s() -> None:
    said = {"openinference.span.kind": "CHAIN", "input.value": '{"question": "Why?", "k": 3}'}
    assert observation(said, parent=None).user_input == "Why?"
    assert observation(said).user_input is None
    several = {"openinference.span.kind": "CHAIN", "input.value": '{"topic": "tea", "year": "2026"}'}
    assert observation(several, parent=None).user_input is None
    spelled = {"openinference.span.kind": "CHAIN", "output.value": "StopEvent(result=AgentOutput(…"}
    assert observation(spelled, parent=None).response is None


@pytest.mark.parametrize(
    "value",
    [
        {"type": "tool", "data": {"content": '{"a": 1}', "type": "tool", "tool_call_id": "c1"}},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "ToolMessage"],
            "kwargs": {"content": '{"a": 1}', "tool_call_id": "c1"},
        },
        {"type": "tool", "content": '{"a": 1}', "tool_call_id": "c1"},
    ],
)
def test_a_tool_message_is_read_however_it_is_serialised(value: dict[str, Any]) -> None:
    assert tool_output(value) == {
        "result": '{"a":1}',
        "call_id": "c1",
    }
    command = {"graph": "__parent__", "update": {"messages": [value], "seen": 2}, "resume": None, "goto": "x"}
    assert tool_output([command]) == {
        "result": '{"a":1}',
        "call_id": "c1",
        "state": ((2, {"seen": 2}),),
        "handoff_to": "x",
    }


@pytest.mark.parametrize(
    ("name", "metadata", "output", "written"),
    [
        ("LangGraph", {}, {"seen": 2}, True),
        ("shop", {}, {"seen": 2}, False),
        ("shop", {"ls_integration": "langgraph"}, {"seen": 2}, True),
        ("shop", {}, {"seen": 2, "messages": [{"type": "ai", "content": "ho"}]}, True),
        ("LangGraph", {"langgraph_node": "shop"}, {"seen": 2}, False),
    ],
)
def test_the_output_of_a_graph_is_its_state(
    name: str, metadata: dict[str, Any], output: dict[str, Any], written: bool
) -> None:
    values = {"metadata": json.dumps(metadata), "output.value": json.dumps(output)}
    scope = "openinference.instrumentation.langchain"
    found = observation({"openinference.span.kind": "CHAIN"} | values, name, scope=scope)
    assert found.state == (((2, {"seen": 2}),) if written else ())


def test_a_models_output_has_what_an_older_instrumentation_does_not_flatten() -> None:
    usage = {"input_token_details": {"cache_read": 4}, "output_token_details": {"reasoning": 2}}
    calls = [{"name": "find", "args": {"at": 1}, "id": "c1", "type": "tool_call"}]
    fields = {"content": "", "type": "ai", "id": "run-1", "usage_metadata": usage, "tool_calls": calls}
    made = {"generations": [[{"message": {"lc": 1, "id": ["x", "AIMessage"], "kwargs": fields}}]]}
    found = oi("LLM", output__value=json.dumps(made), llm__output_messages__0__message__role="assistant")
    assert (found.call_key, found.cached_input_tokens, found.reasoning_tokens) == ("run-1", 4, 2)
    assert found.tool_calls == (MessageCall("find", "c1", '{"at":1}'),)
    assert langchain_values.model_output({"generations": [[]]}) == {}


def test_a_command_inside_one_graph_hands_nothing_over() -> None:
    command = {"graph": None, "update": None, "resume": None, "goto": "tools"}
    assert tool_output(command) == {}


def test_an_ordinary_answer_stays_as_it_is() -> None:
    assert tool_output({"type": "percentage", "content": "x"}) == {}
    assert tool_output({"graph": 1, "update": {}}) == {}
    assert tool_output(["tool", "axe", "saw"]) == {}
    assert tool_output({"output": """content='{"a": "it\\'s"}' tool_call_id='c1' status='error'"""}) == {
        "result": '{"a":"it\'s"}',
        "call_id": "c1",
        "failed": True,
    }


@pytest.mark.parametrize("kind", ["ParentCommand", "langgraph.errors.GraphInterrupt", "ValueError"])
def test_handing_over_and_waiting_are_not_failures(kind: str) -> None:
    event = {"name": "exception", "time_ns": 1, "attributes": {"exception.type": kind}}
    found = observation({"openinference.span.kind": "CHAIN"}, status="ERROR", events=[event])
    assert found.failed is (kind == "ValueError")
    assert observation(
        {"openinference.span.kind": "CHAIN"}, status="ERROR", status_message=f"{kind}('x')"
    ).failed is (kind == "ValueError")


def test_python_s_text_of_a_dict_is_that_dict_and_nothing_else_is() -> None:
    assert run_io.python_value("{'a': [1, None], 'b': True}") == {"a": [1, None], "b": True}
    for text in (
        "{'a': open('x')}",
        "{'a': 1",
        "'a'",
        "{a}",
        "{'a': " + "[" * 5000,
        "{'" + "a" * 200_000 + "': 1}",
    ):
        assert run_io.python_value(text) == text


def test_python_s_text_is_read_up_to_a_length() -> None:
    longest = "{'a': 1" + " " * 99_992 + "}"
    assert run_io.python_value(longest) == {"a": 1}
    assert run_io.python_value(longest + " ") == longest + " "


@pytest.mark.parametrize(
    ("kind", "found"), [("TOOL", "tool"), ("AGENT", "tool"), ("CHAIN", "workflow"), ("OTHER", "other")]
)
def test_a_tool_that_is_an_agent_is_a_tool(kind: str, found: str) -> None:
    assert oi(kind, tool__name="ask_returns").kind == found


def test_smolagents_names_the_span_of_a_run_after_its_agent() -> None:
    smolagents = {"smolagents.max_steps": 20}
    kind = {"openinference.span.kind": "AGENT"}
    assert [
        observation(kind | attributes, name).agent
        for attributes, name in (
            (smolagents, "shop.run"),
            (smolagents, "CodeAgent.run"),
            (smolagents, "shop"),
            ({}, "shop.run"),
        )
    ] == ["shop", None, None, None]


@pytest.mark.parametrize(
    ("value", "parameters", "expected"),
    [
        ({"input": {"q": 1}, "options": {}}, {"properties": {"q": {}}}, {"q": 1}),
        ({"input": {"q": 1}, "q": 2}, {"properties": {"q": {}}}, {"input": {"q": 1}, "q": 2}),
        ({"input": {"other": 1}}, {"properties": {"q": {}}}, {"input": {"other": 1}}),
        ({"input": {"q": 1}}, None, {"input": {"q": 1}}),
        ("a", {"properties": {"q": {}}}, {"q": "a"}),
        ("a", {"properties": {"q": {}, "n": {}}}, "a"),
        ("a", None, "a"),
        (None, {"properties": {"q": {}}}, None),
        ({"args": [], "kwargs": {"q": 1}}, None, {"q": 1}),
        ({"args": [1], "kwargs": {"q": 1}}, None, None),
        ({"args": [], "kwargs": {"q": 1}, "mine": 1}, None, {"args": [], "kwargs": {"q": 1}, "mine": 1}),
    ],
)
def test_arguments_are_unwrapped_where_the_schema_says_so(value: Any, parameters: Any, expected: Any) -> None:
    assert run_io.arguments(value, parameters) == expected


# --- OpenLLMetry


def test_older_openllmetry_flattens_its_messages() -> None:
    found = observation(
        {
            "llm.request.type": "chat",
            "gen_ai.system": "OpenAI",
            "gen_ai.request.model": "gpt-4.1",
            "llm.usage.prompt_tokens": 10,
            "gen_ai.usage.completion_tokens": 3,
            "traceloop.association.properties.chat_id": "s-1",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "Be kind.",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": '[{"type": "text", "text": "Where is it?"}]',
            "gen_ai.prompt.2.role": "assistant",
            "gen_ai.prompt.2.tool_calls.0.id": "c1",
            "gen_ai.prompt.2.tool_calls.0.name": "find",
            "gen_ai.prompt.3.role": "tool",
            "gen_ai.prompt.3.tool_call_id": "c1",
            "gen_ai.prompt.3.content": '{"at": "home"}',
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "At home.",
            "gen_ai.completion.0.tool_calls.0.id": "c2",
            "gen_ai.completion.0.tool_calls.0.name": "bring",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"from": "home"}',
        }
    )
    assert found == reading("llm", SPAN_ID, PARENT_ID)._replace(
        trace_id=TRACE_ID,
        start_ns=1,
        end_ns=2,
        conversation_id="s-1",
        user_input="Where is it?",
        user_messages=1,
        response="At home.",
        continues=True,
        provider="OpenAI",
        model="gpt-4.1",
        input_tokens=10,
        output_tokens=3,
        tool_calls=(MessageCall("bring", "c2", '{"from":"home"}'),),
        tool_results=(ToolResult(None, "c1", '{"at":"home"}'),),
        repeated_calls=(MessageCall("find", "c1", None),),
        span_name="s",
        scope="some.scope",
        requested_model="gpt-4.1",
        system_instructions="Be kind.",
    )


def test_a_conversation_id_is_found_in_langchain_s_callback_payload() -> None:
    payload = {"inputs": {"messages": []}, "tags": [], "metadata": {"thread_id": "t-1"}}
    found = observation({"traceloop.span.kind": "workflow", "traceloop.entity.input": json.dumps(payload)})
    assert (found.kind, found.conversation_id) == ("workflow", "t-1")


def test_openllmetry_s_kind_counts_more_than_its_operation() -> None:
    scope = "opentelemetry.instrumentation.crewai"
    operation = {"gen_ai.operation.name": "invoke_agent"}
    assert [
        (o.kind, o.name)
        for o in (
            observation(operation, "crewai.workflow", scope=scope),
            observation({"traceloop.span.kind": "task", **operation}, scope=scope),
            observation(
                {"traceloop.span.kind": "agent", "gen_ai.agent.name": "returns", **operation}, scope=scope
            ),
            observation({"traceloop.span.kind": "agent", "traceloop.entity.name": "returns"}),
            observation({"gen_ai.workflow.nodes": ["a", "b"], "gen_ai.agent.name": "graph", **operation}),
            observation(
                {"gen_ai.workflow.nodes": ["model", "tools"], "gen_ai.agent.name": "returns", **operation}
            ),
        )
    ] == [
        ("workflow", None),
        ("other", None),
        ("agent", "returns"),
        ("agent", "returns"),
        ("workflow", None),
        ("agent", "returns"),
    ]


def test_a_decorated_workflow_s_only_argument_is_the_user_s_message() -> None:
    def user_input(given: str) -> str | None:
        payload = {"traceloop.span.kind": "workflow", "traceloop.entity.input": given}
        return observation(payload, parent=None).user_input

    assert user_input('{"args": ["Any soil?"], "kwargs": {}}') == "Any soil?"
    assert user_input('{"args": [], "kwargs": {"question": "Any soil?"}}') == "Any soil?"


def test_the_results_before_the_user_s_last_message_are_not_those_of_a_graph_s_run() -> None:
    def called(number: int) -> list[dict[str, Any]]:
        call = {"name": "find", "id": f"c{number}", "args": {"number": number}}
        answer = {"type": "tool", "name": "find", "tool_call_id": f"c{number}", "content": f"found {number}"}
        question = {"type": "human", "content": f"question {number}"}
        return [question, {"type": "ai", "content": "", "tool_calls": [call]}, answer]

    output = {"outputs": {"messages": [*called(1), *called(2)]}}
    found = observation(
        {"traceloop.span.kind": "workflow", "traceloop.entity.output": json.dumps(output)}, parent=None
    )
    assert [call.call_id for call in found.tool_calls] == ["c2"]
    assert [result.call_id for result in found.tool_results] == ["c2"]


def test_a_decorated_tool_s_payload_is_unwrapped() -> None:
    found = observation(
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "find",
            "traceloop.entity.input": '{"args": [], "kwargs": {"order": "7"}}',
            "traceloop.entity.output": '{"at": "home"}',
        }
    )
    assert (found.kind, found.name) == ("tool", "find")
    assert (found.arguments, found.result) == ('{"order":"7"}', '{"at":"home"}')


# --- what is derived from them


def made(number: int, parent: int | None, start: int, end: int, attributes: dict[str, Any]) -> Span:
    above = None if parent is None else f"{parent:016x}"
    return Span("a" * 32, f"{number:016x}", above, "s", "INTERNAL", start, end, attributes=attributes)


def llm(**more: Any) -> dict[str, Any]:
    return {"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.token_count.prompt": 5, **more}


def test_calls_that_share_an_id_and_a_time_are_one(tmp_path: Path) -> None:
    same = llm(**{"output.value": '{"id": "r1"}'})
    spans = [
        made(1, None, 0, 100, {"openinference.span.kind": "CHAIN"}),
        made(2, 1, 10, 30, same),
        made(3, 1, 11, 29, same),  # another instrumentation, side by side with the first
        made(4, 1, 50, 60, same),  # a scripted model that gives every answer the same id
    ]
    (found,) = sessions(spans, tmp_path / "s.duckdb")
    assert (found.usage.llm_calls, found.usage.input_tokens) == (2, 10)


def test_a_call_inside_a_chain_inside_a_call_is_one(tmp_path: Path) -> None:
    spans = [
        made(1, None, 0, 100, llm()),
        made(2, 1, 10, 90, {"openinference.span.kind": "CHAIN"}),
        made(3, 2, 20, 80, llm(**{"llm.token_count.completion": 3})),
    ]
    (found,) = sessions(spans, tmp_path / "s.duckdb")
    assert (found.usage.llm_calls, found.usage.input_tokens, found.usage.output_tokens) == (1, 5, 3)


def test_a_tool_inside_itself_is_one_call_unless_its_arguments_differ(tmp_path: Path) -> None:
    tool = {"openinference.span.kind": "TOOL", "tool.name": "find"}
    spans = [
        made(1, None, 0, 100, {"openinference.span.kind": "AGENT", "agent.name": "a"}),
        made(2, 1, 10, 90, {**tool, "input.value": '{"at": 1}'}),
        made(3, 2, 20, 80, {**tool, "output.value": '{"found": true}'}),
        made(4, 2, 30, 70, {**tool, "input.value": '{"at": 2}'}),
    ]
    (found,) = sessions(spans, tmp_path / "s.duckdb")
    assert [(t.input_arguments, t.output) for t in found.tool_interactions] == [
        ({"at": 1}, {"found": True}),
        ({"at": 2}, None),
    ]


def test_parallel_calls_that_are_recorded_as_bare_values_find_their_own_messages(tmp_path: Path) -> None:
    tool = {"openinference.span.kind": "TOOL", "tool.name": "find"}
    call = "llm.output_messages.0.message.tool_calls"
    asked = {
        f"{call}.{i}.tool_call.{key}": value
        for i, at in enumerate(("A", "42"))
        for key, value in (
            ("id", f"c{i}"),
            ("function.name", "find"),
            ("function.arguments", f'{{"at": "{at}"}}'),
        )
    }
    spans = [
        made(1, None, 0, 100, {"openinference.span.kind": "AGENT", "agent.name": "a"}),
        made(2, 1, 1, 9, llm(**asked)),
        made(3, 1, 10, 20, {**tool, "input.value": "42"}),
        made(4, 1, 11, 20, {**tool, "input.value": "A"}),
    ]
    (found,) = sessions(spans, tmp_path / "s.duckdb")
    assert [(t.input_arguments, t.call_id) for t in found.tool_interactions] == [
        ({"at": "42"}, "c1"),
        ({"at": "A"}, "c0"),
    ]
    (alone,) = sessions([spans[0], spans[2]], tmp_path / "alone.duckdb")
    assert not alone.tool_interactions[0].arguments_known  # whose value 42 is, nothing tells


def test_the_reply_is_what_the_run_returned_where_the_model_only_wraps_it(tmp_path: Path) -> None:
    def run(answer: str) -> Span:
        return made(1, None, 0, 100, {"openinference.span.kind": "CHAIN", "output.value": answer})

    said = llm(**{"llm.output_messages.0.message.content": "Thought: done.\nFinal Answer: At home."})
    said["llm.output_messages.0.message.role"] = "assistant"
    (wrapped,) = sessions([run("At home."), made(2, 1, 1, 9, said)], tmp_path / "a.duckdb")
    (other,) = sessions([run("Something else."), made(2, 1, 1, 9, said)], tmp_path / "b.duckdb")
    assert wrapped.turns[0].final_response == "At home."
    assert other.turns[0].final_response == "Thought: done.\nFinal Answer: At home."


def test_a_step_to_a_node_that_is_not_an_agent_is_not_a_handoff(tmp_path: Path) -> None:
    agent = {"openinference.span.kind": "AGENT"}
    goto = {"gen_ai.operation.name": "goto"}
    spans = [
        made(1, None, 0, 100, {**agent, "agent.name": "Service"}),
        made(2, 1, 10, 11, {**goto, "langgraph.command.goto_node": "tools"}),
        made(3, 1, 20, 21, {"openinference.span.kind": "TOOL", "tool.name": "transfer_to_returns_desk"}),
        made(4, 1, 22, 23, {**goto, "langgraph.command.goto_node": "Returns desk"}),
        made(5, 1, 30, 40, {**agent, "agent.name": "Returns desk"}),
    ]
    (found,) = sessions(spans, tmp_path / "s.duckdb")
    assert found.handoffs == (("Service", "Returns desk"),)


def test_a_trace_without_an_agent_is_not_a_session(tmp_path: Path) -> None:
    created = {"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "a"}
    assert sessions([made(1, None, 0, 1, created)], tmp_path / "s.duckdb") == []


def test_a_graph_of_functions_names_its_agent_but_is_not_a_step() -> None:
    graph = dotted(
        gen_ai__provider__name="langgraph",
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name="shop",
        gen_ai__workflow__nodes=["search"],
    )
    found = observed(graph, scope_name="opentelemetry.instrumentation.langchain")
    assert (found.kind, found.name, found.agent) == ("workflow", None, "shop")
    unnamed = observed(
        graph | {"gen_ai.agent.name": "LangGraph"}, scope_name="opentelemetry.instrumentation.langchain"
    )
    assert (unnamed.kind, unnamed.agent) == ("workflow", None)


def test_a_users_message_that_is_an_event_of_the_task_around_a_call_is_read() -> None:
    task = dotted(traceloop__span__kind="task", traceloop__entity__name="RunnableSequence")
    asked = LogRecord(
        TRACE_ID, SPAN_ID, 1, event_name="gen_ai.user.message", body={"content": "Any soil?"}, attributes={}
    )
    assert observed(task, logs=[asked]).user_input == "Any soil?"
    assert observed(task).kind == "other"
