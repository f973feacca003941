"""What a span records counts, not what it is called; and a name that only looks alike is not taken for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import SPAN_ID, TRACE_ID, dotted, observed, sessions

from spangrade.converters.spans.token_counts import quantities
from spangrade.evaluator.session import LLMCall, Session
from spangrade.tracer.span import LogRecord, Span

MODEL = {"gen_ai.request.model": "gpt-4o"}
USAGE = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
SAID = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Any soil?"}]}])


def operation(name: str, **attributes: Any) -> dict[str, Any]:
    return {"gen_ai.operation.name": name, **dotted(**attributes)}


def span(number: int, parent: int | None, attributes: dict[str, Any], scope: str = "lib") -> Span:
    parent_id = None if parent is None else f"{parent:016x}"
    end_ns = number * 10 + 9 if parent else 1_000
    ids = ("a" * 32, f"{number:016x}", parent_id, "step", "INTERNAL")
    return Span(*ids, number * 10, end_ns, attributes=attributes, scope_name=scope)


def session_of(tmp_path: Path, *spans: Span) -> Session:
    (session,) = sessions(spans, tmp_path / "s.duckdb")
    return session


def call_of(tmp_path: Path, attributes: dict[str, Any], scope: str = "acme") -> LLMCall:
    (call,) = session_of(tmp_path, span(1, None, attributes, scope)).llm_calls
    return call


@pytest.mark.parametrize(
    ("scope", "attributes", "kind"),
    [
        ("litellm", operation("acompletion") | MODEL | USAGE | {"llm.request.type": "acompletion"}, "llm"),
        ("acme", operation("responses") | MODEL | {"gen_ai.input.messages": SAID}, "llm"),
        ("acme", {"llm.request.type": "chat"} | MODEL, "llm"),
        ("acme", operation("responses") | MODEL, "other"),
        ("acme", operation("responses") | USAGE, "other"),
        ("acme", operation("embeddings") | MODEL | USAGE, "other"),
        ("acme", operation("call", gen_ai__tool__name="find", gen_ai__tool__call__id="c1"), "tool"),
        ("acme", operation("call", gen_ai__tool__name="find", tool_use_id="c1"), "tool"),
        (
            "acme",
            operation(
                "call",
                gen_ai__tool__name="find",
                gen_ai__tool__call__arguments="{}",
                gen_ai__tool__call__result="3",
            ),
            "tool",
        ),
        ("acme", operation("call", gen_ai__tool__name="find", gen_ai__tool__call__arguments="{}"), "other"),
        ("acme", operation("call", gen_ai__tool__call__id="c1"), "other"),
        ("acme", dotted(acme__tool__name="find", acme__call__id="c1", acme__input="{}"), "tool"),
        ("acme", dotted(acme__function__name="find", acme__arguments="{}", acme__result="3"), "tool"),
        ("acme", dotted(acme__tool__name="find", acme__input="{}"), "other"),
        ("acme", dotted(acme__tool__name="find", acme__call__id="c1"), "tool"),
        ("acme", dotted(acme__tool__name="find"), "other"),
        ("acme", dotted(acme__event_type="model", acme__config__model="gpt-4o"), "llm"),
        ("acme", dotted(acme__event_type="model_download", acme__config__model="gpt-4o"), "other"),
        ("acme", dotted(acme__span_type="tool_invocation", acme__inputs__q="soil"), "tool"),
        ("acme", dotted(acme__span_type="tool_registry", acme__inputs__q="soil"), "other"),
        ("mcp", dotted(mcp__method__name="tools/call", gen_ai__tool__name="find"), "tool"),
        ("mcp", dotted(mcp__method__name="tools/list", gen_ai__tool__name="find"), "other"),
        ("acme", dotted(code__function__name="find", code__arguments="{}", code__result="3"), "other"),
    ],
)
def test_what_a_span_records_decides_what_it_is(scope: str, attributes: dict[str, Any], kind: str) -> None:
    assert observed(attributes, scope_name=scope).kind == kind


def test_an_operation_without_a_known_name_around_model_calls_only_repeats_them(tmp_path: Path) -> None:
    attributes = operation("acompletion") | MODEL | USAGE
    session = session_of(tmp_path, span(1, None, attributes), span(2, 1, attributes), span(3, 1, attributes))
    assert [call.span_id for call in session.llm_calls] == [f"{n:016x}" for n in (2, 3)]


SDK_MODEL = {"ai.model.id": "gpt-4o", "ai.model.provider": "openai"}
SDK_SAID = {"ai.prompt.messages": json.dumps([{"role": "user", "content": "Any soil?"}])}


@pytest.mark.parametrize(
    ("operation_id", "attributes", "kind"),
    [
        ("ai.agentLoop.callModel", SDK_MODEL | SDK_SAID | {"ai.response.text": "Yes."}, "llm"),
        ("ai.agentLoop.callModel", SDK_MODEL | {"ai.usage.inputTokens": 10}, "llm"),
        ("ai.agentLoop.callModel", SDK_MODEL, "other"),
        ("ai.agentLoop.callModel", SDK_SAID, "other"),
        ("ai.embedVideo", SDK_MODEL | {"ai.usage.inputTokens": 10}, "other"),
        ("ai.tool.execute", {"ai.toolCall.name": "find", "ai.toolCall.id": "c1"}, "tool"),
        ("ai.tool.execute", {"ai.toolCall.name": "find"}, "other"),
    ],
)
def test_an_operation_that_vercels_sdk_names_anew_is_what_it_records(
    operation_id: str, attributes: dict[str, Any], kind: str
) -> None:
    found = observed({"ai.operationId": operation_id, **attributes}, operation_id, scope_name="ai")
    assert (found.kind, found.by_content) == (kind, kind != "other")


def test_a_new_operation_of_vercels_sdk_around_model_calls_only_repeats_them(tmp_path: Path) -> None:
    run = {"ai.operationId": "ai.agentLoop", **SDK_MODEL, **SDK_SAID, "ai.usage.inputTokens": 10}
    call = {**run, "ai.operationId": "ai.agentLoop.doStream", "ai.response.text": "Yes."}
    session = session_of(tmp_path, span(1, None, run, "ai"), span(2, 1, call, "ai"))
    assert [call.span_id for call in session.llm_calls] == [f"{2:016x}"]
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [("Any soil?", "Yes.")]
    (tmp_path / "alone").mkdir()
    alone = session_of(tmp_path / "alone", span(1, None, run | {"ai.response.text": "Yes."}, "ai"))
    assert [(turn.user_input, turn.final_response) for turn in alone.turns] == [("Any soil?", "Yes.")]


def log(name: str, body: str | None = None, **attributes: Any) -> LogRecord:
    return LogRecord(TRACE_ID, SPAN_ID, 5, name, "INFO", body, attributes)


@pytest.mark.parametrize("name", ["acme.finished", "gen_ai.execute_tool.details", "gen_ai.tool.result", ""])
def test_a_log_with_the_id_of_a_call_completes_the_tool_of_that_id(name: str) -> None:
    tool = operation("execute_tool", gen_ai__tool__name="find", gen_ai__tool__call__id="c1")
    done = log(name, call_id="c1", arguments='{"q":"soil"}', output="3 found", success="true")
    found = observed(tool, logs=[done])
    assert (found.arguments, found.result, found.failed) == ('{"q":"soil"}', '"3 found"', False)
    broken = observed(tool, logs=[log("x", tool_use_id="c1", success=False, error="no such shop")])
    assert (broken.failed, broken.error) == (True, "no such shop")
    of_another = observed(tool, logs=[log("acme.finished", call_id="c2", output="3 found")])
    assert (of_another.arguments, of_another.result) == (None, None)
    without_id = observed(tool, logs=[log("acme.finished", output="3 found")])
    assert without_id.result is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("codex.user_prompt", "Any soil?", "Any soil?"),
        ("acme.user_message", "Any soil?", "Any soil?"),
        ("codex.user_prompt", "<environment_context>cwd: /shop</environment_context>", None),
        ("codex.user_prompt", "[REDACTED]", None),
        ("acme.prompt_template", "Any soil?", None),
    ],
)
def test_the_log_of_a_users_prompt_is_the_users_message(name: str, text: str, said: str | None) -> None:
    assert (
        observed(operation("invoke_agent"), "invoke_agent shop", logs=[log(name, prompt=text)]).user_input
        == said
    )


@pytest.mark.parametrize(
    ("attributes", "counts"),
    [
        ({"acme.input_tokens": 7, "acme.non_cached_input_tokens": 5}, {"input_tokens": 7}),
        ({"acme.usage.total_input_tokens": 9, "acme.usage.input_tokens": 7}, {"input_tokens": 7}),
        ({"acme.usage.llmInputTokens": 7, "acme.usage.inputTokens": 5}, {"input_tokens": 5}),
        ({"acme.audio_output_tokens": 7, "acme.usage.cached.input_tokens": 7}, {"cached_input_tokens": 7}),
        ({"acme.reasoning_output_tokens": 7}, {"reasoning_tokens": 7}),
        ({"acme.tokens.in": 7, "acme.tokens.out": 2}, {"input_tokens": 7, "output_tokens": 2}),
        ({"acme.max_output_tokens": 7, "acme.output_tokens": 2}, {"output_tokens": 2}),
        ({"a.input_tokens": 7, "b.input_tokens": 5}, {}),
        ({"acme.agent_input_tokens": 7, "acme.input_tokens_total_cost": 2}, {}),
    ],
)
def test_a_further_word_makes_a_count_another_quantity(
    attributes: dict[str, Any], counts: dict[str, int]
) -> None:
    assert quantities(attributes) == counts


ACME = {"acme.span.type": "llm", "acme.model": "house-model"}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"input_tokens": 48, "cached_input_tokens": 48}, (None, None, True)),
        ({"input_tokens": 48, "output_tokens": 5, "total_tokens": 50}, (None, None, True)),
        ({"input_tokens": 48, "output_tokens": 5, "total_tokens": 53}, (48, None, False)),
        ({"input_tokens": 48, "cached_input_tokens": 607}, (655, 607, False)),
        ({"input_tokens": 48, "cached_input_tokens": 20}, (None, 20, True)),
        ({"provider": "openai", "input_tokens": 48, "cached_input_tokens": 20}, (48, 20, False)),
        ({}, (None, None, False)),
    ],
)
def test_counts_that_cannot_be_or_are_open_are_unknown_and_said_to_be(
    counts: dict[str, Any], expected: tuple[int | None, int | None, bool], tmp_path: Path
) -> None:
    messages = {"acme.input": json.dumps([{"role": "user", "content": "Any soil?"}])}
    call = call_of(tmp_path, {**ACME, **messages, **{f"acme.{name}": n for name, n in counts.items()}})
    assert (call.input_tokens, call.cached_input_tokens, call.doubtful_tokens) == expected


CACHED = {**USAGE, "gen_ai.usage.cache_read_input_tokens": 4}


@pytest.mark.parametrize(
    ("scope", "attributes", "input_tokens"),
    [
        ("opentelemetry.instrumentation.botocore.bedrock-runtime", {}, 14),
        ("strands.telemetry.tracer", {"gen_ai.request.model": "us.anthropic.claude-sonnet-4"}, 14),
        ("strands.telemetry.tracer", {"gen_ai.request.model": "gpt-4.1"}, 10),
        ("opentelemetry.instrumentation.anthropic", {"gen_ai.system": "anthropic"}, 10),
        ("acme", {"gen_ai.system": "openai"}, 10),
        ("acme", {"gen_ai.system": "anthropic"}, None),
        ("acme", {"gen_ai.system": "anthropic", "gen_ai.usage.cache_read.input_tokens": 4}, 10),
    ],
)
def test_who_wrote_a_span_and_the_provider_decide_whether_the_input_has_the_cached_tokens(
    scope: str, attributes: dict[str, Any], input_tokens: int | None, tmp_path: Path
) -> None:
    given = operation("chat") | {"gen_ai.request.model": "m"} | CACHED | attributes
    call = call_of(tmp_path, given, scope)
    assert (call.input_tokens, call.doubtful_tokens) == (input_tokens, input_tokens is None)


@pytest.mark.parametrize(
    ("usage", "model", "expected"),
    [
        ({"input": 4, "output": 50, "total": 54, "input_cache_read": 18_131}, "claude-sonnet-4", 18_135),
        ({"input": 110, "output": 21, "total": 131, "input_cached_tokens": 40}, "gpt-4.1", 110),
        ({"input": 70, "output": 21, "total": 131, "input_cached_tokens": 40}, "house-model", 110),
        ({"input": 110, "output": 21, "total": 131, "input_cached_tokens": 40}, "house-model", None),
    ],
)
def test_a_total_alone_does_not_tell_where_cached_tokens_are(
    usage: dict[str, int], model: str, expected: int | None, tmp_path: Path
) -> None:
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": model,
        "langfuse.observation.usage_details": json.dumps(usage),
    }
    assert call_of(tmp_path, attributes, "langfuse-sdk").input_tokens == expected


@pytest.mark.parametrize(("model", "expected"), [("gpt-4.1", 110), ("claude-sonnet-4", 150)])
def test_mlflow_counts_cached_tokens_as_the_provider_does(model: str, expected: int, tmp_path: Path) -> None:
    usage = {"input_tokens": 110, "output_tokens": 21, "total_tokens": 131, "cache_read_input_tokens": 40}
    attributes = {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.llm.model": json.dumps(model),
        "mlflow.chat.tokenUsage": json.dumps(usage),
    }
    assert call_of(tmp_path, attributes).input_tokens == expected


REMOVED = ["[Scrubbed due to 'session']", "[REDACTED]", "<redacted>", "***", "[Filtered]", "__REDACTED__"]


@pytest.mark.parametrize("removed", REMOVED)
def test_a_removed_value_is_unknown_everywhere(removed: str, tmp_path: Path) -> None:
    message = json.dumps([{"role": "user", "parts": [{"type": "text", "content": removed}]}])
    ids = {"gen_ai.conversation.id": removed, "session.id": removed, "user.id": removed}
    asked = span(1, None, operation("chat") | MODEL | ids | {"gen_ai.input.messages": message})
    ran = {
        "gen_ai.tool.name": "find",
        "gen_ai.tool.call.arguments": removed,
        "gen_ai.tool.call.result": removed,
    }
    session = session_of(tmp_path, asked, span(2, 1, operation("execute_tool") | ran))
    (call,) = session.tool_interactions
    assert (session.session_id, session.session_id_source, session.user_id) == ("a" * 32, "trace", None)
    assert session.turns[0].user_input is None
    assert (call.arguments_known, call.output_known, call.ok) == (False, False, None)


@pytest.mark.parametrize("text", ["What does [REDACTED] mean?", "*** hi ***", "Removed!", "<b>redacted</b>"])
def test_a_text_that_only_speaks_of_a_removed_value_is_kept(text: str) -> None:
    message = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
    assert observed(operation("chat") | MODEL | {"gen_ai.input.messages": message}).user_input == text


@pytest.mark.parametrize("name", ["mcp.session.id", "acme.transport.session_id", "http.session.id"])
def test_the_id_of_a_connection_does_not_name_a_conversation(name: str, tmp_path: Path) -> None:
    session = session_of(tmp_path, span(1, None, operation("chat") | MODEL | USAGE | {name: "s-1"}))
    assert session.session_id_source == "trace"
    over_mcp = operation("execute_tool", gen_ai__tool__name="find", mcp__method__name="tools/call")
    assert observed(over_mcp | {"session.id": "s-1"}).conversation_id is None


@pytest.mark.parametrize(
    ("result", "ok"), [("Error executing tool find: no shop", None), ("Error rates are low.", True)]
)
def test_an_error_of_a_protocol_that_only_a_text_records_is_unknown(
    result: str, ok: bool | None, tmp_path: Path
) -> None:
    ran = operation("execute_tool", gen_ai__tool__name="find", gen_ai__tool__call__result=json.dumps(result))
    session = session_of(tmp_path, span(1, None, operation("chat") | MODEL), span(2, 1, ran))
    assert [call.ok for call in session.tool_interactions] == [ok]


RUN = {"openinference.span.kind": "AGENT"}


@pytest.mark.parametrize(
    ("attributes", "name", "agent"),
    [
        (RUN, "shop.run", "shop"),
        (operation("invoke_agent"), "agent run: shop", "shop"),
        ({"acme.span.type": "agent", "acme.input": "Any soil?"}, "shop", "shop"),
        (RUN, "Agent workflow", None),
        (RUN, "ClaudeAgentSDK.query", None),
        (RUN, "CodeAgent.run", None),
        (RUN, "transfer_to_returns", None),
        (RUN, "Memory.before_agent", None),
        (operation("invoke_agent"), "invoke_agent", None),
        ({"openinference.span.kind": "CHAIN"}, "shop", None),
    ],
)
def test_a_run_of_an_agent_without_a_name_has_that_of_its_span_if_it_is_one(
    attributes: dict[str, Any], name: str, agent: str | None, tmp_path: Path
) -> None:
    run = span(1, None, attributes)._replace(name=name)
    session = session_of(tmp_path, run, span(2, 1, operation("chat") | MODEL, "client"))
    assert (session.agents or (None,)) == (agent,)


@pytest.mark.parametrize("scope", ["lib", "other"])
def test_a_span_does_not_name_its_agent_where_another_span_does(scope: str, tmp_path: Path) -> None:
    outer = span(1, None, RUN)._replace(name="Customer service")
    inner = span(2, 1, RUN | {"agent.name": "shop"}, scope)
    assert session_of(tmp_path, outer, inner, span(3, 2, operation("chat") | MODEL)).agents == ("shop",)


@pytest.mark.parametrize(
    "attributes",
    [
        {"openinference.span.kind": "LLM", "metadata": '{"lc_agent_name": "shop"}'},
        operation("chat") | MODEL | {"traceloop.association.properties.lc_agent_name": "shop"},
        {"langfuse.observation.type": "generation", "langfuse.observation.metadata.lc_agent_name": '"shop"'},
    ],
)
def test_langchains_name_of_an_agent_counts_on_every_span(attributes: dict[str, Any]) -> None:
    assert observed(attributes).agent == "shop"


LANGCHAIN = "openinference.instrumentation.langchain"


@pytest.mark.parametrize(
    ("run", "scope", "call", "agents"),
    [
        ({}, LANGCHAIN, {}, None),
        ({}, LANGCHAIN, {"metadata": '{"lc_agent_name": "planner"}'}, ["planner"]),
        ({"agent.name": "planner"}, LANGCHAIN, {}, ["planner"]),
        ({}, LANGCHAIN, {"metadata": '{"lc_agent_name": "shop"}'}, ["shop"]),
        ({"agent.name": "planner"}, "lib", {"metadata": '{"lc_agent_name": "shop"}'}, ["planner", "shop"]),
        ({}, LANGCHAIN, None, None),
        ({"agent.name": "planner"}, "lib", None, ["planner"]),
        ({"agent.name": "Memory.before_agent"}, "lib", {}, None),
    ],
)
def test_a_node_is_an_agent_if_a_model_call_names_it_not_because_one_lies_below_it(
    run: dict[str, Any], scope: str, call: dict[str, Any] | None, agents: list[str] | None, tmp_path: Path
) -> None:
    root = span(1, None, {"openinference.span.kind": "CHAIN"}, scope)
    spans = [root, span(2, 1, RUN | run, scope)._replace(name="planner")]
    if call is not None:
        spans.append(span(3, 2, {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o"} | call, scope))
    session = session_of(tmp_path, *spans)
    named = {agent for agent in (*(session.agents or ()), *(c.agent for c in session.llm_calls)) if agent}
    assert sorted(named) == (agents or [])


SERVER = {"http.request.method": "POST", "session.id": "s-1"}


@pytest.mark.parametrize(
    ("root", "sibling", "session_id"),
    [
        (SERVER, {}, "s-1"),
        ({"acme.association.properties.session_id": "s-1"}, {}, "s-1"),
        ({"acme.thread_id": "s-1"}, {}, "s-1"),
        (SERVER | {"user_agent.original": "Mozilla/5.0"}, {}, None),
        (SERVER | {"browser.language": "en"}, {}, None),
        ({}, SERVER, None),
        (SERVER, {"acme.thread_id": "s-2"}, None),
    ],
)
def test_an_id_above_the_agent_names_the_session_if_it_is_not_a_browsers(
    root: dict[str, Any], sibling: dict[str, Any], session_id: str | None, tmp_path: Path
) -> None:
    call = span(3, 1, operation("chat") | MODEL | USAGE)
    session = session_of(tmp_path, span(1, None, root), span(2, 1, sibling), call)
    assert (session.session_id if session.session_id_source == "conversation" else None) == session_id


def test_ids_that_differ_between_siblings_above_model_calls_name_no_session(tmp_path: Path) -> None:
    call = operation("chat") | MODEL | USAGE
    parts = [span(n, 1, SERVER | {"session.id": f"s-{n}"}) for n in (2, 3)]
    session = session_of(tmp_path, span(1, None, {}), *parts, span(4, 2, call), span(5, 3, call))
    assert session.session_id_source == "trace"


BUS = {"messaging.operation": "process"}


@pytest.mark.parametrize(("beside", "calls"), [([operation("chat") | MODEL | USAGE], 1), ([], 1)])
def test_a_message_between_agents_is_no_model_call_beside_one(
    beside: list[dict[str, Any]], calls: int, tmp_path: Path
) -> None:
    spans = [span(2, 1, operation("chat") | MODEL | USAGE | BUS)]
    spans += [span(n, 1, attributes) for n, attributes in enumerate(beside, 3)]
    session = session_of(tmp_path, span(1, None, operation("invoke_agent")), *spans)
    assert [call.span_id for call in session.llm_calls] == [spans[-1].span_id]
    assert len(session.llm_calls) == calls


def requesting(call_id: str | None, name: str) -> dict[str, Any]:
    call = {"type": "tool_call", "name": name, "arguments": {}} | ({"id": call_id} if call_id else {})
    return {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call]}])}


@pytest.mark.parametrize(
    ("of_model", "is_call"),
    [
        (requesting("1", "rm"), False),
        (requesting(None, "rm"), False),
        (requesting("2", "rm"), True),
        (requesting(None, "look"), True),
        ({}, True),
    ],
)
def test_a_message_between_agents_is_a_model_call_if_no_other_span_has_the_call_that_it_requests(
    of_model: dict[str, Any], is_call: bool, tmp_path: Path
) -> None:
    chat = operation("chat") | MODEL | USAGE
    message = span(2, 1, chat | BUS | requesting("1", "rm"))
    spans = [span(1, None, operation("invoke_agent")), message, span(3, 1, chat | of_model)]
    session = session_of(tmp_path, *spans)
    assert (message.span_id in {call.span_id for call in session.llm_calls}) is is_call
    assert (session.usage.input_tokens, session.usage.complete) == (10, not is_call)


@pytest.mark.parametrize("call_id", ["1", None])
def test_a_message_between_agents_is_no_model_call_if_a_tools_span_has_the_call_that_it_requests(
    call_id: str | None, tmp_path: Path
) -> None:
    chat = operation("chat") | MODEL | USAGE
    ran = operation("execute_tool", gen_ai__tool__name="rm")
    ran |= {"gen_ai.tool.call.id": call_id} if call_id else {}
    spans = [span(2, 1, chat | BUS | requesting("1", "rm")), span(3, 1, chat), span(4, 1, ran)]
    session = session_of(tmp_path, span(1, None, operation("invoke_agent")), *spans)
    assert [call.span_id for call in session.llm_calls] == [spans[1].span_id]


def test_a_request_on_autogens_bus_is_one_without_the_models_usage(tmp_path: Path) -> None:
    team = "a8765604-2f20-43c2-8bd6-0e43e84d6cd6"
    requested = [{"id": "1", "name": "rm", "arguments": "{}"}]
    message = {"type": "ToolCallRequestEvent", "models_usage": None, "content": requested}
    received = {
        "recipient_agent_type": f"Manager_{team}",
        "sender_agent_type": f"shop_{team}",
        "message": json.dumps({"message": message}),
    }
    step = span(1, None, received | BUS, scope="autogen SingleThreadedAgentRuntime")
    process = step._replace(name=f"autogen process Manager_{team}")
    session = session_of(tmp_path, process)
    assert [call.tool_name for call in session.requested_calls] == ["rm"]


def run_of(number: int, parent: int | None, agent: str, tokens: int) -> Span:
    usage = {"gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 2}
    return span(number, parent, operation("invoke_agent", gen_ai__agent__name=agent) | usage)


def test_only_an_agents_first_run_tells_tokens_that_no_model_call_records(tmp_path: Path) -> None:
    call = operation("chat") | MODEL | USAGE
    first = session_of(tmp_path, run_of(1, None, "shop", 30), span(2, 1, call))
    assert (first.usage.input_tokens, first.usage.complete) == (30, False)
    assert [c.input_tokens for c in first.llm_calls] == [10]
    for name, spans in {
        "later": [
            run_of(1, None, "shop", 10),
            span(2, 1, call),
            run_of(3, None, "shop", 30),
            span(4, 3, call),
        ],
        "below": [run_of(1, None, "shop", 10), run_of(2, 1, "desk", 30), span(3, 2, call)],
    }.items():
        (tmp_path / name).mkdir()
        session = session_of(tmp_path / name, *spans)
        assert session.usage.input_tokens == 10 * len(session.llm_calls)


def test_a_history_that_gains_a_message_of_the_user_is_another_turn(tmp_path: Path) -> None:
    def call(number: int, *texts: str) -> Span:
        roles = ("user", "assistant")
        said = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        return span(number, 1, operation("chat") | MODEL | {"gen_ai.input.messages": json.dumps(said)})

    pipeline = span(1, None, {"openinference.span.kind": "CHAIN"})
    session = session_of(tmp_path, pipeline, call(2, "Any soil?"), call(5, "Any soil?", "Yes.", "How much?"))
    assert [turn.user_input for turn in session.turns] == ["Any soil?", "How much?"]
    (tmp_path / "steps").mkdir()
    steps = session_of(tmp_path / "steps", pipeline, call(2, "Any soil?"), call(5, "Rewrite: Any soil?"))
    assert [turn.user_input for turn in steps.turns] == ["Any soil?"]


def test_sentrys_names_of_messages_and_calls_are_read(tmp_path: Path) -> None:
    """By Sentry's documentation of spans of agents."""
    messages = json.dumps([{"role": "user", "content": "Where is A1?"}])
    asked = [{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"id": "A1"}'}}]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.messages": messages}
    first = {**chat, "gen_ai.response.tool_calls": json.dumps(asked), "gen_ai.usage.input_tokens": 5}
    last = {**chat, "gen_ai.response.text": json.dumps(["It has shipped."])}
    called = {
        "gen_ai.tool.name": "look_up",
        "gen_ai.tool.input": '{"id": "A1"}',
        "gen_ai.tool.output": "shipped",
    }
    named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
    spans = (named, first, {"gen_ai.operation.name": "execute_tool", **called}, last)
    read = session_of(tmp_path, *(span(n, 1 if n > 1 else None, one) for n, one in enumerate(spans, 1)))
    assert [(turn.user_input, turn.final_response) for turn in read.turns] == [
        ("Where is A1?", "It has shipped.")
    ]
    assert [(c.tool_name, c.input_arguments, c.output, c.ok) for c in read.tool_interactions] == [
        ("look_up", {"id": "A1"}, "shipped", True)
    ]


OWN_KINDS = [
    (
        dotted(openinference__span__kind="{}", llm__token_count__prompt=10, llm__model_name="m"),
        "openinference",
    ),
    (dotted(traceloop__span__kind="{}") | MODEL | USAGE, "opentelemetry.instrumentation.acme"),
    (
        {"mlflow.spanType": "{}", "mlflow.llm.model": "m", "mlflow.chat.tokenUsage": '{"input_tokens": 10}'},
        "mlflow",
    ),
]


@pytest.mark.parametrize(("word", "calls"), [("INVENTED", 1), ("EMBEDDING", 0), ("EVALUATOR", 0)])
@pytest.mark.parametrize(("attributes", "scope"), OWN_KINDS)
def test_a_kind_that_its_dialect_does_not_know_does_not_hide_a_model_call(
    attributes: dict[str, Any], scope: str, word: str, calls: int, tmp_path: Path
) -> None:
    named = {k: v.replace("{}", word) if isinstance(v, str) else v for k, v in attributes.items()}
    found = sessions([span(1, None, named, scope)], tmp_path / "s.duckdb")
    assert [call.input_tokens for one in found for call in one.llm_calls] == [10] * calls


def test_attributes_that_hold_others_as_json_are_read(tmp_path: Path) -> None:
    """By Braintrust's documentation of its spans."""
    asked = [{"role": "user", "content": "Any soil?"}]
    answer = [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]
    call = {
        "braintrust.span_attributes": '{"type": "llm"}',
        "braintrust.input_json": json.dumps(asked),
        "braintrust.output_json": json.dumps(answer),
        "braintrust.metadata": '{"provider": "openai", "model": "gpt-4o"}',
        "braintrust.metrics": '{"prompt_tokens": 10, "completion_tokens": 2, "prompt_cached_tokens": 4}',
    }
    scored = {"braintrust.span_attributes": '{"type": "score"}', "braintrust.metadata": '{"model": "gpt-4o"}'}
    session = session_of(
        tmp_path,
        span(1, None, {"braintrust.span_attributes": '{"type": "task"}'}),
        span(2, 1, call),
        span(3, 1, scored),
    )
    (found,) = session.llm_calls
    assert (found.model, found.input_tokens, found.output_tokens, found.cached_input_tokens) == (
        "gpt-4o",
        10,
        2,
        4,
    )
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [("Any soil?", "Yes.")]


@pytest.mark.parametrize(
    ("attributes", "arguments"),
    [
        (dotted(acme__inputs__q="soil", acme__inputs__n=2), {"q": "soil", "n": 2}),
        (dotted(acme__call__kwargs__q="soil"), {"q": "soil"}),
        ({"acme_inputs._params_.q": "soil", "acme_inputs._params_.self": "<Shop>"}, {"q": "soil"}),
        (dotted(acme__inputs__q="soil", acme__kwargs__n=2), None),
        ({"acme.input.mime_type": "text/plain"}, None),
        ({"http.request.arguments.q": "soil"}, None),
    ],
)
def test_arguments_that_attributes_record_one_by_one_are_read_if_they_are_of_one_list(
    attributes: dict[str, Any], arguments: dict[str, Any] | None, tmp_path: Path
) -> None:
    tool = {"acme.span.type": "tool", "acme.tool.name": "find", "acme.output": "3 found", **attributes}
    session = session_of(tmp_path, span(1, None, operation("chat") | MODEL), span(2, 1, tool))
    assert [call.input_arguments for call in session.tool_interactions] == [arguments]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"input.value": "Any soil?", "output.value": "Yes."}, ("Any soil?", "Yes.")),
        ({"acme.question": "Any soil?", "acme.answer": "Yes."}, ("Any soil?", "Yes.")),
        ({"acme.question": "what is it", "input.value": "Any soil?"}, ("Any soil?", None)),
        ({"acme.quest": "Any soil?", "acme.answers": "3"}, (None, None)),
        ({"gen_ai.prompt.name": "greeting", "http.request.body": "Any soil?"}, (None, None)),
    ],
)
def test_what_the_conventions_do_not_record_of_a_run_other_names_do(
    attributes: dict[str, Any], said: tuple[str | None, str | None], tmp_path: Path
) -> None:
    run = operation("invoke_agent", gen_ai__agent__name="shop") | attributes
    session = session_of(tmp_path, span(1, None, run), span(2, 1, operation("chat") | MODEL | USAGE))
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [said]


