"""The metric of assertions about a conversation, each of which a judge answers by yes or no."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.judge.choice import default_judge
from spangrade.evaluator.judge.protocol import JudgeBudgetExceeded, Judgement, JudgeUnavailable, holds
from spangrade.evaluator.metrics.columns import numbered_summary
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.simulation import evidence_of
from spangrade.evaluator.session import Session

_Answer = Judgement | JudgeUnavailable | JudgeBudgetExceeded


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
    failed = [f"{text!r} ({_why(one)})" for text, one in pairs if _passed(one) is False]
    unknown = [f"{text!r} ({_why(one)})" for text, one in pairs if _passed(one) is None]
    if unknown:
        parts = [f"does not hold: {'; '.join(failed)}"] if failed else []
        parts.append(f"not answered: {'; '.join(unknown)}")
        over_budget = any(isinstance(one, JudgeBudgetExceeded) for one in answers)
        return Inconclusive("; ".join(parts), float(len(failed)), over_budget)
    details = {
        "judge": judge.name,
        "assertions": [
            {"assertion": text, "holds": _passed(one), "reason": _why(one)} for text, one in pairs
        ],
    }
    reason = f"does not hold: {'; '.join(failed)}" if failed else "as expected"
    return Score(float(len(failed)), None, reason, (), details)


def _passed(answer: _Answer) -> bool | None:
    return answer.passed if isinstance(answer, Judgement) else None


def _why(answer: _Answer) -> str:
    return answer.reason if isinstance(answer, Judgement) else str(answer)
