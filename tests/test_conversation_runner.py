"""Conversations held with agents of every kind. Statements of the document are quoted by their tests."""

from dataclasses import dataclass, field

import pytest
from gemini_standin import gemini_standin, knows

from spangrade import tracer
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.judge import GeminiJudge, JudgeRun, use_judge
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

QUESTION = "What's the weather like in San Francisco?"
NOW = "It is 61 degrees and foggy right now."
TOMORROW = "Tomorrow will be sunny."


def weather(location, units=None, forecast=None):
    return {"temperature": 61 if forecast is None else 70, "condition": "foggy"}


def arguments_of(text):
    if text == QUESTION:
        return {"location": "San Francisco", "units": "fahrenheit"}
    return {"location": "San Francisco", "forecast": "tomorrow"}


def said_to(text):
    return NOW if text == QUESTION else TOMORROW


class NoJudge:
    """A judge that must not be asked."""

    name = "none"

    async def ask(self, question):
        raise AssertionError(f"the judge was asked {question}")


@pytest.fixture
def gemini(monkeypatch):
    """The stand-in of Gemini, which knows what mentions the weather."""
    monkeypatch.setenv("GEMINI_API_KEY", "key of the stand-in")
    with gemini_standin() as standin:
        standin.answer = knows(("mentions current weather conditions", NOW))
        with use_judge(JudgeRun(GeminiJudge(http_options=standin.http_options()))):
            yield standin


@pytest.fixture
def no_judge():
    with use_judge(NoJudge()):
        yield


def expecting(text="*", tool_calls=None, user="Hello"):
    return [UserTurn(user), AgentTurn(text, tool_calls)]


# --- Usage Example


@dataclass
class AgentResponse:
    content: str


@dataclass
class ToolResult:
    tool_name: str
    tool_args: dict = field(default_factory=dict)
    result: object = None
    error: str | None = None
    tool_call_id: str | None = None


class ExampleWeatherNode:
    """In the style of the document: a node whose `process_context` yields what it does."""

    async def process_context(self, context):
        text = context.get_latest_user_transcript_message()
        arguments = arguments_of(text)
        yield ToolResult("get_weather", arguments, weather(**arguments))
        for piece in said_to(text).split(" "):
            yield AgentResponse(piece if piece.endswith(".") else f"{piece} ")


async def document_example(reasoning_node):
    # Define expected conversation flow
    expected_conversation = [
        UserTurn(text="What's the weather like in San Francisco?"),
        AgentTurn(
            text="<mentions current weather conditions>",
            tool_calls=[
                ToolCall(
                    name="get_weather",
                    arguments={"location": "San Francisco", "units": "fahrenheit"},
                    result={"temperature": None, "condition": "*"},
                )
            ],
        ),
        UserTurn(text="What about tomorrow?"),
        AgentTurn(
            text="*",  # Accept any response about tomorrow's weather
            tool_calls=[
                ToolCall(
                    name="get_weather",
                    arguments={"location": "San Francisco", "forecast": "tomorrow"},
                    result={"temperature": None, "condition": "*"},
                )
            ],
        ),
    ]

    # Run the test
    test_conv = ConversationRunner(reasoning_node, expected_conversation)
    return await test_conv.run()


HELD = [
    UserTurn(QUESTION),
    AgentTurn(
        NOW,
        [
            ToolCall(
                "get_weather",
                {"location": "San Francisco", "units": "fahrenheit"},
                {"temperature": 61, "condition": "foggy"},
            )
        ],
    ),
    UserTurn("What about tomorrow?"),
    AgentTurn(
        TOMORROW,
        [
            ToolCall(
                "get_weather",
                {"location": "San Francisco", "forecast": "tomorrow"},
                {"temperature": 70, "condition": "foggy"},
            )
        ],
    ),
]


async def test_the_usage_example_runs_as_it_stands(gemini):
    assert await document_example(ExampleWeatherNode()) == HELD
    assert gemini.calls == 1


get_weather = tracer.tool("get_weather")(weather)


@tracer.agent("weather")
async def instrumented(text):
    get_weather(**arguments_of(text))
    return said_to(text)


def uninstrumented(text):
    arguments = arguments_of(text)
    return AgentTurn(said_to(text), [ToolCall("get_weather", arguments, weather(**arguments))])


@pytest.mark.parametrize("agent", [instrumented, uninstrumented])
async def test_an_agent_that_emits_spans_passes_as_one_that_returns_its_turn(gemini, agent):
    assert await document_example(agent) == HELD