ASKED = {"role": "user", "content": "Any soil?"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"input": {"messages": [ASKED]}}, "Any soil?"),
        ({"state": {"messages": [ASKED, {"role": "assistant", "content": "Yes."}]}}, "Any soil?"),
        ({"new_message": {"parts": [{"text": "Any soil?"}]}}, "Any soil?"),
        ({"contents": [{"role": "user", "parts": [{"text": "Any soil?"}]}]}, "Any soil?"),
        ({"kwargs": {"message": ASKED}}, "Any soil?"),
        ({"draft": {"messages": [ASKED]}, "id": 1}, None),
        ({"messages": [{"role": "system", "content": "Sell."}], "id": 1}, None),
        ({"instructions": "Sell."}, None),
        ({"input": {"input": {"input": {"input": {"input": {"messages": [ASKED]}}}}}, "id": 1}, None),
    ],
)
@pytest.mark.parametrize(
    ("names", "scope"),
    [
        (("openinference.span.kind", "input.value"), "openinference.instrumentation.acme"),
        (("traceloop.span.kind", "traceloop.entity.input"), "opentelemetry.instrumentation.acme"),
        (("acme.span.type", "acme.input"), "acme"),
    ],
)
def test_every_dialect_reads_a_message_wherever_a_value_has_a_place_for_one(
    names: tuple[str, str], scope: str, given: dict[str, Any], said: str | None, tmp_path: Path
) -> None:
    kind, place = names
    word = "AGENT" if kind.startswith("openinference") else "agent"
    run = {kind: word, place: json.dumps(given), "traceloop.entity.name": "shop"}
    session = session_of(tmp_path, span(1, None, run, scope), span(2, 1, operation("chat") | MODEL | USAGE))
    assert [turn.user_input for turn in session.turns] == [said]


