"""An agent over the real client of google-genai, against a server on loopback: its spans are graded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gemini_standin import MODEL, PRICE, GeminiStandIn, Request, gemini_standin
from google import genai
from google.genai import types

import spangrade

LOOK_UP = types.FunctionDeclaration(
    name="look_up_order",
    description="Return an order.",
    parameters_json_schema={"type": "object", "properties": {"order_id": {"type": "string"}}},
)


@pytest.fixture
def gemini() -> Iterator[GeminiStandIn]:
    with gemini_standin() as standin:
        standin.answer = answer_of_the_model
        yield standin


def answer_of_the_model(request: Request) -> str | dict[str, Any]:
    """Call the tool for the order in the user's text, then say the status in the tool's result."""
    last = request.body["contents"][-1]["parts"][-1]
    if "functionResponse" in last:
        return f"It is {last['functionResponse']['response']['status']}."
    return {"name": "look_up_order", "args": {"order_id": last["text"].split()[-1]}}


@spangrade.tool
def look_up_order(order_id: str) -> dict[str, str]:
    return {"order_id": order_id, "status": "late"}


class Agent:
    """A loop: ask the model, call what it requests, ask again. It keeps what was said."""

    def __init__(self, gemini: GeminiStandIn) -> None:
        self._client = genai.Client(api_key="a key", http_options=gemini.http_options())
        self._contents: list[types.Content] = []

    @spangrade.agent("shop")
    def __call__(self, text: str) -> str:
        self._contents.append(types.UserContent(text))
        while True:
            with spangrade.llm_call(MODEL, "gcp.gemini") as call:
                call.input([one.model_dump(exclude_none=True) for one in self._contents])
                response = self._client.models.generate_content(
                    model=MODEL,
                    contents=self._contents,
                    config=types.GenerateContentConfig(tools=[types.Tool(function_declarations=[LOOK_UP])]),
                )
                call.record(response)
            self._contents.append(response.candidates[0].content)
            if not response.function_calls:
                return str(response.text)
            for requested in response.function_calls:
                result = look_up_order(**requested.args)
                part = types.Part.from_function_response(name=requested.name, response=result)
                self._contents.append(types.Content(role="user", parts=[part]))


def question(order: str, *texts: str) -> dict[str, Any]:
    called = {
        "tool_name": "look_up_order",
        "input_arguments": {"order_id": order},
        "output": {"status": "late"},
    }
    return {
        "id": order,
        "user_inputs": list(texts),
        "agents_evaluated": ["shop"],
        "reference_data": {
            "reference_tool_interactions": [called],
            "reference_trajectory": ["shop", "look_up_order"],
            "reference_response": "It is late.",
        },
    }


def test_what_an_agent_over_the_real_client_does_is_recorded_and_graded(
    gemini: GeminiStandIn, tmp_path: Path
) -> None:
    questions = [question("A-1", "Where is A-1"), question("B-2", "Where is C-3")]
    with spangrade.open(tmp_path / "db.duckdb") as db:
        run = db.run(lambda text: Agent(gemini)(text), questions, name="real")
        sessions = {one.question_id: one for one in db}
    assert {one.question_id: str(one.verdict) for one in run.sessions} == {"A-1": "passed", "B-2": "failed"}
    assert [request.path.rpartition("/")[2] for request in gemini.requests] == [
        f"{MODEL}:generateContent"
    ] * 4
    found = sessions["A-1"]
    assert [(turn.user_input, turn.final_response) for turn in found.turns] == [
        ("Where is A-1", "It is late.")
    ]
    assert [(call.tool_name, call.input_arguments, call.output) for call in found.tool_interactions] == [
        ("look_up_order", {"order_id": "A-1"}, {"order_id": "A-1", "status": "late"})
    ]
    # Of each call 1,000 tokens in, and 20 of the answer and 80 of thoughts out.
    assert [
        (call.model, call.input_tokens, call.output_tokens, call.reasoning_tokens, call.cost_usd)
        for call in found.llm_calls
    ] == [(MODEL, 1000, 100, 80, PRICE)] * 2
    assert (found.requested_calls, found.errors) == ((), ())


def test_a_request_that_fails_is_the_sessions_error(gemini: GeminiStandIn, tmp_path: Path) -> None:
    gemini.failures = [400]
    with spangrade.open(tmp_path / "db.duckdb") as db:
        run = db.run(lambda text: Agent(gemini)(text), [question("A-1", "Where is A-1")], name="real")
        (found,) = db
    assert [re.sub(r"\.py:\d+\)", ".py:LINE)", one.reason.partition(";")[0]) for one in run.sessions] == [
        (
            "turns_answered: turn 1 ended in an error without an answer: ClientError: 400 FAILED. "
            "{'error': {'code': 400, 'message': 'stand-in fails with 400', 'status': 'FAILED'}} "
            "(tests/evaluator/test_genai_client.py:LINE)"
        )
    ]
    assert [error.where for error in found.errors] == [f"llm {MODEL}"]
