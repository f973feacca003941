"""Grade sessions: match each to its golden question, run the metrics, apply the policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future
from typing import NamedTuple

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.grading import policy
from spangrade.evaluator.grading.match_questions import QuestionIndex
from spangrade.evaluator.grading.policy import CONVERSATION, MetricPlan, Verdict
from spangrade.evaluator.grading.run_metric import Started, resolve, start
from spangrade.evaluator.metrics import Inconclusive, Metric, Outcome, load_metrics
from spangrade.evaluator.session import Session

# Sessions that may wait for their judge while later ones are started. A judge is asked 40 questions at once.
MAX_PENDING = 64


class Grade(NamedTuple):
    """The verdict on one session or, if `session_id` is None, on a golden question that no session answers.

    `outcomes` holds the outcome of each metric by name; `reason` is what decided the verdict.
    """

    session_id: str | None
    question_id: str | None
    verdict: Verdict
    reason: str
    outcomes: dict[str, Outcome]


class _Pending(NamedTuple):
    """A session, the golden questions that it may answer, and the metrics that run on it."""

    session: Session
    candidates: tuple[GoldenQuestion, ...]
    metrics: tuple[tuple[Metric, Started], ...]

    @property
    def futures(self) -> list[Future[Outcome]]:
        return [started for _, started in self.metrics if isinstance(started, Future)]


def grade(
    sessions: Iterable[Session],
    dataset: GoldenDataset,
    requested: Iterable[Metric] = (),
    without: Collection[str] = (),
) -> Iterator[Grade]:
    """Yield a grade for each session, in order, then one for each golden question without a session.

    `policy` says which metrics run beside the `requested` ones, which of them are gates, and what the
    verdicts mean. The references named in `without` are no gates.
    """
    plan = MetricPlan.of(requested, load_metrics(), without)
    questions = QuestionIndex(dataset)
    answered: set[str] = set()
    doubtful: set[str] = set()

    def pending() -> Iterator[_Pending]:
        for session in sessions:
            candidates = questions.find(session)
            question = candidates[0] if len(candidates) == 1 else None
            (doubtful if question is None else answered).update(found.id for found in candidates)
            metrics = plan.metrics_for(session, question)
            started = tuple(
                (metric, policy.excluded(metric, session, question) or start(metric, session, question))
                for metric in metrics
            )
            yield _Pending(session, candidates, started)

    for one in _resolvable(pending()):
        yield _resolved(one, plan)
    for question in dataset.golden_questions:
        if question.id not in answered:
            verdict, reason = policy.unanswered(doubtful=question.id in doubtful)
            yield Grade(None, question.id, verdict, reason, {CONVERSATION: Inconclusive(reason)})


def _resolvable(pending: Iterable[_Pending]) -> Iterator[_Pending]:
    """Yield sessions in their order, starting later ones while the first waits for its metrics."""
    waiting: deque[_Pending] = deque()
    try:
        for one in pending:
            waiting.append(one)
            while waiting and (len(waiting) > MAX_PENDING or all(f.done() for f in waiting[0].futures)):
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:  # if the caller stops early, questions that were not asked yet need not be paid for
        for one in waiting:
            for future in one.futures:
                future.cancel()


def _resolved(pending: _Pending, plan: MetricPlan) -> Grade:
    session, candidates, _ = pending
    results = [(metric, resolve(metric, started)) for metric, started in pending.metrics]
    verdict, reason = plan.decide(session, candidates, results)
    outcomes = {metric.name: outcome for metric, outcome in results}
    if len(candidates) > 1:
        outcomes = {CONVERSATION: Inconclusive(policy.ambiguous(candidates).reason), **outcomes}
    question_id = candidates[0].id if len(candidates) == 1 else None
    return Grade(session.session_id, question_id, verdict, reason, outcomes)
