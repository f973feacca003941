"""Managed metrics on Vertex AI: a session in the form that its evaluation service takes."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.judge import Judgement, JudgeRun, default_judge
from spangrade.evaluator.judge.models.vertex import VertexEvaluation
from spangrade.evaluator.metrics.columns import column, not_recorded
from spangrade.evaluator.metrics.definitions import Definition, Scale
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score
from spangrade.evaluator.session import Session, Turn
from spangrade.tracer.base.canonical_json import dumps

# These also rate the tool calls and their results.
_BY_TOOLS = frozenset(
    {
        "GROUNDING",
        "HALLUCINATION",
        "TOOL_USE_QUALITY",
        "FINAL_RESPONSE_QUALITY",
        "MULTI_TURN_TOOL_USE_QUALITY",
        "MULTI_TURN_TRAJECTORY_QUALITY",
        "MULTI_TURN_TASK_SUCCESS",
    }
)
_VERSIONED = re.compile(r"_v\d+$")


async def ask_vertex(
    evaluation: VertexEvaluation,
    definition: Definition,
    scale: Scale,
    session: Session,
    question: GoldenQuestion | None,
) -> Outcome:
    """Return the service's rating of a session, converted from 0 to 1 to the definition's range.

    Without a version in its name, version 1 of the managed metric is used, which every client supports.
    """
    sources = {"prompt": "user_inputs", "response": "final_response"} | definition.sources
    material = {name: column(sources[name], session, question) for name in ("prompt", "response")}
    for name, value in material.items():
        if value is None:
            return Inconclusive(not_recorded(sources[name]))
    metric = (definition.managed_metric_name or "").lower()
    metric = metric if _VERSIONED.search(metric) else f"{metric}_v1"
    instance: dict[str, Any] = {name: {"text": _text(value)} for name, value in material.items()}
    if definition.managed_name.startswith("MULTI_TURN"):
        messages = [_message(*pair) for turn in session.turns for pair in _pairs(turn)]
        instance["prompt"] = {"contents": {"contents": messages[:-1]}}
    if definition.managed_name in _BY_TOOLS:
        instance["agent_data"] = {"turns": [_turn(session, turn) for turn in session.turns]}
    judge = default_judge()

    def rate() -> Coroutine[Any, Any, Judgement]:
        return evaluation.rate(metric, instance, definition.natural_language_guidelines)

    verdict = await (judge.pay(rate) if isinstance(judge, JudgeRun) else rate())
    value = scale[0] + (verdict.score or 0.0) * (scale[1] - scale[0])
    return Score(
        value, None, f"{verdict.reason} (rubric vertex/{metric})", (), {"rubric": f"vertex/{metric}"}
    )


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return value if isinstance(value, str) else dumps(value)


def _pairs(turn: Turn) -> list[tuple[str, str]]:
    pairs = (("user", turn.user_input), ("model", turn.final_response))
    return [(role, text) for role, text in pairs if text is not None]


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def _turn(session: Session, turn: Turn) -> dict[str, Any]:
    events: list[tuple[str, dict[str, Any]]] = []
    for call in session.tool_interactions:
        if call.turn == turn.turn:
            agent, name = call.agent or "agent", call.tool_name
            request = {"function_call": {"name": name, "args": _object(call.input_arguments)}}
            response = {"function_response": {"name": name, "response": _object(call.output)}}
            events.append((agent, {"role": "model", "parts": [request]}))
            if call.output_known:
                events.append((agent, {"role": "user", "parts": [response]}))
    if turn.user_input is not None:
        events.insert(0, ("user", _message("user", turn.user_input)))
    if turn.final_response is not None:
        events.append(("agent", _message("model", turn.final_response)))
    return {
        "turn_index": turn.turn - 1,
        "turn_id": str(turn.turn),
        "events": [{"author": author, "content": content} for author, content in events],
    }


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"result": value}
