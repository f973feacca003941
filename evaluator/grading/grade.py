"""Grade sessions: match each to its golden question, run the metrics, apply the policy."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.spans.registry import all_settings
from spangrade.evaluator.derive.sync.recorded import Place, place_of
from spangrade.evaluator.grading import policy
from spangrade.evaluator.grading.file_columns import disagreements
from spangrade.evaluator.grading.interpretation import renamed, root_agent, with_other_name
from spangrade.evaluator.grading.match_questions import Candidates, lacks_texts
from spangrade.evaluator.grading.policy import TURNS_ANSWERED, Decision, MetricPlan
from spangrade.evaluator.grading.prepare import Prepared
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.grading.run_metric import Started, resolve, start
from spangrade.evaluator.grading.unmasked_sessions import masked, unmasked
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import Inconclusive, Metric, Outcome
from spangrade.evaluator.session import Session
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.span import Span

if TYPE_CHECKING:  # few grades redact
    from spangrade.tracer.redaction import Redaction

# Sessions that may wait for their judge while later ones are started. A judge is asked 40 questions at once.
MAX_PENDING = 64
# Of a session whose user inputs are those of several questions: it is graded against each.
MAX_ATTEMPTS = 8


_MOST_PLACES = 50  # sessions without user texts whose stacks are told apart


@dataclass(slots=True)
class Coverage:
    """The ids of the golden questions that sessions answer, and of those that they may answer.

    `without_texts` is the number of sessions whose questions are unknown because user texts are, and `places`
    are spans of the first of them.
    """

    answered: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    without_texts: int = 0
    places: tuple[Place, ...] = ()

    def add(self, other: Coverage) -> None:
        """Add the coverage of later sessions."""
        self.answered |= other.answered
        self.doubtful |= other.doubtful
        self.without_texts += other.without_texts
        self.places = (*self.places, *other.places)[:_MOST_PLACES]

    def reason(self, spans_at: SpansAt) -> str:
        """Return how many sessions have no texts of the user, and how these are recorded; empty if none."""
        if not self.without_texts:
            return ""
        found = spans_at(self.places) if self.places else {}
        sessions = counted(self.without_texts, "session")
        help_ = all_settings(map(found.get, self.places), "content")
        return f"of {sessions} no user texts are recorded: {help_}"


SpansAt = Callable[[Iterable[Place]], Mapping[Place, Span]]


class _Attempt(NamedTuple):
    """A golden question that a session is compared with, None for none, and the metrics that run on it."""

    question: GoldenQuestion | None
    metrics: tuple[tuple[Metric, Started], ...]


def start_metrics(
    plan: MetricPlan,
    session: Session,
    question: GoldenQuestion | None,
    only: Collection[str] | None = None,
) -> tuple[tuple[Metric, Started], ...]:
    """Return the metrics of a plan that run on a session, each with its outcome or a future of it.

    `only` are the names of those that are started; None is all of them. Where the question has the name of
    the session's app, it means the root agent (`root_agent`).
    """
    session = plan.with_planned_calls(with_other_name(session, plan.root_agent_name), question)
    if question is not None:
        question = renamed(session, question)
    incomplete = plan.why_incomplete(session)
    return tuple(
        (metric, start(metric, session, question, incomplete))
        for metric in plan.metrics_for(session, question)
        if only is None or metric.name in only
    )


class _Pending(NamedTuple):
    """A session, the golden questions that it may answer, and their references."""

    session: Session
    candidates: tuple[GoldenQuestion, ...]
    attempts: tuple[_Attempt, ...]

    @property
    def futures(self) -> list[Future[Outcome]]:
        return [
            started
            for attempt in self.attempts
            for _, started in attempt.metrics
            if isinstance(started, Future)
        ]


def _no_spans(_: Iterable[Place]) -> Mapping[Place, Span]:
    return {}


def grade(prepared: Prepared, sessions: Iterable[Session], spans_at: SpansAt = _no_spans) -> Iterator[Grade]:
    """Yield a grade for each session, in order, then one for each golden question without a session."""
    coverage = Coverage()
    yield from grade_sessions(prepared, sessions, coverage)
    yield from grade_unanswered(prepared, coverage, spans_at)


def grade_unanswered(
    prepared: Prepared, coverage: Coverage, spans_at: SpansAt = _no_spans
) -> Iterator[Grade]:
    """Yield a grade for each golden question that no session answers, of those that were chosen.

    `spans_at` returns the spans at places: their stack says how the texts that lack are recorded.
    """
    decided: dict[bool, Decision] = {}  # by whether it is doubtful: one for many questions
    for question in prepared.questions.golden_questions:
        if question.id not in coverage.answered:
            doubtful = question.id in coverage.doubtful
            if doubtful not in decided:
                decided[doubtful] = policy.unanswered(
                    doubtful=doubtful, without_texts=coverage.reason(spans_at)
                )
            verdict, reason = decided[doubtful]
            yield Grade(None, question.id, verdict, reason, {TURNS_ANSWERED: Inconclusive(reason)})


def grade_sessions(
    prepared: Prepared, sessions: Iterable[Session], coverage: Coverage, now_ns: int | None = None
) -> Iterator[Grade]:
    """Yield a grade for each session, in order, and add the questions that they answer to `coverage`.

    `policy` says which metrics run, which of them are gates, and what the verdicts mean. `now_ns` is the time
    that decides whether a session may still run, by default that of the call.

    Questions that expect the same share their sessions evenly: a session that may answer any of them is
    graded as an answer to the first of those that the fewest sessions answer.
    """
    plan, questions, answers = prepared.plan_at(now_ns), prepared.index, prepared.question_by_session
    sessions_of = Counter(answers.values())
    doubtful: set[Candidates] = set()

    def attempt(session: Session, question: GoldenQuestion | None) -> _Attempt:
        as_recorded = unmasked(session, prepared.unmasked.get(session.session_id))
        return _Attempt(question, start_metrics(plan, as_recorded, question))

    def pending() -> Iterator[_Pending]:
        for session in sessions:
            candidates = questions.find(session)
            groups = candidates.groups
            if not groups and session.session_id not in answers and lacks_texts(session):
                place = place_of(session)
                coverage.add(Coverage(without_texts=1, places=(place,) if place else ()))
            if len(groups) == 1:
                question = groups[0].least_answered(sessions_of)
                coverage.answered.add(question.id)
                sessions_of[question.id] += session.session_id not in answers
                yield _Pending(session, (question,), (attempt(session, question),))
                continue
            if candidates not in doubtful:
                doubtful.add(candidates)
                coverage.doubtful.update(candidates.ids)
            if 1 < len(groups) <= MAX_ATTEMPTS and candidates.lengths == {len(session.turns)}:
                attempts = tuple(attempt(session, group.questions[0]) for group in groups)
            else:
                attempts = (attempt(session, None),)
            yield _Pending(session, candidates.questions, attempts)

    for one in _resolvable(pending()):
        yield _resolved(one, plan, prepared.redact)


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


def _resolved(pending: _Pending, plan: MetricPlan, redact: Redaction | None) -> Grade:
    session, candidates, attempts = pending
    grades = [_attempted(session, candidates, attempt, plan, redact) for attempt in attempts]
    if len(grades) == 1:
        return grades[0]
    decisions = {grade.question_id or "": Decision(grade.verdict, grade.reason) for grade in grades}
    decision = policy.agreed(candidates, decisions)
    outcomes = {
        name: outcome
        for name, outcome in grades[0].outcomes.items()
        if all(grade.outcomes.get(name) == outcome for grade in grades)
    }
    if decision.verdict is Verdict.INCONCLUSIVE:
        outcomes = {TURNS_ANSWERED: Inconclusive(decision.reason), **outcomes}
    return grades[0]._replace(
        question_id=None, verdict=decision.verdict, reason=decision.reason, outcomes=outcomes
    )


def _attempted(
    session: Session,
    candidates: tuple[GoldenQuestion, ...],
    attempt: _Attempt,
    plan: MetricPlan,
    redact: Redaction | None,
) -> Grade:
    question = attempt.question
    results = policy.of_the_agent(
        [(metric, masked(resolve(metric, started), redact)) for metric, started in attempt.metrics]
    )
    verdict, reason = plan.decide(session, candidates if question is None else (question,), results)
    outcomes = {metric.name: outcome for metric, outcome in results}
    if question is None and candidates:
        outcomes = {TURNS_ANSWERED: Inconclusive(policy.ambiguous(candidates).reason), **outcomes}
    question_id = None if question is None else question.id
    trajectory = tuple(step.name for step in session.trajectory)
    named = with_other_name(session, plan.root_agent_name)
    is_renamed = question is not None and renamed(named, question) is not question
    means = f"{named.app_name} means the root agent {root_agent(named)}" if is_renamed else None
    notes = (*disagreements(session), *([means] if means else []))
    records = session.records or None
    return Grade(
        session.session_id, question_id, verdict, reason, outcomes, notes, trajectory, means, records
    )
