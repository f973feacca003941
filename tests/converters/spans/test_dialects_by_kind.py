"""What a dialect reads on one kind of span, it leaves out on the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recordings import observed


def read(scope: str, operation: str, **attributes: Any) -> Any:
    given = {name.replace("__", "."): value for name, value in attributes.items()}
    return observed({"gen_ai.operation.name": operation, **given}, f"{operation} x", scope_name=scope)


@pytest.mark.parametrize(("operation", "tokens"), [("chat", 5), ("execute_tool", None)])
def test_the_ai_sdk_counts_tokens_on_model_calls(operation: str, tokens: int | None) -> None:
    assert read("ai", operation, ai__usage__inputTokens=5).input_tokens == tokens


def test_the_input_of_bedrock_is_without_what_was_read_from_a_cache_and_written_to_one() -> None:
    scope = "opentelemetry.instrumentation.botocore.bedrock-runtime"
    tokens = {"input_tokens": 5, "cache_read.input_tokens": 3, "cache_creation.input_tokens": 1}
    given = {f"gen_ai.usage.{name}": number for name, number in tokens.items()}
    assert read(scope, "chat", **given).input_tokens == 9


@pytest.mark.parametrize(("cached", "tokens"), [((3, 1), 9), ((3, 0), 8), ((0, 1), 6)])
def test_anthropics_input_in_the_ai_sdk_5_is_without_the_cached_tokens(
    cached: tuple[int, int], tokens: int
) -> None:
    usage = {"cacheReadInputTokens": cached[0], "cacheCreationInputTokens": cached[1]}
    found = read(
        "ai",
        "chat",
        ai__usage__inputTokens=5,
        ai__response__providerMetadata=json.dumps({"anthropic": usage}),
    )
    assert (found.input_tokens, found.cached_input_tokens, found.cache_write_tokens) == (tokens, *cached)


@pytest.mark.parametrize(
    ("operation", "name"), [("execute_tool", "find"), ("chat", None), ("unheard_of", None)]
)
def test_the_openai_agents_sdk_names_tools(operation: str, name: str | None) -> None:
    found = read("opentelemetry.instrumentation.openai_agents", operation, gen_ai__tool__name="find")
    assert (found.name, found.agent) == (name, None)


@pytest.mark.parametrize(("operation", "failed"), [("execute_tool", True), ("chat", False)])
def test_strands_marks_tools_that_failed(operation: str, failed: bool) -> None:
    status = {"gen_ai__tool__name": "find", "gen_ai__tool__status": "error"}
    assert read("strands.telemetry.tracer", operation, **status).failed is failed


def test_openllmetry_gives_the_id_of_a_call_beside_its_input() -> None:
    given = {"input_str": "{'q': 'a'}", "kwargs": {"tool_call_id": "c1"}}
    attributes = {"traceloop.span.kind": "tool", "traceloop.entity.input": json.dumps(given)}
    found = observed({**attributes, "traceloop.entity.name": "find"})
    assert (found.kind, found.name, found.call_id) == ("tool", "find", "c1")
    named = observed({**attributes, "gen_ai.operation.name": "execute_tool"}, "execute_tool look")
    assert (named.kind, named.name) == ("tool", "look")


def test_claude_code_gives_the_id_of_a_call_under_a_name_of_its_own() -> None:
    found = observed({"tool_name": "Bash", "tool_use_id": "c1"}, "claude_code.tool")
    assert (found.kind, found.name, found.call_id) == ("tool", "Bash", "c1")


@pytest.mark.parametrize(("is_error", "status"), [(True, "UNSET"), (False, "ERROR")])
def test_a_tool_of_livekit_failed_by_its_mark_or_its_status(is_error: bool, status: str) -> None:
    given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    marked = {**given, "lk.function_tool.is_error": is_error}
    assert observed(marked, "function_tool", scope_name="livekit-agents", status=status).failed


@pytest.mark.parametrize(("name", "kind"), [("shop", "agent"), ("model", "workflow"), ("tools", "workflow")])
def test_the_run_of_langsmith_that_has_its_agents_name_is_the_agent(name: str, kind: str) -> None:
    given = {"langsmith.span.kind": "chain", "langsmith.metadata.lc_agent_name": "shop"}
    assert observed(given, name).kind == kind


def test_haystacks_agent_answers_with_its_last_message() -> None:
    def message(text: str) -> dict[str, Any]:
        return {"role": "assistant", "content": [{"text": text}]}

    output = json.dumps({"messages": [message("One moment."), message("Done.")]})
    found = observed({"haystack.agent.output": output}, "haystack.agent.run")
    assert (found.kind, found.response) == ("workflow", "Done.")


def test_an_event_in_an_attribute_needs_a_name() -> None:
    events = [{"content": "hi"}, {"event.name": "gen_ai.user.message", "content": "hello"}]
    found = observed({"gen_ai.operation.name": "chat", "events": json.dumps(events)})
    assert (found.unreadable, found.user_input) == (None, "hello")


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"sentry.op": "gen_ai.invoke_agent"}, "agent"),
        ({"sentry.op": "gen_ai.chat"}, "llm"),
        ({"sentry.op": "gen_ai.request"}, "llm"),
        ({"sentry.op": "gen_ai.execute_tool"}, "tool"),
        ({"gen_ai.operation.type": "agent"}, "agent"),
        ({"gen_ai.operation.type": "ai_client"}, "llm"),
        ({"gen_ai.operation.type": "tool"}, "tool"),
        ({"sentry.op": "gen_ai.chat", "gen_ai.operation.name": "embeddings"}, "other"),
        ({"sentry.op": "http.client"}, "other"),
        ({"sentry.op": "gen_ai.embeddings"}, "other"),
        ({"gen_ai.operation.type": "unheard_of"}, "other"),
    ],
)
def test_the_three_kinds_of_sentry_are_read_without_an_operations_name(
    given: dict[str, Any], kind: str
) -> None:
    assert observed({**given, "gen_ai.tool.name": "find"}, "find").kind == kind
