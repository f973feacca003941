"""The span of a tool's call is named by its attributes, else by itself; one that nothing names is no call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import observed, sessions

from spangrade.converters.spans.observation import NAMELESS
from spangrade.tracer.span import Span

# Each way to say that a span is a tool's call, with the scope that says so.
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("openinference.instrumentation.dspy", {"openinference.span.kind": "TOOL"}),
    ("opentelemetry.instrumentation.langchain", {"traceloop.span.kind": "tool"}),
    ("acme.agents", {"gen_ai.operation.name": "execute_tool"}),
    ("acme.agents", {"acme.span.kind": "tool", "acme.input": '{"q":1}', "acme.output": "done"}),
]
AROUND = (
    "{}",
    "{}.__call__",
    "{}.forward",
    "{}.run",
    "{}.arun",
    "{}.tool",
    "{}.ainvoke",
    "Tool.{}",
    "tool:{}",
    "tool {}",
    "tool_call {}",
    "execute_tool {}",
    "tools/call {}",
    "running tool: {}",
)
NAMING = (
    "tool_name",
    "toolName",
    "tool.name",
    "traceloop.entity.name",
    "gen_ai.tool.name",
    "ai.toolCall.name",
    "mcp.tool.name",
    "lk.function_tool.name",
    "function_name",
    "acme.tool.name",
)
NOT_NAMES = (
    "handoff to billing",
    "Handoff: billing",
    "hand-off",
    "transfer to billing",
    "claude_code.tool",
    "tool",
    "tools",
    "Tool.__call__",
    "Tool.run",
    "tool_call",
    "ai.toolCall",
    "call_tool",
    "function_call",
    "execute_tool",
    "running tool",
    "tool execution",
    "DynamicStructuredTool",
    "FunctionTool.acall",
    "langchain_core.tools.StructuredTool.run",
    "unknown",
    "GET https://shop.example/orders?id=1",
    "",
)
NAMES = ("order_status", "getWeather", "search-docs", "github.search_issues", "Get the order", "cart2")


@pytest.mark.parametrize(("scope", "kind"), KINDS)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", NAMES)
def test_a_tool_has_the_name_of_its_span_without_what_is_put_around_it(
    scope: str, kind: dict[str, Any], around: str, name: str
) -> None:
    found = observed(kind, around.format(name), scope_name=scope)
    assert (found.kind, found.name) == ("tool", name)


# Exporters that name a tool's span by the tool.
EXPORTS: list[dict[str, Any]] = [
    {"langfuse.observation.type": "tool"},
    {"langsmith.span.kind": "tool"},
    {"mlflow.spanType": '"TOOL"'},
]


@pytest.mark.parametrize("kind", EXPORTS)
@pytest.mark.parametrize("around", AROUND)
def test_an_export_s_name_of_a_tool_is_without_what_is_put_around_it(
    kind: dict[str, Any], around: str
) -> None:
    found = observed(kind, around.format("order_status"))
    assert (found.kind, found.name) == ("tool", "order_status")


@pytest.mark.parametrize("kind", EXPORTS)
@pytest.mark.parametrize("name", ["execute_tool", "running tool", "Tool.run"])
def test_an_export_s_name_of_any_tool_is_none(kind: dict[str, Any], name: str) -> None:
    assert observed(kind, name).kind == "other"


@pytest.mark.parametrize(("scope", "kind"), KINDS)
@pytest.mark.parametrize("attribute", NAMING)
def test_an_attribute_names_a_tool_before_its_span(scope: str, kind: dict[str, Any], attribute: str) -> None:
    found = observed({**kind, attribute: "order_status"}, "ToolCall.run", scope_name=scope)
    assert (found.kind, found.name) == ("tool", "order_status")


@pytest.mark.parametrize(("scope", "kind"), KINDS)
@pytest.mark.parametrize("name", NOT_NAMES)
def test_a_handoff_a_kind_and_a_class_name_no_tool(scope: str, kind: dict[str, Any], name: str) -> None:
    found = observed(kind, name, scope_name=scope)
    assert (found.kind, found.unfinished, found.not_understood) in (
        ("other", NAMELESS, scope),
        ("handoff", None, None),
    )


@given(st.text(max_size=20), st.sampled_from(AROUND), st.sampled_from(KINDS))
@settings(max_examples=60)
def test_no_interaction_has_an_empty_name(name: str, around: str, kind: tuple[str, dict[str, Any]]) -> None:
    found = observed(kind[1], around.format(name), scope_name=kind[0])
    assert found.kind != "tool" or found.name


@pytest.mark.parametrize(
    "attribute", ["metadata.context.call.tool_name", "code.function.name", "input.tool.name"]
)
def test_what_is_inside_contents_names_no_tool(attribute: str) -> None:
    found = observed({**KINDS[0][1], attribute: "other"}, "order_status.__call__", scope_name=KINDS[0][0])
    assert found.name == "order_status"


def _tool(number: int, parent: int | None, name: str, **attributes: Any) -> Span:
    given = {"openinference.span.kind": "TOOL", "session.id": "s1", "input.value": "{}", **attributes}
    above = None if parent is None else f"{parent:016x}"
    return Span("a" * 32, f"{number:016x}", above, name, "INTERNAL", number, 100 - number, attributes=given)


@pytest.mark.parametrize(
    ("inner", "understood"),
    [("order_status.run", True), ("error", False), ("refund", False), ("tool", True)],
)
def test_what_only_its_name_makes_a_call_is_none_inside_a_call(
    inner: str,
    understood: bool,
    tmp_path: Path,
) -> None:
    spans = [_tool(1, None, "x", **{"tool.name": "order_status"}), _tool(2, 1, inner)]
    (session,) = sessions(spans, tmp_path / "s.duckdb")
    assert [call.tool_name for call in session.tool_interactions] == ["order_status"]
    assert (session.unfinished is None) is (understood and inner != "tool")


def test_a_call_that_nothing_names_is_counted_and_leaves_the_totals_known(tmp_path: Path) -> None:
    usage = {"llm.token_count.prompt": 5, "llm.token_count.completion": 2, "llm.model_name": "gpt-4.1"}
    model = _tool(2, 1, "chat", **usage, **{"openinference.span.kind": "LLM"})
    root = _tool(1, None, "desk", **{"openinference.span.kind": "AGENT", "agent.name": "desk"})
    (session,) = sessions([root, model, _tool(3, 1, "tool")], tmp_path / "s.duckdb")
    assert (session.tool_interactions, session.not_understood, session.unfinished) == ((), 1, NAMELESS)
    assert (session.usage.input_tokens, session.usage.output_tokens) == (5, 2)
