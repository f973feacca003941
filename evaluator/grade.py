"""Grading: sessions meet golden questions, metrics measure them, thresholds judge."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from enum import StrEnum
from math import isfinite
from typing import NamedTuple
from unicodedata import normalize

from spangrade.evaluator.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.metrics import Metric, load_metrics
from spangrade.evaluator.outcome import Failure, Inconclusive, Outcome, Score
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
    for session in sessions:
        candidates = questions.find(session)
        if len(candidates) == 1:
            (question,) = candidates
            answered.add(question.id)
            had = [gate for gate in gates if question.reference(gate.needs or "") is not None]
            yield _graded(session, question, (*had, *own.values()), reported)
        elif candidates:
            doubtful.update(question.id for question in candidates)
            yield _ambiguous(session, candidates, reported)
        else:
            yield _unmatched(session, reported)
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


def measure(metric: Metric, session: Session, question: GoldenQuestion | None) -> Outcome:
    """What a metric says of a session, judged by the metric's threshold if it has one.

    A metric that raises, or returns what is no outcome, is a `Failure`. An inconclusive one whose best
    possible value misses the threshold is a score that failed: nothing unknown could have saved it.
    """
    try:
        if metric.needs is None:
            outcome = metric.function(session)
        elif question is None or question.reference(metric.needs) is None:
            return Inconclusive(f"the golden question has no {metric.needs}")
        else:
            outcome = metric.function(session, question)
    except Exception as error:  # noqa: BLE001 (a stranger's code runs here)
        return Failure(_raised(error))
    if isinstance(outcome, Score):
        if not isinstance(outcome.value, int | float) or not isfinite(outcome.value):
            return Failure(f"returned the value {outcome.value!r:.80}; expected a finite number")
        if metric.threshold is None:
            return outcome
        return Score(outcome.value, metric.reaches(outcome.value, metric.threshold), *outcome[2:])
    if isinstance(outcome, Inconclusive):
        if metric.threshold is None or outcome.best is None or metric.reaches(outcome.best, metric.threshold):
            return outcome
        return Score(outcome.best, False, f"at best {outcome.best:g}: {outcome.reason}")
    if isinstance(outcome, Failure):
        return outcome
    return Failure(f"returned {outcome!r:.80}; expected a Score, Inconclusive or Failure")


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


def _graded(
    session: Session, question: GoldenQuestion, gates: Iterable[Metric], reported: Iterable[Metric]
) -> Grade:
    outcomes: dict[str, Outcome] = {}
    unsettled = []
    for metric in gates:
        outcome = outcomes[metric.name] = measure(metric, session, question)
        if metric.threshold is not None and isinstance(outcome, Inconclusive):
            unsettled.append(f"{metric.name}: {outcome.reason}")
    for metric in reported:
        outcomes[metric.name] = measure(metric, session, question)
    failed = [
        f"{name}: {outcome.reason}"
        for name, outcome in outcomes.items()
        if isinstance(outcome, Score) and outcome.passed is False
    ]
    verdict = Verdict.FAILED if failed else Verdict.INCONCLUSIVE if unsettled else Verdict.PASSED
    return _settled(session, question.id, verdict, "; ".join(failed or unsettled), outcomes)


def _ambiguous(session: Session, candidates: Iterable[GoldenQuestion], reported: Iterable[Metric]) -> Grade:
    names = ", ".join(question.id for question in candidates)
    reason = f"it may answer any of the golden questions {names}; {QUESTION_ID} on its spans would tell"
    outcomes = {CONVERSATION: Inconclusive(reason), **_measured(session, reported)}
    return _settled(session, None, Verdict.INCONCLUSIVE, reason, outcomes)


def _unmatched(session: Session, reported: Iterable[Metric]) -> Grade:
    if session.question_id is not None:
        reason = f'no golden question has its question id "{session.question_id}"'
    elif any(turn.user_input is None for turn in session.turns):
        reason = "it has no question id, and its user inputs are not recorded"
    else:
        reason = "no golden question has its user inputs"
    return _settled(session, None, Verdict.UNMATCHED, reason, _measured(session, reported))


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


def _measured(session: Session, reported: Iterable[Metric]) -> dict[str, Outcome]:
    return {metric.name: measure(metric, session, None) for metric in reported}


def _raised(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
