"""What a managed metric sends to the service and makes of its rating; with its client: test_vertex.py."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from builders import session, tool

from spangrade.evaluator.judge import Judgement
from spangrade.evaluator.judge.models.vertex import VertexEvaluation
from spangrade.evaluator.metrics import Score
from spangrade.evaluator.metrics.definitions import definitions_of
from spangrade.evaluator.metrics.judged import ask_vertex

CALL = tool("find", {"q": "a"}, output=[1], output_known=True)
SESSION = session([("hi", [CALL]), ("more", ())])


class Service:
    """Stands in for the client of the service: keeps what it is given."""

    def __init__(self, score: float | None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.score = score

    async def rate(self, metric: str, instance: dict[str, Any], guidelines: str | None) -> Judgement:
        self.asked.append((metric, instance))
        return Judgement(None, self.score, "so so")


def rated(name: str, scale: tuple[float, float], score: float | None = 0.25) -> tuple[Any, dict[str, Any]]:
    document = {"metrics": {"m": {"is_managed": True, "managed_metric_name": name}}}
    definition = definitions_of(document, "m.json")["m"]
    service = Service(score)
    outcome = asyncio.run(ask_vertex(cast(VertexEvaluation, service), definition, scale, SESSION, None))
    ((metric, instance),) = service.asked
    assert outcome == Score(outcome.value, None, f"so so (rubric vertex/{metric})", (), outcome.details)
    return (metric, outcome.value), instance


@pytest.mark.parametrize(
    ("scale", "score", "value"), [((0, 1), 0.25, 0.25), ((1, 5), 0.25, 2.0), ((-1, 1), None, -1.0)]
)
def test_a_rating_is_converted_to_the_scale_of_the_metric(
    scale: tuple[float, float], score: float | None, value: float
) -> None:
    instance = {"prompt": {"text": "hi\nmore"}, "response": {"text": "ok"}}
    assert rated("SAFETY", scale, score) == (("safety_v1", value), instance)


def test_a_metric_of_tools_in_many_turns_is_given_both() -> None:
    named, instance = rated("multi_turn_tool_use_quality_v2", (0, 1))

    def said(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"text": text}]}

    assert named == ("multi_turn_tool_use_quality_v2", 0.25)
    assert instance["prompt"] == {
        "contents": {"contents": [said("user", "hi"), said("model", "ok"), said("user", "more")]}
    }
    call = {"function_call": {"name": "find", "args": {"q": "a"}}}
    result = {"function_response": {"name": "find", "response": {"result": [1]}}}
    events = [
        ("user", said("user", "hi")),
        ("shop", {"role": "model", "parts": [call]}),
        ("shop", {"role": "user", "parts": [result]}),
        ("agent", said("model", "ok")),
    ]
    last = [("user", said("user", "more")), ("agent", said("model", "ok"))]
    assert instance["agent_data"]["turns"] == [
        {
            "turn_index": index,
            "turn_id": str(index + 1),
            "events": [{"author": author, "content": content} for author, content in made],
        }
        for index, made in enumerate((events, last))
    ]