def test_a_log_completes_the_tool_of_its_call_wherever_in_the_trace_it_stands(tmp_path: Path) -> None:
    tool = operation("execute_tool", gen_ai__tool__name="find", gen_ai__tool__call__id="c1")
    spans = [
        span(1, None, {"http.request.method": "POST"}),
        span(2, 1, operation("chat") | MODEL),
        span(3, 1, tool),
    ]

    def logged(name: str, span_id: str | None, **fields: Any) -> LogRecord:
        return LogRecord("a" * 32, span_id, 5, name, "INFO", None, fields)

    around, nowhere = spans[0].span_id, None
    done = [
        logged("acme.finished", around, call_id="c1", output="3 found", success="true"),
        logged("acme.finished", around, call_id="c2", output="of another"),
        logged("acme.user_message", nowhere, message="Any soil?"),
        logged("acme.audit", nowhere, message="The user asked."),
    ]
    (session,) = sessions([*spans, *done], tmp_path / "s.duckdb")
    assert [(c.call_id, c.output, c.ok) for c in session.tool_interactions] == [("c1", "3 found", True)]
    assert [turn.user_input for turn in session.turns] == ["Any soil?"]
    (tmp_path / "web").mkdir()
    assert sessions([spans[0], *done], tmp_path / "web" / "s.duckdb") == []


