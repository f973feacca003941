"""Judged metrics: the judge rates the mapped columns of a session by a definition's rubric.

`final_response_match` asks the judge only about a reply that differs from `reference_response`. Managed
metrics are rated by Vertex AI: a session takes the form that its evaluation service reads.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from spangrade.converters.datasets.golden import ExpectedReply, GoldenQuestion, ReferenceData
from spangrade.evaluator.judge import (
    JudgeBudgetExceeded,
    Judgement,
    JudgeRun,
    JudgeUnavailable,
    Question,
    default_judge,
    rate,
    rate_by,
)
from spangrade.evaluator.judge.models.vertex import VertexEvaluation, vertex_evaluation
from spangrade.evaluator.judge.protocol import NoJudge, holds
from spangrade.evaluator.metrics.causes import reply_evidence
from spangrade.evaluator.metrics.columns import (
    OF_THE_QUESTION,
    column,
    final_response,
    not_recorded,
    numbered_summary,
)
from spangrade.evaluator.metrics.definitions import (
    Definition,
    MaterialSource,
    Scale,
    definitions_of,
    load_definitions,
)
from spangrade.evaluator.metrics.metric import Inconclusive, Metric, Outcome, Score, metric
from spangrade.evaluator.metrics.patterns import matches_pattern
from spangrade.evaluator.metrics.reply_texts import contains, same_text
from spangrade.evaluator.metrics.response import required_texts, response_match
from spangrade.evaluator.metrics.simulation import evidence_of
from spangrade.evaluator.session import Session, Turn
from spangrade.tracer.base.canonical_json import dumps

# Increased with every change of rubrics.json: scores by different rubrics are not comparable.
RUBRICS_VERSION = 1
_ZERO_TO_ONE = (0.0, 1.0)
_RESPONSE, _LAST_REPLY = "reference_response", "the last reply"
_JUDGE = "response_correctness@judge"  # of replies that differ from the reference
_Answer = Judgement | JudgeUnavailable | JudgeBudgetExceeded
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


def load_judged(path: Path, columns: Collection[str] = ()) -> tuple[Metric, ...]:
    """Return the metrics of a definitions file. Raises `InputError` if it is not valid.

    `columns` are further columns, of the dataset, that the metrics may use.
    """
    vertex, definitions = vertex_evaluation(), load_definitions(path, columns)
    return tuple(judged(name, definition, vertex) for name, definition in definitions.items())


def judged(name: str, definition: Definition, vertex: VertexEvaluation | None = None) -> Metric:
    """Return a metric that asks the judge (`default_judge`) to rate a session by a definition.

    With `vertex`, a managed metric is rated by that service, by Google's rubric. The value is in the rubric's
    range. A material that is not recorded makes the metric inconclusive.
    """
    rubric = None
    managed = definition
    if definition.is_managed:
        rubric = f"spangrade/{definition.managed_name} v{RUBRICS_VERSION}"
        definition = _by_our_rubric(definition)
    sources = definition.sources

    async def ask(session: Session, question: GoldenQuestion | None = None) -> Outcome:
        if managed.is_managed and vertex is not None:
            return await ask_vertex(vertex, managed, definition.scale or _ZERO_TO_ONE, session, question)
        material = {}
        for key, source in sources.items():
            value = column(source, session, question)
            if value is None:
                return Inconclusive(not_recorded(source))
            material[key] = value if isinstance(value, str) else dumps(value)
        judge = default_judge()
        verdict = await judge.ask(_question(definition, material))
        if verdict.score is None:
            return Inconclusive(f"judge {judge.name} gave no score")
        reason = f"{verdict.reason} (rubric {rubric})" if rubric else verdict.reason
        details = {"judge": judge.name, **({"rubric": rubric} if rubric else {})}
        return Score(verdict.score, None, reason, (), details)

    return Metric(
        name,
        ask,
        definition.description or _first_line(definition.instruction or definition.template or ""),
        needs=_needed_reference(sources),
        unit="rating",
        scale=definition.scale,
        agents=definition.agents,
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _question(definition: Definition, material: Mapping[str, str]) -> Question:
    if definition.template is not None and definition.scale is not None:
        return rate_by(material, definition.rubric, definition.scale)
    return rate(material, definition.instruction or "", definition.rating_scores, definition.criteria)


def _needed_reference(sources: Mapping[str, str]) -> str | None:
    """Return the part of the golden question that the materials need; None if they need none."""
    paths = [source.partition(":") for source in sources.values()]
    parts = {path.partition(".")[0] for name, _, path in paths if name == "reference_data" and path}
    if len(parts) == 1:
        return parts.pop()
    return "user_inputs" if any(name in OF_THE_QUESTION for name, _, _ in paths) else None


def _by_our_rubric(definition: Definition) -> Definition:
    """Return our rubric for a managed metric, with the range and the columns of its definition."""
    ours = _rubrics()[definition.managed_name]
    scale = definition.scale or _ZERO_TO_ONE
    guidelines = definition.natural_language_guidelines
    return ours.model_copy(
        update={
            "description": definition.description,
            "agents": definition.agents,
            "dataset_mapping": definition.dataset_mapping or ours.dataset_mapping,
            "instruction": f"{ours.instruction}\n\n{guidelines}" if guidelines else ours.instruction,
            "rating_scores": {_on(scale, score): text for score, text in ours.rating_scores.items()},
        }
    )


def _on(scale: Scale, share: float) -> float:
    return scale[0] + share * (scale[1] - scale[0])


@cache
def _rubrics() -> Mapping[str, Definition]:
    return _shipped("rubrics.json")


def digest_of(definition: Definition) -> str:
    """Return the version of a judged metric: a digest of all that the judge is told."""
    return sha256(definition.model_dump_json().encode()).hexdigest()


@cache
def shipped_definitions() -> Mapping[str, Definition]:
    """Return the definitions of the judged metrics that come with spangrade, by name."""
    return _shipped("judged.json")


def _shipped(name: str) -> dict[str, Definition]:
    return definitions_of(orjson.loads(resources.files(__package__).joinpath(name).read_bytes()), name)


@metric(needs="reference_response", threshold=0.8)  # 4 of 5 on the judge's scale
def final_response_match(session: Session, question: GoldenQuestion) -> Outcome:
    """1 if the last reply equals the reference's, else how a judge rates it by the reference.

    Inconclusive if the reply is not recorded, or differs and there is no judge.

    Source: own definition; the rubric is that of `response_correctness@judge`.
    """
    expected = _expected(question.reference("reference_response"))
    known = _known_match(final_response(session), expected)
    if known is not None:
        return _about(known, session)
    # A coroutine: only a reply that differs needs the judge's event loop.
    return _rated(session, _expecting(question, expected.text), expected)  # type: ignore[return-value]


class _Expected(NamedTuple):
    """A reply that is expected: an `ExpectedReply`, whose model took half of the time of the metric."""

    text: str
    match: str | None = None


def _expected(reply: str | ExpectedReply) -> _Expected:
    return _Expected(reply.text, reply.match) if isinstance(reply, ExpectedReply) else _Expected(reply)


def _expecting(question: GoldenQuestion, text: str) -> GoldenQuestion:
    """Return a question that expects a text as the last reply, and nothing else."""
    return question.model_copy(update={"reference_data": ReferenceData(reference_response=text)})


def _known_match(reply: str | None, expected: _Expected) -> Outcome | None:
    """Return the outcome of a reply that needs no judge; None if a judge has to rate it."""
    if reply is None:
        return _not_compared("the last reply is not recorded; record the model's output")
    if expected.match == "contains" and contains(reply, expected.text):
        return Score(1.0, None, "as expected")
    if expected.match == "pattern":
        return _searched(expected.text, reply)
    if expected.match != "contains" and same_text(reply, expected.text):
        return Score(1.0, None, "as expected")
    if not reply.strip():
        return Score(0.0, None, "the last reply is empty")
    if expected.match in ("exact", "contains"):
        what = "is not" if expected.match == "exact" else "does not have"
        return Score(0.0, None, f"the last reply {what} {dumps(expected.text)}")
    judge = default_judge()
    if isinstance(judge, JudgeRun | NoJudge) and (why := judge.unavailable):
        return _not_compared(f"the last reply differs, and {why}{_or_match(expected)}")
    return None


def _or_match(expected: _Expected) -> str:
    """Return the way on without a judge, where the question does not ask for one."""
    if expected.match is not None:
        return ""
    return '; without a judge, say how to compare: {"text": …, "match": "contains"} (exact, pattern)'


def _searched(pattern: str, reply: str) -> Outcome:
    found = matches_pattern(pattern, reply)
    if found is None:
        return _not_compared(f"the search of {dumps(pattern)} in the last reply took longer than a second")
    if not found:
        return Score(0.0, None, f"the last reply does not match {dumps(pattern)}")
    return Score(1.0, None, "as expected")


@metric(needs="reference_responses", threshold=0.8)
def responses_match(session: Session, question: GoldenQuestion) -> Outcome:
    """The lowest of the scores of the replies that are expected, each as in `final_response_match`.

    Inconclusive if such a reply is not recorded, or differs and there is no judge. A turn whose reply may be
    any (null), or that the session does not have, is left out.

    Source: own definition.
    """
    expectations = zip(session.turns, question.reference("reference_responses"), strict=False)
    started: list[tuple[int, Any]] = []
    for number, (turn, expected) in enumerate(expectations, 1):
        if expected is not None:
            reply = _expected(expected)
            known = _known_match(turn.final_response, reply)
            outcome = (
                _rated(*_until(session, question, number, reply), reply)
                if known is None
                else _about(known, session, turn.turn)
            )
            started.append((number, outcome))
    if not started:
        return Inconclusive("none of the session's turns has an expected reply")
    if any(inspect.iscoroutine(outcome) for _, outcome in started):
        # A coroutine: only a reply that differs needs the judge's event loop.
        return _lowest_of_rated(started)  # type: ignore[return-value]
    return _lowest(started)


def _until(
    session: Session, question: GoldenQuestion, number: int, expected: _Expected
) -> tuple[Session, GoldenQuestion]:
    """Return a session as it was after a turn, and a question that expects a reply there."""
    made = replace(
        session,
        turns=session.turns[:number],
        trajectory=tuple(step for step in session.trajectory if (step.turn or 1) <= number),
        tool_interactions=tuple(call for call in session.tool_interactions if (call.turn or 1) <= number),
    )
    inputs = {"user_inputs": question.user_inputs[:number]}
    return made, _expecting(question.model_copy(update=inputs), expected.text)


async def _lowest_of_rated(started: Sequence[tuple[int, Any]]) -> Outcome:
    return _lowest(
        [(number, await outcome if inspect.iscoroutine(outcome) else outcome) for number, outcome in started]
    )


def _lowest(outcomes: Sequence[tuple[int, Outcome]]) -> Outcome:
    """Return the outcome of the turns together: the lowest score, if unknown ones cannot lower it."""
    scores = [(number, outcome) for number, outcome in outcomes if isinstance(outcome, Score)]
    number, lowest = min(scores, key=lambda one: one[1].value, default=(0, Score(1.0)))
    for turn, outcome in outcomes:
        if isinstance(outcome, Inconclusive):
            why = outcome.reason.replace(_RESPONSE, f"reference_responses[{turn - 1}]")
            why = why.replace(_LAST_REPLY, f"the reply of turn {turn}")
            return outcome._replace(reason=why, best=lowest.value)
        if not isinstance(outcome, Score):
            return outcome
    if lowest.value == 1:
        return Score(1.0, None, "as expected", lowest.evidence, lowest.details)
    return lowest._replace(reason=f"turn {number}: {lowest.reason.replace(_LAST_REPLY, 'the reply')}")


async def _rated(session: Session, question: GoldenQuestion, expected: _Expected) -> Outcome:
    judge = _judge()
    try:
        outcome: Outcome = await judge(session, question)
    except (JudgeUnavailable, JudgeBudgetExceeded) as error:
        over_budget = isinstance(error, JudgeBudgetExceeded)
        way_on = "" if over_budget else _or_match(expected)
        return _not_compared(f"the last reply differs, and {error}{way_on}")._replace(over_budget=over_budget)
    if isinstance(outcome, Inconclusive):
        not_compared = _not_compared(f"the last reply differs, and {outcome.reason}")
        return not_compared._replace(over_budget=outcome.over_budget)
    if not isinstance(outcome, Score):
        return outcome
    low, high = judge.bounds
    return _about(outcome._replace(value=(outcome.value - low) / (high - low)), session)


def _about(outcome: Outcome, session: Session, turn: int | None = None) -> Outcome:
    """Return an outcome that, where it is a score below 1, names the place of the reply."""
    if isinstance(outcome, Score) and outcome.value < 1:
        return outcome._replace(evidence=reply_evidence(session, turn))
    return outcome


def _not_compared(why: str) -> Inconclusive:
    return Inconclusive(f"reference_response cannot be compared: {why}")


@cache
def _judge() -> Metric:
    """Return the shipped judged metric of the last reply, with the reference among its materials."""
    definition = shipped_definitions()[_JUDGE]
    reference = MaterialSource(source_column="reference_data:reference_response")
    criterion = "Does it say the same as the reference, apart from the wording?"
    changes = {
        "dataset_mapping": {**definition.dataset_mapping, "reference": reference},
        "criteria": {"Reference": criterion, **definition.criteria},
    }
    return judged(_JUDGE, definition.model_copy(update=changes))


@metric(needs="assertions", threshold=0.0, unit="assertions", higher_is_better=False)
async def assertions(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of `assertions` that do not hold, by a judge that is asked about each.

    The reason has each of them with the turns that show it. Inconclusive if one is not answered.

    Source: own definition.
    """
    evidence = evidence_of(session, numbered_summary(session))
    assertions: Sequence[str] = question.reference("assertions")
    judge = default_judge()

    async def answered(assertion: str) -> _Answer:
        try:
            return await judge.ask(holds(evidence, assertion, len(session.turns)))
        except (JudgeUnavailable, JudgeBudgetExceeded) as error:
            return error

    answers = await asyncio.gather(*map(answered, assertions))
    pairs = list(zip(assertions, answers, strict=True))
    failed = [f"{text!r} ({_reason_of(one)})" for text, one in pairs if _holds(one) is False]
    unknown = [f"{text!r} ({_reason_of(one)})" for text, one in pairs if _holds(one) is None]
    if unknown:
        parts = [f"does not hold: {'; '.join(failed)}"] if failed else []
        parts.append(f"not answered: {'; '.join(unknown)}")
        over_budget = any(isinstance(one, JudgeBudgetExceeded) for one in answers)
        return Inconclusive("; ".join(parts), float(len(failed)), over_budget)
    details = {
        "judge": judge.name,
        "assertions": [
            {"assertion": text, "holds": _holds(one), "reason": _reason_of(one)} for text, one in pairs
        ],
    }
    reason = f"does not hold: {'; '.join(failed)}" if failed else "as expected"
    return Score(float(len(failed)), None, reason, (), details)


def _holds(answer: _Answer) -> bool | None:
    return answer.passed if isinstance(answer, Judgement) else None


def _reason_of(answer: _Answer) -> str:
    return answer.reason if isinstance(answer, Judgement) else str(answer)


METRICS = (
    *(
        replace(judged(name, definition), version=digest_of(definition))
        for name, definition in shipped_definitions().items()
    ),
    final_response_match,
    responses_match,
    response_match,
    assertions,
    required_texts,
)


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
