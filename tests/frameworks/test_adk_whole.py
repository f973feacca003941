"""Google ADK with a scripted model: calls at the same time, agents as tools, transfers, callbacks, state."""

import json

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed: the group `frameworks` has it")

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

import spangrade
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE

FIRST, SECOND = "What is in my cart, and do I have points?", "I want my money back."


class Scripted(BaseLlm):
    """A model that answers a request by what came last: a text of the user, or results of tools."""

    answers: dict

    async def generate_content_async(self, llm_request, stream=False):
        last = [part for part in llm_request.contents[-1].parts if part.function_response or part.text]
        key = last[-1].function_response.name if last[-1].function_response else last[-1].text
        answer = self.answers.get(key, self.answers.get("*"))
        yield LlmResponse(content=types.Content(role="model", parts=[part_of(one) for one in answer]))


def part_of(answer):
    if isinstance(answer, str):
        return types.Part(text=answer)
    return types.Part.from_function_call(name=answer[0], args=answer[1])


def get_cart(customer_id: str, tool_context: ToolContext) -> dict:
    """Return the cart."""
    tool_context.state["customer_id"] = customer_id
    return {"items": 2}


def get_points(customer_id: str) -> dict:
    """Return the points."""
    return {"points": 7}


def count_tools(tool, args, tool_context):
    """Count the calls in the state; a callback may answer in place of the tool, too."""
    tool_context.state["calls"] = tool_context.state.get("calls", 0) + 1
    return {"points": 70} if tool.name == "get_points" else None


def shop():
    tax = LlmAgent(name="tax", description="Knows taxes.", model=Scripted(model="m", answers={"*": ["19%"]}))
    returns = LlmAgent(
        name="returns_agent",
        description="Takes goods back.",
        model=Scripted(model="m", answers={"*": ["Your money is on its way."]}),
    )
    front = {
        FIRST: [("get_cart", {"customer_id": "C-1"}), ("get_points", {"customer_id": "C-1"})],
        "get_points": [("tax", {"request": "How much is the tax?"})],
        "tax": ["Two items, 70 points, 19% of tax."],
        SECOND: [("transfer_to_agent", {"agent_name": "returns_agent"})],
    }
    return LlmAgent(
        name="shop_agent",
        model=Scripted(model="m", answers=front),
        tools=[get_cart, get_points, AgentTool(tax)],
        sub_agents=[returns],
        before_tool_callback=count_tools,
    )


QUESTION = {
    "id": "q1",
    "user_inputs": [FIRST, SECOND],
    "agents_evaluated": ["shop", "returns_agent"],
    "reference_data": {
        "reference_tool_interactions": [
            {"tool_name": "get_cart", "input_arguments": {"customer_id": "C-1"}, "output": {"items": 2}},
            {"tool_name": "get_points", "input_arguments": {"customer_id": "C-1"}, "output": {"points": 70}},
            {"tool_name": "tax", "input_arguments": {"request": "How much is the tax?"}},
            {"tool_name": "transfer_to_agent", "input_arguments": {"agent_name": "returns_agent"}},
        ],
        "reference_trajectory": ["shop", "tax", "shop", "returns_agent"],
        "reference_state_variables": {"customer_id": "C-1", "calls": 4},
    },
}


async def test_what_an_agent_of_adk_does_is_recorded_whole_and_graded_by_its_apps_name(tmp_path, monkeypatch):
    monkeypatch.setenv(CAPTURE_CONTENT_VARIABLE, "span_and_event")
    db = tmp_path / "s.duckdb"
    provider = spangrade.configure(db=db)
    runner = InMemoryRunner(agent=shop(), app_name="shop")
    created = await runner.session_service.create_session(app_name="shop", user_id="u-1")
    for text in (FIRST, SECOND):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in runner.run_async(user_id="u-1", session_id=created.id, new_message=message):
            pass
    provider.force_flush()
    kept = await runner.session_service.get_session(app_name="shop", user_id="u-1", session_id=created.id)
    record = tmp_path / "record.session.json"
    record.write_text(kept.model_dump_json(by_alias=True, exclude_none=True))
    database = spangrade.open(db)
    database.import_files(record)
    [found] = database.sessions()
    assert [(turn.user_input, turn.final_response) for turn in found.turns] == [
        (FIRST, "Two items, 70 points, 19% of tax."),
        (SECOND, "Your money is on its way."),
    ]
    assert found.agents == ("shop_agent", "tax", "returns_agent")
    assert sorted(
        (call.turn, call.tool_name, json.dumps(call.input_arguments), call.ok)
        for call in found.tool_interactions
    ) == [
        (1, "get_cart", '{"customer_id": "C-1"}', True),
        (1, "get_points", '{"customer_id": "C-1"}', True),
        (1, "tax", '{"request": "How much is the tax?"}', True),
        (2, "transfer_to_agent", '{"agent_name": "returns_agent"}', True),
    ]
    assert found.handoffs == (("shop_agent", "returns_agent"),)
    assert found.state_variables == {"customer_id": "C-1", "calls": 4}
    assert found.app_name == "shop"
    run = database.grade([QUESTION])
    assert (run.exit_code, [one.reason for one in run.sessions]) == (0, [""])
    assert run.root_agents == {"shop means the root agent shop_agent": 1}
