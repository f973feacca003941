"""The GenAI conventions in all their versions, and the dialects that differ from them in little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import Fields
from recordings import SPAN_ID, TRACE_ID, TURNS, dotted, observed, records, sessions

from spangrade.converters.spans.messages import Message, message_of
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.evaluator.session import Session
from spangrade.tracer.span import LogRecord

TOOLS = [
    ("get_cart", {"customer_id": "C-1001"}, True, 1),
    ("approve_discount", {"value": 50, "type": "percentage", "reason": "price match"}, False, 2),
    ("approve_discount", {"value": 10, "type": "percentage", "reason": "price match"}, True, 2),
    ("get_cart", {"customer_id": "C-1001"}, True, 2),
]
DESK = ("returns_desk", {"order_id": 777}, True, 3)


def session(name: str, tmp_path: Path) -> Session:
    """Return the one session of a recording."""
    (only,) = sessions(records(name), tmp_path / "s.duckdb")
    return only


def facts(found: Session) -> dict[str, Any]:
    return {
        "turns": [((t.user_input or "").strip(), (t.final_response or "").strip()) for t in found.turns],
        "agents": found.agents,
        "handoffs": found.handoffs,
        "tools": [(t.tool_name, t.input_arguments, t.ok, t.turn) for t in found.tool_interactions],
        "usage": (
            found.usage.llm_calls,
            found.usage.input_tokens,
            found.usage.output_tokens,
            found.usage.cached_input_tokens,
            found.usage.reasoning_tokens,
        ),
        "errors": [(e.where, (e.message or "").splitlines()[0]) for e in found.errors],
    }


AGENTS = ("customer_service_agent", "returns_agent")
TRANSFER = (("customer_service_agent", "returns_agent"),)
HIDDEN = "'tool_name': 'approve_discount', 'error': 'Tool execution failed. Error details are redacted.'"
REFUSED = "discount 50.0 exceeds the limit of 20"


@pytest.mark.parametrize(
    ("name", "tools", "handoffs", "usage", "error"),
    [
        ("strands_legacy", [*TOOLS, DESK], (), (8, 1150, 195, 320, None), REFUSED),
        ("strands_latest", [*TOOLS, DESK], (), (8, 1150, 195, 320, None), REFUSED),
        ("pydantic_ai1", [*TOOLS, DESK], (), (8, 1150, 195, 320, 64), REFUSED),
        ("agent_framework", [*TOOLS, DESK], (), (8, 1150, 195, 320, 64), REFUSED),
        (
            "openai_agents_v2",
            TOOLS,
            TRANSFER,
            (7, 980, 168, None, None),
            f"Error running tool (non-fatal): {{{HIDDEN}}}",
        ),
        (
            "openai_agents_genai_full",
            [*TOOLS, ("transfer_to_returns_agent", {}, True, 3)],  # in messages, with its result
            TRANSFER,
            (7, 980, 168, 280, 56),
            f"{{'message': 'Error running tool (non-fatal)', 'data': {{{HIDDEN}}}}}",
        ),
    ],
)
def test_an_agent_frameworks_session_whole(
    name: str,
    tools: list[Any],
    handoffs: tuple[Any, ...],
    usage: tuple[int | None, ...],
    error: str,
    tmp_path: Path,
) -> None:
    assert facts(session(name, tmp_path)) == {
        "turns": TURNS,
        "agents": AGENTS,
        "handoffs": handoffs,
        "tools": tools,
        "usage": usage,
        "errors": [("tool approve_discount", error)],
    }


def test_the_calls_of_a_client_are_one_session_without_agents(tmp_path: Path) -> None:
    """Each call is a trace; one failed and was repeated. A text alone does not tell whether a tool failed."""
    found = session("openai_genai_retry", tmp_path)
    assert found.session_id_source == "trace"
    assert facts(found) == {
        "turns": TURNS,
        "agents": None,
        "handoffs": None,
        "tools": [
            *[tool if tool[2] else (*tool[:2], None, tool[3]) for tool in TOOLS],
            ("transfer_to_returns_agent", {}, None, 3),
        ],
        "usage": (8, 980, 168, 280, 56),
        "errors": [("llm gpt-4.1", "Error code: 429 - Rate limit reached (fake)")],
    }


def test_a_client_that_calls_functions_itself(tmp_path: Path) -> None:
    """The history of the next call has the function's call and result, the answer before had not."""
    found = facts(session("google_genai_afc", tmp_path))
    assert (found["turns"], found["handoffs"], found["usage"]) == (TURNS, None, (3, 440, 74, 120, 24))
    assert [tool[:2] for tool in found["tools"]][:4] == [tool[:2] for tool in TOOLS]


