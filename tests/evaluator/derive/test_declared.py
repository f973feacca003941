"""The tools and the instructions that a session's models were given, wherever they are recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import Fields, built_session, reading
from recordings import dotted, observed

from spangrade.evaluator.metrics.columns import column

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
OPENAI = {"type": "function", "function": {**WEATHER, "strict": True}}
ANTHROPIC = {"name": "weather", "description": "The weather.", "input_schema": SCHEMA}
CHAT = {"gen_ai.operation.name": "chat"}
LLM = {"openinference.span.kind": "LLM"}
ADK = {"gcp.vertex.agent.llm_request": None, "gen_ai.system": "gcp.vertex.agent"}


def given(*observations: Fields) -> tuple[Any, Any]:
    session = built_session("s1", "conversation", observations)
    return (
        column("extracted_data:tool_declarations", session, None),
        column("extracted_data:system_instruction", session, None),
    )


@pytest.mark.parametrize(
    "attributes",
    [
        CHAT | {"gen_ai.tool.definitions": json.dumps([{"type": "function", **WEATHER}])},
        CHAT | {"gen_ai.tool.definitions": [json.dumps(OPENAI)]},
        CHAT
        | {"gen_ai.tool.definitions": json.dumps([{**WEATHER, "input_schema": SCHEMA, "parameters": None}])},
        CHAT | {"gen_ai.tool.definitions": json.dumps([{"functionDeclarations": [WEATHER]}])},
        LLM | {"llm.tools.0.tool.json_schema": json.dumps(OPENAI)},
        {
            "llm.request.type": "chat",
            "llm.request.functions.0.name": "weather",
            "llm.request.functions.0.description": "The weather.",
            "llm.request.functions.0.parameters": json.dumps(SCHEMA),
        },
        ADK
        | CHAT
        | {
            "gcp.vertex.agent.llm_request": json.dumps(
                {"contents": [], "config": {"tools": [{"function_declarations": [WEATHER]}]}}
            )
        },
    ],
)
def test_a_declaration_is_read_from_every_place_and_form(attributes: dict[str, Any]) -> None:
    assert given(observed(attributes))[0] == [{"function_declarations": [WEATHER]}]


@pytest.mark.parametrize(
    "attributes",
    [
        CHAT | {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}])},
        CHAT | {"gen_ai.system_instructions": "Be brief."},
        CHAT | {"gen_ai.input.messages": json.dumps([{"role": "system", "content": "Be brief."}])},
        LLM
        | {
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "Be brief.",
        },
        dotted(
            llm__request__type="chat",
            gen_ai__prompt__0__role="system",
            gen_ai__prompt__0__content="Be brief.",
        ),
        ADK
        | CHAT
        | {
            "gcp.vertex.agent.llm_request": json.dumps(
                {"contents": [], "config": {"system_instruction": "Be brief."}}
            )
        },
    ],
)
def test_instructions_are_read_from_every_place(attributes: dict[str, Any]) -> None:
    assert given(observed(attributes))[1] == "Be brief."


def test_a_tool_of_one_agent_is_listed_once_with_all_that_is_known_of_it() -> None:
    def call(span_id: str, agent: str, tools: Any, text: str | None = None) -> Fields:
        declared = None if tools is None else json.dumps(tools)
        return reading(
            "llm", span_id, None, agent=agent, tool_declarations=declared, system_instructions=text
        )

    named, other = {"name": "weather"}, {"name": "desk", "description": "Returns."}
    assert given(
        call("1", "a", [named], "Be brief."),
        call("2", "a", [WEATHER, {"google_search": {}}], "Be brief, it is 10:05."),
        call("3", "b", [WEATHER, other], "Be kind."),
    ) == (
        [{"function_declarations": [WEATHER]}, {"google_search": {}}, {"function_declarations": [other]}],
        "Be brief.\n\nBe kind.",
    )


def test_what_is_not_recorded_is_unknown() -> None:
    assert given(observed(CHAT)) == (None, None)
    assert given(observed(CHAT | {"gen_ai.tool.definitions": "[]"})) == (None, None)


def test_a_tool_that_is_declared_by_its_name_alone_is_one() -> None:
    declared, _ = given(observed(CHAT | {"gen_ai.tool.definitions": json.dumps([{"name": "find"}])}))
    assert declared == [{"function_declarations": [{"name": "find"}]}]
