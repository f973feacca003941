"""Grading: sessions meet golden questions, metrics measure them, thresholds judge."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from enum import StrEnum
from typing import NamedTuple
from unicodedata import normalize

from spangrade.evaluator.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.grading.run_metric import Begun, begin, finish
from spangrade.evaluator.metrics import Metric, load_metrics
from spangrade.evaluator.metrics.outcome import Failure, Inconclusive, Outcome, Score
from spangrade.evaluator.session import Session
from spangrade.tracer.errors import ExitCode
from spangrade.tracer.semconv import QUESTION_ID

# The gates of a question where none is asked for, each only if the question has its reference. Their
# thresholds are 1: the reference holds what must happen.
DEFAULT_GATES = ("trajectory_accuracy", "tool_usage_accuracy", "state_management_fidelity", "agent_routing")

REPORTED = (
    "token_usage",
    "latency_metrics",
    "cache_efficiency",
    "thinking_metrics",
    "tool_utilization",
    "tool_success_rate",
    "grounding_utilization",
    "context_saturation",
    "agent_handoffs",
    "output_density",
    "sandbox_usage",
    "cost",
)

# Sessions begun while an earlier one waits for its judge. It asks 40 questions at once unless told otherwise.
AHEAD = 64

CONVERSATION = "conversation"  # a gate of every question, whatever is asked for


class Verdict(StrEnum):
    """What a session comes to. `UNMATCHED` answers no golden question and is not judged."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    BROKEN = "broken"
    UNMATCHED = "unmatched"


class Grade(NamedTuple):
    """What one session came to, or (`session_id` None) a golden question that no session answers.

    `outcomes` has what each metric came to, by name; `reason` says what decided.
    """

    session_id: str | None
    question_id: str | None
    verdict: Verdict
    reason: str
    outcomes: dict[str, Outcome]


def grade(
    sessions: Iterable[Session], dataset: GoldenDataset, asked: Iterable[Metric] = ()
) -> Iterator[Grade]:
    """Grade sessions as they come, one grade each, then one for each golden question left unanswered.

    `asked` are the metrics to judge by; where none of them has a threshold, `DEFAULT_GATES` judge. Every
    question is a gate by its conversation too, and the `REPORTED` metrics are measured on every session.
    """
    metrics = load_metrics()
    own = {metric.name: metric for metric in asked}
    defaults = () if any(metric.threshold is not None for metric in own.values()) else DEFAULT_GATES
    gates = [metrics[name] for name in (CONVERSATION, *defaults) if name not in own]
    reported = [metrics[name] for name in REPORTED if name not in own]
    questions = QuestionIndex(dataset)
    answered: set[str] = set()
    doubtful: set[str] = set()

    def begun() -> Iterator[_Begun]:
        for session in sessions:
            candidates = questions.find(session)
            if len(candidates) != 1:
                doubtful.update(question.id for question in candidates)
                yield _Begun.of(session, candidates, reported)
                continue
            (question,) = candidates
            answered.add(question.id)
            had = [gate for gate in gates if question.reference(gate.needs or "") is not None]
            meant = [metric for metric in own.values() if _is_for(metric, session, question)]
            yield _Begun.of(session, candidates, (*had, *meant, *reported))

    yield from map(_graded, _in_order(begun()))
    for question in dataset.golden_questions:
        if question.id not in answered:
            yield _unanswered(question, question.id in doubtful)


def exit_code(verdicts: Iterable[Verdict]) -> ExitCode:
    """What the command line exits with: a broken metric tells before a failure, that before inconclusive."""
    seen = set(verdicts)
    for verdict, code in (
        (Verdict.BROKEN, ExitCode.BROKEN),
        (Verdict.FAILED, ExitCode.FAILED),
        (Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE),
    ):
        if verdict in seen:
            return code
    return ExitCode.PASSED


class QuestionIndex:
    """The golden questions by id, by their user inputs and by the beginnings of these."""

    def __init__(self, dataset: GoldenDataset) -> None:
        self._by_id = {question.id: question for question in dataset.golden_questions}
        self._whole: dict[tuple[str, ...], list[GoldenQuestion]] = {}
        self._begun: dict[tuple[str, ...], list[GoldenQuestion]] = {}
        for question in dataset.golden_questions:
            inputs = tuple(map(normal_text, question.user_inputs))
            self._whole.setdefault(inputs, []).append(question)
            for length in range(1, len(inputs)):
                self._begun.setdefault(inputs[:length], []).append(question)

    def find(self, session: Session) -> tuple[GoldenQuestion, ...]:
        """The questions that a session may answer: one if it is clear, none if no question fits.

        A session that carries a question's id answers that one. Else its user inputs tell: those of a
        question, or where there is none, inputs that stop short of a question's or go on beyond them.
        """
        if session.question_id is not None:
            question = self._by_id.get(session.question_id)
            return () if question is None else (question,)
        inputs = []
        for turn in session.turns:
            if turn.user_input is None:
                return ()
            inputs.append(normal_text(turn.user_input))
        said = tuple(inputs)
        if said in self._whole:
            return tuple(self._whole[said])
        found = list(self._begun.get(said, ()))
        for length in range(1, len(said)):
            found += self._whole.get(said[:length], ())
        return tuple(found)