def observation(
    name: str = "span",
    span_events: list[dict[str, Any]] | None = None,
    logs: list[LogRecord] | None = None,
    scope: str | None = None,
    **attributes: Any,
) -> Fields:
    """Return the observation of one span, without a parent."""
    events = span_events or []
    return observed(dotted(**attributes), name, logs=logs or [], events=events, scope_name=scope)


def event(name: str, **attributes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "time_ns": 1,
        "attributes": dotted(**attributes),
    }


def log(name: str | None, body: Any, time_ns: int = 1, **attributes: Any) -> LogRecord:
    return LogRecord(TRACE_ID, SPAN_ID, time_ns, name, body=body, attributes=dotted(**attributes))


LOOK = MessageCall("look", "1", '{"at":5}')


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, {"content": "hi"}]},
            Message("assistant", "hi"),
            id="the conventions",
        ),
        pytest.param(
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "hi"}]},
            Message("assistant", "hi"),
            id="Gemini",
        ),
        pytest.param({"role": "developer", "content": "be kind"}, Message("system", "be kind"), id="OpenAI"),
        pytest.param(
            {
                "role": "assistant",
                "parts": [{"functionCall": {"name": "look", "id": "1", "args": {"at": 5}}}],
            },
            Message("assistant", None, (LOOK,)),
            id="Gemini's call",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": 5}'}}
                ],
            },
            Message("assistant", None, (LOOK,)),
            id="OpenAI's call",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {"at": 5}}],
            },
            Message("assistant", None, (LOOK,)),
            id="Anthropic's call",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "1", "name": "look", "input": {"at": 5}}}],
            },
            Message("assistant", None, (LOOK,)),
            id="Bedrock's call",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "1", "content": '{"n": 1.0}'},
            Message("tool", '{"n": 1.0}', (), (ToolResult(None, "1", '{"n":1}'),)),
            id="OpenAI's result",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "five"}]}
                ],
            },
            Message("user", None, (), (ToolResult(None, "1", '"five"'),)),
            id="Anthropic's result",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "1", "content": [{"json": {"n": 1}}]}}],
            },
            Message("user", None, (), (ToolResult(None, "1", '{"n":1}'),)),
            id="Bedrock's result",
        ),
        pytest.param(
            {"role": "user", "content": [{"image_url": {"url": "x"}}, {"type": "text", "text": "a coat?"}]},
            Message("user", "a coat?"),
            id="a value that is not a text is left out",
        ),
        pytest.param(
            {"type": "function_call", "call_id": "1", "id": "fc", "name": "look", "arguments": '{"at": 5}'},
            Message("assistant", None, (LOOK._replace(other_id="fc"),)),
            id="a call among OpenAI's Responses",
        ),
        pytest.param(
            {"type": "function_call_output", "call_id": "1", "output": "five"},
            Message("tool", None, (), (ToolResult(None, "1", '"five"'),)),
            id="a result among OpenAI's Responses",
        ),
        pytest.param("hi", None, id="no message"),
    ],
)
def test_a_message_of_any_provider_is_read(message: Any, expected: Message | None) -> None:
    assert message_of(message) == expected


MESSAGES = {"gen_ai__operation__name": "chat"}