@pytest.mark.parametrize(
    ("name", "parent", "attributes", "found"),
    [
        ("acme.tool.execution", 2, {"success": False, "error": "no shop"}, (False, "no shop", None)),
        ("acme.tool_result", 2, {"acme.output": "3 found"}, (True, None, "3 found")),
        ("acme.tool_result", 1, {"acme.output": "3 found"}, (None, None, None)),
        ("GET /shop", 2, {"success": False, "error": "no shop"}, (None, None, None)),
        ("acme.tool.execution", 2, {}, (None, None, None)),
    ],
)
def test_a_span_of_the_outcome_directly_below_a_tool_is_the_tools(
    name: str,
    parent: int,
    attributes: dict[str, Any],
    found: tuple[bool | None, str | None, str | None],
    tmp_path: Path,
) -> None:
    tool = operation("execute_tool", gen_ai__tool__name="find")
    spans = [
        span(1, None, operation("chat") | MODEL),
        span(2, 1, tool),
        span(3, parent, attributes)._replace(name=name),
    ]
    session = session_of(tmp_path, *spans)
    assert [(c.tool_name, c.ok, c.error, c.output) for c in session.tool_interactions] == [("find", *found)]


@pytest.mark.parametrize(
    ("result", "ok"),
    [
        ({"content": [{"type": "text", "text": "Error: no shop"}]}, None),
        ("Failed to find it", None),
        ({"content": [{"type": "text", "text": "Error: no shop"}], "isError": False}, True),
        ({"content": [{"type": "text", "text": "3 found"}]}, True),
        ("3 found", True),
    ],
)
@pytest.mark.parametrize("around", [True, False])
def test_a_call_of_mcp_counts_once_and_a_text_that_may_be_an_error_leaves_it_open(
    around: bool, result: Any, ok: bool | None, tmp_path: Path
) -> None:
    over_mcp = dotted(mcp__method__name="tools/call", gen_ai__tool__name="find", mcp__session__id="m-1")
    ran = {"gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": json.dumps(result)}
    client, server = span(3, 2, over_mcp | ran, "mcp"), span(4, 3, over_mcp, "mcp")
    spans = [span(1, None, operation("chat") | MODEL), client, server]
    if around:
        spans.append(span(2, 1, operation("execute_tool", gen_ai__tool__name="find")))
    (call,) = session_of(tmp_path, *spans).tool_interactions
    assert (call.tool_name, call.ok) == ("find", ok)


