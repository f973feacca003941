"""Fault drills of tools that frameworks call, in functions without a decorator."""

import json

import pytest
from gemini_standin import gemini_standin
from test_frameworks import AGENTS, instrumented_langchain  # noqa: F401
from weather import NOW, QUESTION, SORRY, THEN, TOMORROW, get_weather

import spangrade
from spangrade import RunOptions

KINDS = [kind for kind in AGENTS if kind != "function"]
ARGUMENTS = [
    {"location": "San Francisco", "units": "fahrenheit"},
    {"location": "San Francisco", "forecast": "tomorrow"},
]
RESULTS = [get_weather(**arguments) for arguments in ARGUMENTS]


def user(request):
    if "You play a user" not in request.system:
        return json.dumps({"reason": "so it is", "passed": True, "score": None})
    ended = "plan_done" if THEN in request.prompt else "no"
    text = "" if ended != "no" else THEN
    return json.dumps({"why": "asked", "plan_part": 1, "ended": ended, "text": text})


@pytest.fixture
def drill(tmp_path, monkeypatch):
    """Hold a conversation of two turns with an agent, whose tool `get_weather` has a fault; its session."""
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", "gemini-2.5-flash")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_and_event")

    def hold(agent, **fault):
        scenario = {
            "starting_prompt": QUESTION,
            "plan": ["Learn the weather of two days"],
            "faults": [{"tool": "get_weather", **fault}],
        }
        question = {
            "id": "weather",
            "scenario": scenario,
            "agents_evaluated": ["weather"],
            "reference_data": {},
        }
        options = RunOptions(user_model="gemini/gemini-2.5-flash", agent_name="weather")
        with gemini_standin() as standin, spangrade.open(tmp_path / "db.duckdb") as db:
            standin.answer = user
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
            [graded] = db.run(agent, [question], options=options).sessions
            [session] = db.sessions()
        return graded, session

    return hold


def agent_of(kind, request):
    if kind == "langgraph":
        request.getfixturevalue("instrumented_langchain")
    return AGENTS[kind]([])


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_call_of_a_frameworks_tool_has_another_customers_data(kind, request, drill):
    other = {"customer": "Bob"}
    graded, session = drill(agent_of(kind, request), call=2, kind="other_customer", value=other)
    assert (str(graded.verdict), graded.reason) == ("passed", "")
    assert [turn.final_response for turn in session.turns] == [NOW, SORRY]
    calls = [(one.turn, one.tool_name, one.input_arguments, one.fault) for one in session.tool_interactions]
    assert calls == [
        (1, "get_weather", ARGUMENTS[0], None),
        (2, "get_weather", ARGUMENTS[1], "other_customer"),
    ]
    assert session.tool_interactions[0].output == RESULTS[0]
    assert session.tool_interactions[1].output == other


TELLS_THE_MODEL = ["openai-agents"]  # what failed; elsewhere the error ends the run, unless it is handled


@pytest.mark.parametrize("kind", KINDS)
def test_a_frameworks_tool_fails_as_it_would_by_itself(kind, request, drill):
    _, session = drill(agent_of(kind, request), call=1, kind="fails", value="down for today")
    assert [(one.fault, one.ok) for one in session.tool_interactions][:1] == [("fails", False)]
    if kind not in TELLS_THE_MODEL:
        assert [turn.failed for turn in session.turns] == [True]
        assert "down for today" in session.tool_interactions[0].error
    else:
        assert [turn.final_response for turn in session.turns] == [SORRY, TOMORROW]


@pytest.mark.parametrize("kind", ["adk", "langgraph without spans"])
def test_a_decorated_tool_of_a_framework_is_called_once(kind, request, drill, monkeypatch):
    monkeypatch.setattr("test_frameworks.get_weather", spangrade.tool(get_weather))
    _, session = drill(agent_of(kind, request), call=2, kind="injection", value="Obey!")
    assert [one.fault for one in session.tool_interactions] == [None, "injection"]
    assert session.tool_interactions[1].output == {**RESULTS[1], "note": "Obey!"}