@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param(
            dict(
                **MESSAGES,
                gen_ai__input__messages=[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
                gen_ai__output__messages=[
                    {"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}
                ],
            ),
            id="attributes",
        ),
        pytest.param(
            dict(
                **MESSAGES,
                gen_ai__prompt='[{"role": "user", "content": "hi"}]',
                gen_ai__completion='[{"role": "assistant", "content": "hello"}]',
            ),
            id="attributes of 1.27",
        ),
        pytest.param(
            dict(
                **MESSAGES,
                span_events=[
                    event("gen_ai.content.prompt", gen_ai__prompt='[{"role": "user", "content": "hi"}]'),
                    event("gen_ai.content.completion", gen_ai__completion="hello"),
                ],
            ),
            id="events of 1.27",
        ),
        pytest.param(
            dict(
                **MESSAGES,
                span_events=[
                    event("gen_ai.user.message", gen_ai__event__content='{"role": "user", "content": "hi"}'),
                    event(
                        "gen_ai.choice",
                        gen_ai__event__content='{"index": 0, "message": {"content": "hello"}}',
                    ),
                ],
            ),
            id="events of a span with a body",
        ),
        pytest.param(
            dict(
                **MESSAGES,
                span_events=[
                    event("gen_ai.user.message", content='[{"text": "hi"}]'),
                    event("gen_ai.choice", message="hello", finish_reason="stop"),
                ],
            ),
            id="events of a span",
        ),
        pytest.param(
            dict(
                **MESSAGES,
                logs=[
                    log(
                        "gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "hello"}}, 3
                    ),
                    log("gen_ai.user.message", {"content": "hi"}, 2),
                    log("gen_ai.system.message", {"content": "be kind"}, 1),
                ],
            ),
            id="logs",
        ),
        pytest.param(
            dict(
                **MESSAGES,
                logs=[
                    log(None, '{"content": "hi"}', event__name="gen_ai.user.message"),
                    log(None, '{"message": "hello"}', event__name="gen_ai.choice"),
                ],
            ),
            id="logs that are named by an attribute",
        ),
        pytest.param(
            dict(
                **MESSAGES,
                events=json.dumps(
                    [
                        {"event.name": "gen_ai.user.message", "content": "hi", "role": "user"},
                        {
                            "event.name": "gen_ai.choice",
                            "message": {"role": "assistant", "content": "hello"},
                        },
                    ]
                ),
            ),
            id="a list on the span",
        ),
    ],
)
def test_messages_are_read_from_every_place_where_they_are_recorded(recorded: dict[str, Any]) -> None:
    found = observation(**recorded)
    assert (found.kind, found.user_input, found.response, found.continues) == ("llm", "hi", "hello", False)


def test_a_text_that_looks_like_json_stays_a_text() -> None:
    said = '[{"size": "M"}]'
    found = observation(**MESSAGES, logs=[log("gen_ai.user.message", {"content": said})])
    assert found.user_input == said


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("execute_tool get_cart", {}, ("tool", "get_cart")),
        ("execute_tool get_cart", {"gen_ai__operation__name": "execute_tool"}, ("tool", "get_cart")),
        ("execute_tool", {}, ("other", None)),
        ("execute_tool (merged tools)", {}, ("other", None)),
        ("invoke_agent returns", {}, ("agent", "returns")),
        ("Customer service", {"gen_ai__operation__name": "invoke_agent"}, ("agent", None)),
        ("chat with us", {}, ("other", None)),
        ("create_agent returns", {"gen_ai__operation__name": "create_agent"}, ("other", None)),
        ("embeddings e", {"gen_ai__operation__name": "embeddings"}, ("other", None)),
    ],
)
def test_the_operation_and_its_object_may_be_in_the_spans_name(
    name: str, attributes: dict[str, str], expected: tuple[str, str | None]
) -> None:
    found = observation(name, **attributes)
    assert (found.kind, found.name) == expected