LOOKED = dotted(mcp__method__name="tools/call", gen_ai__tool__name="find")
SOIL, LAND = {"gen_ai.tool.call.arguments": '{"q":"soil"}'}, {"gen_ai.tool.call.arguments": '{"q":"land"}'}


@pytest.mark.parametrize(
    ("client", "server", "kind", "start", "calls"),
    [
        (LOOKED, LOOKED, "SERVER", 32, [None]),
        (LOOKED, LOOKED | SOIL, "SERVER", 32, [{"q": "soil"}]),
        (LOOKED | SOIL, LOOKED | SOIL, "SERVER", 28, [{"q": "soil"}]),
        (operation("execute_tool", gen_ai__tool__name="find"), LOOKED | SOIL, "SERVER", 32, [{"q": "soil"}]),
        (
            LOOKED | SOIL | {"gen_ai.tool.name": "mcp__shop__find"},
            LOOKED | SOIL,
            "SERVER",
            32,
            [{"q": "soil"}],
        ),
        (LOOKED | SOIL, LOOKED | LAND, "SERVER", 32, [{"q": "soil"}, {"q": "land"}]),
        (LOOKED, LOOKED, "CLIENT", 32, [None, None]),
        (LOOKED, LOOKED, "SERVER", 45, [None, None]),
        (LOOKED | {"gen_ai.tool.name": "sell"}, LOOKED, "SERVER", 32, [None, None]),
        (LOOKED | SOIL | {"gen_ai.tool.name": "pathfind"}, LOOKED | SOIL, "SERVER", 32, [{"q": "soil"}] * 2),
    ],
)
def test_the_clients_and_the_servers_span_of_a_call_of_mcp_count_once_beside_each_other(
    client: dict[str, Any],
    server: dict[str, Any],
    kind: str,
    start: int,
    calls: list[dict[str, Any] | None],
    tmp_path: Path,
) -> None:
    beside = span(4, 1, server, "mcp")._replace(kind=kind, start_ns=start, end_ns=start + 7)
    spans = [span(1, None, operation("invoke_agent")), span(2, 1, operation("chat") | MODEL)]
    session = session_of(tmp_path, *spans, span(3, 1, client, "mcp"), beside)
    assert [call.input_arguments for call in session.tool_interactions] == calls


