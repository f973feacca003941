"""One conversation, what passes and what fails of it, and the words of the scripted models."""

import json

from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

QUESTION, THEN = "What's the weather like in San Francisco?", "What about tomorrow?"
NOW, TOMORROW = "It is 61 degrees and foggy right now.", "Tomorrow will be sunny."
SORRY = "The weather is not known."
OPENING = "Hello, I know the weather."


def get_weather(location: str, units: str = "celsius", forecast: str = "now") -> dict:
    """Look the weather up."""
    return {"temperature": 61 if forecast == "now" else 70, "condition": "foggy"}


def script(asked: str, result: object) -> tuple[str, dict] | str:
    """What the scripted model answers to what the user said last: a call of the tool, then a text."""
    if result is None:
        more = {"units": "fahrenheit"} if asked == QUESTION else {"forecast": "tomorrow"}
        return "get_weather", {"location": "San Francisco", **more}
    if "foggy" not in json.dumps(result):
        return SORRY
    return NOW if asked == QUESTION else TOMORROW


def expected(*, location="San Francisco", condition="*", calls=1, text=NOW):
    """The document's conversation, or another."""
    first = ToolCall(
        "get_weather", {"location": location, "units": "fahrenheit"}, {"temperature": None, "condition": "*"}
    )
    second = ToolCall(
        "get_weather",
        {"location": "San Francisco", "forecast": "tomorrow"},
        {"temperature": None, "condition": condition},
    )
    return [
        UserTurn(QUESTION),
        AgentTurn(text, [first] * calls),
        UserTurn(THEN),
        AgentTurn("*", [second]),
    ]


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
    UserTurn(THEN),
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

# What a conversation that is not as expected fails with, by any agent: path and reason's beginning.
FAILURES = {
    "another location": (expected(location="Paris"), "turn 2.tool_calls[0].arguments.location"),
    "another result": (expected(condition="sunny"), "turn 4.tool_calls[0].result.condition"),
    "two calls of the same tool": (expected(calls=2), "turn 2.tool_calls"),
    "no calls": (expected(calls=0), "turn 2.tool_calls"),
    "another text": (expected(text="I do not know."), "turn 2.text"),
}