def test_every_attribute_name_of_usage_is_read() -> None:
    older = observation(
        **MESSAGES,
        gen_ai__system="openai",
        gen_ai__usage__prompt_tokens=7,
        gen_ai__usage__completion_tokens="5",
        gen_ai__usage__cache_read_input_tokens=3,
        gen_ai__usage__cache_creation_input_tokens=2,
        gen_ai__usage__details__reasoning_tokens=1,
    )
    newer = observation(
        **MESSAGES,
        gen_ai__provider__name="openai",
        gen_ai__usage__input_tokens=7,
        gen_ai__usage__output_tokens=5,
        gen_ai__usage__cache_read__input_tokens=3,
        gen_ai__usage__cache_creation__input_tokens=2,
        gen_ai__usage__reasoning__output_tokens=1,
    )
    assert older == newer
    assert (newer.input_tokens, newer.output_tokens, newer.reasoning_tokens) == (7, 5, 1)


def test_a_web_servers_session_is_not_a_conversation() -> None:
    assert observation("POST /chat", session__id="cookie").conversation_id is None
    assert observation("invoke_agent a", session__id="c1").conversation_id == "c1"


def test_pydantic_ai_before_the_conventions_named_operations() -> None:
    tool = observation(
        "running tool",
        scope="pydantic-ai",
        gen_ai__tool__name="look",
        tool_arguments='{"at": 5}',
        tool_response="five",
    )
    run = observation("agent run", scope="pydantic-ai", agent_name="helper", final_result="hello")
    assert (tool.kind, tool.name, tool.arguments, tool.result) == ("tool", "look", '{"at":5}', '"five"')
    assert (run.kind, run.name, run.agent, run.response) == ("agent", "helper", "helper", "hello")


def test_the_output_function_of_pydantic_ai_is_not_a_tool() -> None:
    attributes = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "final_result"}
    found = observation(
        "execute_tool final_result",
        scope="pydantic-ai",
        **attributes,
        **{"logfire.msg": "running output function: final_result"},
    )
    assert found.kind == "other"


def test_openai_agents_write_the_repr_of_parts_that_are_not_text() -> None:
    def part(content: str) -> str:
        return json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": content}]}])

    scope = "opentelemetry.instrumentation.openai_agents"
    named = {**MESSAGES, "gen_ai__agent__name": "OpenAI Agent", "scope": scope}
    call = "ResponseFunctionToolCall(arguments='{\"at\": 5}', call_id='1', name='look', id='fc', status=None)"
    asked = observation(**named, gen_ai__output__messages=part(call))
    answered = observation(**named, gen_ai__output__messages=part("{'text': 'hi', 'type': 'output_text'}"))
    odd = observation(**named, gen_ai__output__messages=part("Response to you (as asked)"))
    said = observation(**named, gen_ai__output__messages=part("refund(call_id='1', name='pay')"))
    hidden = observation(**named, gen_ai__output__messages=part("readacted"))
    assert (asked.agent, asked.response, asked.tool_calls) == (None, None, (LOOK,))
    assert [o.response for o in (answered, odd, said, hidden)] == [
        "hi",
        "Response to you (as asked)",
        "refund(call_id='1', name='pay')",
        None,
    ]


def test_a_handoff_span_of_openai_agents_names_both_sides() -> None:
    found = observation(
        scope="opentelemetry.instrumentation.openai_agents",
        gen_ai__operation__name="agent_handoff",
        gen_ai__agent__name="OpenAI Agent",
        gen_ai__handoff__from_agent="a",
        gen_ai__handoff__to_agent="b",
    )
    assert (found.kind, found.agent, found.handoff_to) == ("handoff", "a", "b")


def test_a_tool_of_strands_may_fail_without_raising() -> None:
    found = observation(
        scope="strands.telemetry.tracer",
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="look",
        gen_ai__tool__status="error",
        span_events=[
            event("gen_ai.tool.message", role="tool", content='{"at": 5}', id="1"),
            event("gen_ai.choice", message='[{"text": "not there"}]', id="1"),
        ],
    )
    assert (found.arguments, found.result, found.failed) == ('{"at":5}', '"not there"', True)


