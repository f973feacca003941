"""The metric of the last reply, compared with `reference_response`."""

from __future__ import annotations

from functools import cache

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.judge import JudgeBudgetExceeded, JudgeUnavailable
from spangrade.evaluator.metrics.columns import final_response
from spangrade.evaluator.metrics.definitions import Source
from spangrade.evaluator.metrics.judged import judged, shipped_definitions
from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.metrics.metric import Inconclusive, Metric, Outcome, Score, metric
from spangrade.evaluator.session import Session

_JUDGE = "response_correctness@judge"


@metric(needs="reference_response", threshold=0.8)  # 4 of 5 on the judge's scale
def final_response_match(session: Session, question: GoldenQuestion) -> Outcome:
    """1 if the last reply equals the reference's, else how a judge rates it by the reference."""
    reply = final_response(session)
    if reply is None:
        return _not_compared("the last reply is not recorded")
    if normal_text(reply) == normal_text(question.reference("reference_response")):
        return Score(1.0, None, "as expected")
    # A coroutine: only a reply that differs needs the judge's event loop.
    return _rated(session, question)  # type: ignore[return-value]


async def _rated(session: Session, question: GoldenQuestion) -> Outcome:
    judge = _judge()
    try:
        outcome: Outcome = await judge(session, question)
    except (JudgeUnavailable, JudgeBudgetExceeded) as error:
        return _not_compared(f"the last reply differs, and {error}")
    if isinstance(outcome, Inconclusive):
        return _not_compared(f"the last reply differs, and {outcome.reason}")
    if not isinstance(outcome, Score):
        return outcome
    low, high = judge.bounds
    return outcome._replace(value=(outcome.value - low) / (high - low))


def _not_compared(why: str) -> Inconclusive:
    return Inconclusive(f"reference_response cannot be compared: {why}")


@cache
def _judge() -> Metric:
    """Return the shipped judged metric of the last reply, with the reference among its materials."""
    definition = shipped_definitions()[_JUDGE]
    reference = Source(source_column="reference_data:reference_response")
    criterion = "Does it say the same as the reference, apart from the wording?"
    changes = {
        "dataset_mapping": {**definition.dataset_mapping, "reference": reference},
        "criteria": {"Reference": criterion, **definition.criteria},
    }
    return judged(_JUDGE, definition.model_copy(update=changes))


METRICS = (final_response_match,)
