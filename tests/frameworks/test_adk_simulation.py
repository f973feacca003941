"""ADK's own simulation and ours, with the same scenario: sessions of one shape; its history is graded."""

import json
import sys
from contextlib import suppress

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed: the group `frameworks` has it")
pytest.importorskip("agentplatform", reason="`adk eval` needs it: the group `frameworks` has it")
pytest.importorskip("google.adk.evaluation.simulation", reason="this ADK has no simulation")

from command_line import run as spangrade
from gemini_standin import gemini_standin
from google.adk.cli.cli_tools_click import main as adk

import spangrade as sg

AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LLMRegistry, LlmResponse
from google.genai import types

class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            part = types.Part(text=f"It is {last.function_response.response['status']}.")
        elif "A-1" not in (last.text or ""):
            part = types.Part(text="Which order is it?")
        else:
            part = types.Part.from_function_call(name="look_up", args={"order": "A-1"})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

class User(BaseLlm):
    @classmethod
    def supported_models(cls):
        return ["scripted-user"]

    async def generate_content_async(self, llm_request, stream=False):
        prompt = llm_request.contents[-1].parts[-1].text
        text = "</finished>" if "It is sent." in prompt else "It is A-1."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))

LLMRegistry.register(User)

def look_up(order: str) -> dict:
    "Return an order."
    return {"status": "sent"}

root_agent = LlmAgent(name="shop_agent", model=Scripted(model="scripted"), tools=[look_up])
"""
EVAL_SET = {
    "eval_set_id": "orders",
    "eval_cases": [
        {
            "eval_id": "where",
            "conversation_scenario": {
                "starting_prompt": "Where is my order?",
                "conversation_plan": "Learn where order A-1 is.",
                "user_persona": "EXPERT",
            },
            "session_input": {"app_name": "shop", "user_id": "u", "state": {}},
        }
    ],
}


def our_user(request):
    if "You play a user" not in request.system:
        return json.dumps({"reason": "so it is", "passed": True, "score": None})
    ended = "plan_done" if "It is sent." in request.prompt else "no"
    text = "" if ended != "no" else "It is A-1."
    return json.dumps({"why": "asked", "plan_part": 1, "ended": ended, "text": text})


def shape(db):
    with sg.open(db) as opened:
        (session,) = opened.sessions()
    calls = [(one.turn, one.tool_name) for one in session.tool_interactions]  # contents may not be captured
    turns = [(turn.user_input, turn.final_response) for turn in session.turns]
    return turns, calls, [step.name for step in session.trajectory]


def test_a_scenario_gives_the_same_session_by_adks_simulation_and_by_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    config = {
        "criteria": {},
        "user_simulator_config": {"model": "scripted-user", "max_allowed_invocations": 5},
    }
    for name, content in (
        ("shop/__init__.py", "from . import agent"),
        ("shop/agent.py", AGENT),
        ("orders.evalset.json", json.dumps(EVAL_SET)),
        ("config.json", json.dumps(config)),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    command = ["eval", "shop", "orders.evalset.json", "--config_file_path", "config.json"]
    with suppress(SystemExit):  # without a criterion nothing passes
        adk(command, standalone_mode=False)
    convert = ["convert_adk_history_to_dataset.py", "--agent-dir", "shop", "--output", "history.csv"]
    assert spangrade(*convert, "--db", "adk.duckdb").code == 0

    monkeypatch.setenv("GEMINI_API_KEY", "key")
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", "gemini-2.5-flash")
    with gemini_standin() as standin:
        standin.answer = our_user
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        run = [
            "run",
            "shop.agent:root_agent",
            "orders.evalset.json",
            "--user-model",
            "gemini/gemini-2.5-flash",
        ]
        done = spangrade(*run, "--db", "ours.duckdb")
        assert done.code == 0, (done.out, done.err)
        # ADK's history is graded by the same scenario. Nobody knows what its user decided, and none of our
        # users is recorded in it: whether it kept to the plan stays open.
        graded = spangrade("grade", "orders.evalset.json", "--db", "adk.duckdb", "--format", "json")
    (grade,) = json.loads("\n".join(graded.out))["grades"]
    assert (grade["question_id"], grade["verdict"]) == ("where", "inconclusive")
    assert grade["reason"].startswith("simulation_valid: ")
    turns = [("Where is my order?", "Which order is it?"), ("It is A-1.", "It is sent.")]
    assert shape("adk.duckdb") == (turns, [(2, "look_up")], ["shop_agent", "look_up"])
    assert shape("ours.duckdb") == shape("adk.duckdb")
    # `adk eval` imports an agent's package as `agent`, whatever its name.
    for module in [name for name in sys.modules if name.partition(".")[0] in ("agent", "shop")]:
        del sys.modules[module]