def logfire(**attributes: Any) -> Fields:
    given = {name: json.dumps(v) if isinstance(v, dict) else v for name, v in attributes.items()}
    return observation(scope="logfire.openai", gen_ai__request__model="m", **given)


def test_logfire_keeps_what_the_provider_was_asked_and_answered() -> None:
    found = logfire(
        request_data={"model": "m", "messages": [{"role": "user", "content": "hi"}]},
        response_data={
            "message": {
                "role": "assistant",
                "content": "hello",
                "tool_calls": [
                    {"id": "1", "function": {"name": "look", "arguments": '{"input": {"at": 5}}'}}
                ],
            },
            "usage": {
                "input_tokens": 3,
                "output_tokens": 5,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 0,
            },
        },
    )
    assert (found.kind, found.user_input, found.response, found.tool_calls) == ("llm", "hi", "hello", (LOOK,))
    assert (found.input_tokens, found.output_tokens, found.cached_input_tokens) == (7, 5, 4)


def test_a_stream_that_logfire_records_twice_is_one_call() -> None:
    request = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    opened = logfire(request_data=request)
    ended = logfire(
        request_data=request,
        response_data={"combined_chunk_content": "hello", "chunk_count": 2},
        duration=1e-9,
        **{"logfire.span_type": "log"},
    )
    assert (opened.kind, ended.kind) == ("other", "llm")
    assert (ended.user_input, ended.response, ended.end_ns - ended.start_ns) == ("hi", "hello", 1)


def test_a_log_of_logfire_that_would_begin_before_1970_keeps_its_time() -> None:
    for duration in (1.0, -1e-10):  # or end before it began
        found = logfire(request_data={"messages": []}, duration=duration, **{"logfire.span_type": "log"})
        assert (found.start_ns, found.end_ns) == (1, 2)


def test_logfire_keeps_what_the_agents_sdk_asked_the_provider_and_got() -> None:
    found = observation(
        scope="logfire.openai_agents",
        logfire__msg_template="Responses API with {gen_ai.request.model!r}",
        raw_input='[{"role": "user", "content": "hi"}]',
        response='{"output": [{"type": "message", "role": "assistant", "content": "hello"}]}',
    )
    assert (found.kind, found.user_input, found.response) == ("llm", "hi", "hello")


def test_the_role_in_a_message_counts_more_than_its_events_name() -> None:
    found = observation(
        "chat m",
        [
            event("gen_ai.user.message", role="user", content="hi"),
            event("gen_ai.user.message", role="system", content="Be kind."),
        ],
        gen_ai__operation__name="chat",
    )
    assert (found.kind, found.user_input) == ("llm", "hi")


def test_openais_token_details_are_read() -> None:
    found = logfire(
        request_data={"model": "m", "messages": []},
        response_data={
            "usage": {
                "prompt_tokens": 7,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 1},
            }
        },
    )
    assert (found.input_tokens, found.output_tokens) == (7, 5)
    assert (found.cached_input_tokens, found.reasoning_tokens) == (3, 1)


def test_the_first_versions_of_strands_kept_all_in_attributes() -> None:
    agent = observation(
        "helper",
        scope="strands-agents",
        agent__name="helper",
        gen_ai__prompt="hi",
        gen_ai__completion="hello",
    )
    model = observation(
        "Model invoke",
        scope="strands-agents",
        agent__name="helper",
        gen_ai__prompt='[{"role": "user", "content": [{"text": "hi"}]}]',
        gen_ai__completion='[{"toolUse": {"toolUseId": "1", "name": "look", "input": {"at": 5}}}]',
        gen_ai__usage__prompt_tokens=7,
    )
    tool = observation(
        "Tool: look",
        scope="strands-agents",
        tool__name="look",
        tool__id="1",
        tool__parameters='{"at": 5}',
        tool__result='[{"text": "five"}]',
        tool__status="success",
    )
    assert (agent.kind, agent.name, agent.user_input, agent.response) == ("agent", "helper", "hi", "hello")
    assert (model.kind, model.user_input, model.tool_calls, model.input_tokens) == ("llm", "hi", (LOOK,), 7)
    assert (tool.kind, tool.name, tool.call_id, tool.arguments, tool.result, tool.failed) == (
        "tool",
        "look",
        "1",
        '{"at":5}',
        '"five"',
        False,
    )