def test_parallel_calls_of_mcp_are_as_many_as_their_clients_recorded(tmp_path: Path) -> None:
    times = {3: ("CLIENT", 30, 39), 4: ("CLIENT", 31, 39), 5: ("SERVER", 32, 35), 6: ("SERVER", 33, 36)}
    spans = [
        span(n, 1, LOOKED, "mcp")._replace(kind=kind, start_ns=start, end_ns=end)
        for n, (kind, start, end) in times.items()
    ]
    session = session_of(
        tmp_path, span(1, None, operation("invoke_agent")), span(2, 1, operation("chat") | MODEL), *spans
    )
    assert len(session.tool_interactions) == 2


def test_the_models_of_a_session_without_model_calls_are_those_of_its_agents(tmp_path: Path) -> None:
    run = operation("invoke_agent", gen_ai__agent__name="shop") | MODEL
    assert session_of(tmp_path, span(1, None, run)).models == ("gpt-4o",)
    (tmp_path / "both").mkdir()
    call = operation("chat") | {"gen_ai.request.model": "gpt-4o-mini"}
    assert session_of(tmp_path / "both", span(1, None, run), span(2, 1, call)).models == ("gpt-4o-mini",)


@pytest.mark.parametrize(
    ("attributes", "agents"),
    [
        ({"acme.span.type": "agent", "acme.agent.name": "Agent workflow", "acme.input": "Hi"}, ("planner",)),
        (RUN | {"agent.name": "LangGraph"}, ("planner",)),
        (operation("invoke_agent", gen_ai__agent__name="workflow"), ("workflow", "planner")),
        ({"acme.span.type": "agent", "acme.agent.name": "desk", "acme.input": "Hi"}, ("desk", "planner")),
    ],
)
def test_a_workflows_name_above_named_agents_is_no_agents(
    attributes: dict[str, Any], agents: tuple[str, ...], tmp_path: Path
) -> None:
    planner = operation("invoke_agent", gen_ai__agent__name="planner")
    spans = [span(1, None, attributes), span(2, 1, planner), span(3, 2, operation("chat") | MODEL)]
    assert session_of(tmp_path, *spans).agents == agents
