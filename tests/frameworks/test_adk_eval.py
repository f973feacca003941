"""`adk eval` itself, over an agent with a scripted model: its history is converted, and graded."""

import json
import sys

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed: the group `frameworks` has it")
pytest.importorskip("agentplatform", reason="`adk eval` needs it: the group `frameworks` has it")

from command_line import run as spangrade
from google.adk.cli.cli_tools_click import main as adk

import spangrade as sg

AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            part = types.Part(text=f"It is {last.function_response.response['status']}.")
        else:
            part = types.Part.from_function_call(name="look_up", args={"order": "A-1"})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

def look_up(order: str) -> dict:
    "Return an order."
    return {"status": "sent"}

root_agent = LlmAgent(name="shop_agent", model=Scripted(model="scripted"), tools=[look_up])
"""


def case(name, *turns):
    """A case of an eval set: what the user says, the order to look up, and the expected reply."""
    return {
        "eval_id": name,
        "conversation": [
            {
                "invocation_id": f"{name}-{number}",
                "user_content": {"role": "user", "parts": [{"text": text}]},
                "final_response": {"role": "model", "parts": [{"text": reply}]},
                "intermediate_data": {
                    "tool_uses": [{"name": "look_up", "args": {"order": order}}],
                    "intermediate_responses": [],
                },
            }
            for number, (text, order, reply) in enumerate(turns)
        ],
        "session_input": {"app_name": "shop", "user_id": "u", "state": {}},
    }


GOOD = ("Where is A-1?", "A-1", "It is sent.")
EVAL_SET = {
    "eval_set_id": "orders",
    "eval_cases": [
        case("once", GOOD),
        case("twice", GOOD, GOOD),
        case("other", ("Where?", "B-2", "It is sent.")),
    ],
}


@pytest.fixture
def history(tmp_path, monkeypatch):
    """A folder in which `adk eval` has run the set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, content in (
        ("shop/__init__.py", "from . import agent"),
        ("shop/agent.py", AGENT),
        ("orders.evalset.json", json.dumps(EVAL_SET)),
        ("criteria.json", json.dumps({"criteria": {"tool_trajectory_avg_score": 1.0}})),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    command = ["eval", "shop", "orders.evalset.json", "--config_file_path", "criteria.json"]
    with pytest.raises(SystemExit, match="1"):  # one case fails
        adk(command, standalone_mode=False)
    yield tmp_path
    # `adk eval` imports an agent's package as `agent`, whatever its name.
    for module in [name for name in sys.modules if name.partition(".")[0] in ("agent", "shop")]:
        del sys.modules[module]


def test_the_history_of_adk_eval_is_converted_and_graded_as_adk_did_it(history):
    convert = ["convert_adk_history_to_dataset.py", "--agent-dir", "shop", "--output", "history.csv"]
    assert spangrade(*convert, "--db", "shop.duckdb").code == 0
    # ADK's own score, which is in the spans, is a metric before anything was derived of them.
    grade = ["grade", "orders.evalset.json", "--no-references", "--db", "shop.duckdb", "--format", "json"]
    done = spangrade(*grade, "--metric", "adk.tool_trajectory_avg_score>=1")
    verdicts = {"once": "passed", "twice": "passed", "other": "failed"}
    assert verdicts_of(done) == verdicts
    ours = spangrade("grade", "orders.evalset.json", "--db", "shop.duckdb", "--format", "json")
    assert verdicts_of(ours) == verdicts
    rows = spangrade(
        "grade", "history.csv", "--db", "rows.duckdb", "--metric", "tool_utilization<=1", "--format", "json"
    )
    assert verdicts_of(rows) == {"once": "passed", "twice": "failed", "other": "passed"}
    with sg.open("shop.duckdb") as db:
        found = {
            one.question_id: (
                one.agents,
                one.app_name,
                [turn.final_response for turn in one.turns],
                [
                    (call.turn, call.tool_name, call.input_arguments, call.output)
                    for call in one.tool_interactions
                ],
            )
            for one in db
        }
    called = [(n, "look_up", {"order": "A-1"}, {"status": "sent"}) for n in (1, 2)]
    assert found == {
        "once": (("shop_agent",), "shop", ["It is sent."], called[:1]),
        "twice": (("shop_agent",), "shop", ["It is sent."] * 2, called),
        "other": (("shop_agent",), "shop", ["It is sent."], called[:1]),
    }


def verdicts_of(done):
    return {one["question_id"]: one["verdict"] for one in json.loads("\n".join(done.out))["grades"]}