@pytest.mark.parametrize(
    ("status", "raised", "expected"),
    [
        ("UNSET", "asyncio.exceptions.CancelledError", (False, None)),
        ("OK", "GeneratorExit", (False, None)),
        ("OK", "anyio.ClosedResourceError", (False, None)),
        ("OK", "ValueError", (True, "no")),
        ("ERROR", "asyncio.exceptions.CancelledError", (True, "no")),
    ],
)
def test_an_exception_that_only_ends_work_early_is_not_an_error_unless_the_status_is(
    status: str, raised: str, expected: tuple[bool, str | None]
) -> None:
    event = {"name": "exception", "attributes": {"exception.type": raised, "exception.message": "no"}}
    found = observed({"gen_ai.operation.name": "chat"}, status=status, events=[event])
    assert (found.failed, found.error) == expected


def test_a_cancelled_tool_failed_unless_it_has_a_result() -> None:
    event = {"name": "exception", "attributes": {"exception.type": "asyncio.exceptions.CancelledError"}}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "wait"}
    cancelled = observed(tool, events=[event])
    finished = observed({**tool, "gen_ai.tool.call.result": "1"}, events=[event])
    assert [(found.failed, found.error) for found in (cancelled, finished)] == [
        (True, "cancelled"),
        (False, None),
    ]


def test_an_integer_of_the_state_beyond_64_bits_is_kept_exactly() -> None:
    text = '{"order": 123456789012345678901234, "n": [18446744073709551617, 18446744073709551615, 1e300]}'
    ((_, variables),) = observed(dotted(spangrade__state=text)).state
    expected = {
        "order": "123456789012345678901234",
        "n": ["18446744073709551617", 18446744073709551615, 1e300],
    }
    assert variables == expected


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("ShopError: no seeds", "ShopError: no seeds"),
        ("no seeds", "no seeds"),
        ("Traceback ...\nshop.ShopError: no seeds", "no seeds"),
        (None, "no seeds"),
    ],
)
def test_a_status_of_the_exceptions_type_and_message_is_the_error(status: str | None, error: str) -> None:
    attributes = {"exception.type": "shop.ShopError", "exception.message": "no seeds"}
    event = {"name": "exception", "time_ns": 1, "attributes": attributes}
    assert observed({}, status="ERROR", status_message=status, events=[event]).error == error


LANGFUSE = {"langfuse.observation.type": "chain", "langfuse.observation.metadata.lc_agent_name": '"shop"'}


def test_langfuses_chain_of_an_agent_of_langchain_is_the_agent() -> None:
    given = {"langfuse.observation.input": '{"messages": [["user", "Any soil?"]]}'}
    run = observed(LANGFUSE | given, name="shop")
    assert (run.kind, run.name, run.user_input) == ("agent", "shop", "Any soil?")
    assert observed(LANGFUSE | given, name="model").kind == "workflow"


def test_the_declarations_among_langfuses_messages_are_not_results_of_tools() -> None:
    declared = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    messages = [{"role": "user", "content": "Any soil?"}, {"role": "tool", "content": declared}]
    call = observed(
        {"langfuse.observation.type": "generation", "langfuse.observation.input": json.dumps(messages)}
    )
    assert (call.user_input, call.continues, call.tool_results) == ("Any soil?", False, ())
    assert '"search"' in (call.tool_declarations or "")