def normal_text(text: str) -> str:
    """A text in Unicode NFC, with each run of white space one space, and none around it."""
    text = " ".join(text.split())
    return text if text.isascii() else normalize("NFC", text)


class _Begun(NamedTuple):
    """A session, the questions that it may answer, and what metrics said or will say of it."""

    session: Session
    candidates: tuple[GoldenQuestion, ...]
    metrics: tuple[tuple[Metric, Begun], ...]

    @classmethod
    def of(
        cls, session: Session, candidates: tuple[GoldenQuestion, ...], metrics: Iterable[Metric]
    ) -> _Begun:
        question = candidates[0] if len(candidates) == 1 else None
        begun = tuple((metric, begin(metric, session, question)) for metric in metrics)
        return cls(session, candidates, begun)

    @property
    def answers(self) -> list[Future[Outcome]]:
        return [said for _, said in self.metrics if isinstance(said, Future)]


def _in_order(begun: Iterable[_Begun]) -> Iterator[_Begun]:
    """Pass sessions on in their order. While the first waits for answers, those behind it are begun."""
    waiting: deque[_Begun] = deque()
    try:
        for one in begun:
            waiting.append(one)
            while waiting and (len(waiting) > AHEAD or all(a.done() for a in waiting[0].answers)):
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:  # nobody wants the rest any more: what is not asked yet need not be paid for
        for one in waiting:
            for answer in one.answers:
                answer.cancel()


def _is_for(metric: Metric, session: Session, question: GoldenQuestion) -> bool:
    return not metric.agents or not set(metric.agents).isdisjoint(
        (*(question.agents_evaluated), *(session.agents or ()))
    )


def _graded(begun: _Begun) -> Grade:
    session = begun.session
    outcomes: dict[str, Outcome] = {}
    unsettled = []
    for metric, said in begun.metrics:
        outcome = outcomes[metric.name] = finish(metric, said)
        if metric.threshold is not None and isinstance(outcome, Inconclusive):
            unsettled.append(f"{metric.name}: {outcome.reason}")
    if len(begun.candidates) > 1:
        return _ambiguous(session, begun.candidates, outcomes)
    if not begun.candidates:
        return _settled(session, None, Verdict.UNMATCHED, _why_unmatched(session), outcomes)
    failed = [
        f"{name}: {outcome.reason}"
        for name, outcome in outcomes.items()
        if isinstance(outcome, Score) and outcome.passed is False
    ]
    verdict = Verdict.FAILED if failed else Verdict.INCONCLUSIVE if unsettled else Verdict.PASSED
    return _settled(session, begun.candidates[0].id, verdict, "; ".join(failed or unsettled), outcomes)


def _ambiguous(session: Session, candidates: Iterable[GoldenQuestion], outcomes: dict[str, Outcome]) -> Grade:
    names = ", ".join(question.id for question in candidates)
    reason = f"it may answer any of the golden questions {names}; {QUESTION_ID} on its spans would tell"
    outcomes = {CONVERSATION: Inconclusive(reason), **outcomes}
    return _settled(session, None, Verdict.INCONCLUSIVE, reason, outcomes)


def _why_unmatched(session: Session) -> str:
    if session.question_id is not None:
        return f'no golden question has its question id "{session.question_id}"'
    if any(turn.user_input is None for turn in session.turns):
        return "it has no question id, and its user inputs are not recorded"
    return "no golden question has its user inputs"


def _unanswered(question: GoldenQuestion, doubtful: bool) -> Grade:
    reason = "no session answers it" + (" for certain: others begin alike" if doubtful else "")
    return Grade(None, question.id, Verdict.INCONCLUSIVE, reason, {CONVERSATION: Inconclusive(reason)})


def _settled(
    session: Session, question_id: str | None, verdict: Verdict, reason: str, outcomes: dict[str, Outcome]
) -> Grade:
    """A grade of this verdict, unless a metric broke: that comes before any."""
    broken = [
        f"{name}: {outcome.error}" for name, outcome in outcomes.items() if isinstance(outcome, Failure)
    ]
    if broken:
        verdict, reason = Verdict.BROKEN, "; ".join(broken)
    return Grade(session.session_id, question_id, verdict, reason, outcomes)
