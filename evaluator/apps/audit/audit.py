"""The audit: mutants of sessions that pass, graded by the gates in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.apps.audit.mutant import Mutant, Mutator, mutants_of
from spangrade.evaluator.apps.audit.right import completed, is_right
from spangrade.evaluator.grading.grade import start_metrics
from spangrade.evaluator.grading.match_questions import NO_ANSWERS, QuestionIndex
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.grading.run_metric import Started, resolve
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import Failure, Inconclusive, Metric, Outcome, Score
from spangrade.evaluator.session import Session

NO_QUESTION = "they answer no golden question, or may answer several"
NOT_PASSED = "they do not pass"
NO_GATE_MET = "they meet no gate"


class Fate(StrEnum):
    """The fate of a mutant: caught, survived or harmless.

    A gate fails it (caught), all gates pass (survived), or some are inconclusive (undecided). One that would
    have survived is `right` if the reference itself accepts it, and harmless if it only changes calls of
    tools that only read.
    """

    CAUGHT = "caught"
    SURVIVED = "survived"
    UNDECIDED = "undecided"
    RIGHT = "right"
    HARMLESS = "harmless (read-only)"


NOT_WRONG = (Fate.RIGHT, Fate.HARMLESS)  # nothing should have noticed them


class SessionGates(NamedTuple):
    """The gates that a session meets, those that it fails or that are inconclusive, by name.

    `references` are the references of which a gate is met.
    """

    met: frozenset[str]
    not_met: frozenset[str]
    references: frozenset[str]


class Audited(NamedTuple):
    """A session, the golden question that it answers, and the gates that it meets.

    `question_ids` are those of all questions that expect the same. `gates` are those that decide about it.
    """

    session: Session
    question: GoldenQuestion
    question_ids: tuple[str, ...]
    gates: SessionGates


class Tried(NamedTuple):
    """A mutant of a session and its fate, with the gates that decided.

    If it is caught or right, the description of its change is kept, and the original as its session.
    """

    audited: Audited
    kind: str
    mutant: Mutant
    fate: Fate
    gates: tuple[str, ...]


def audited_sessions(
    sessions: Iterable[Session],
    dataset: GoldenDataset,
    plan: MetricPlan,
    answers: Mapping[str, str] = NO_ANSWERS,
    *,
    failed: bool = False,
    on_answer: Callable[[Session, tuple[str, ...]], object] = lambda *_: None,
) -> Iterator[Audited | str]:
    """Yield the sessions to audit, in their order; of each other one, why it is left out.

    With `failed` those that do not pass are audited too, by the gates that they meet. `on_answer` is called
    with each session that answers golden questions which expect the same, and with their ids.
    """
    questions = QuestionIndex(dataset, answers)
    for session in sessions:
        groups = questions.find(session).groups
        if len(groups) != 1:
            yield NO_QUESTION
            continue
        on_answer(session, groups[0].ids)
        question = groups[0].questions[0]
        results = graded(session, question, plan)
        verdict = plan.decide(session, (question,), results).verdict
        if verdict is not Verdict.PASSED and not failed:
            yield NOT_PASSED
            continue
        gates = gates_of(results)
        yield Audited(session, question, groups[0].ids, gates) if gates.met else NO_GATE_MET


def graded(session: Session, question: GoldenQuestion, plan: MetricPlan) -> list[tuple[Metric, Outcome]]:
    """Return the outcome of each metric of a plan for a session that answers a question."""
    return _resolved(start_metrics(plan, session, question))


def gates_of(results: Iterable[tuple[Metric, Outcome]]) -> SessionGates:
    """Return the gates among metrics and their outcomes."""
    met: list[Metric] = []
    not_met: list[Metric] = []
    for metric, outcome in results:
        if isinstance(outcome, Score) and outcome.passed is not None:
            (met if outcome.passed else not_met).append(metric)
        elif isinstance(outcome, Failure) or (
            isinstance(outcome, Inconclusive) and metric.threshold is not None
        ):
            not_met.append(metric)
    references = frozenset(metric.needs for metric in met if metric.needs is not None)
    return SessionGates(frozenset(m.name for m in met), frozenset(m.name for m in not_met), references)


def tried(
    audited: Audited, kinds: Mapping[str, Mutator], number: int, seed: int, plan: MetricPlan
) -> list[Tried]:
    """Return the mutants of a session with their fates."""
    mutants = list(mutants_of(audited.session, kinds, number, seed))
    return [
        _without_session(Tried(audited, kind, mutant, *fate))
        for (kind, mutant), fate in zip(
            mutants, fates(audited, [mutant for _, mutant in mutants], plan), strict=True
        )
    ]


def _without_session(one: Tried) -> Tried:
    """Return a mutant that is settled without its session, of which there are thousands."""
    if one.fate in (Fate.SURVIVED, Fate.UNDECIDED):
        return one
    return one._replace(mutant=one.mutant._replace(session=one.audited.session))


def fates(
    audited: Audited, mutants: Sequence[Mutant], plan: MetricPlan
) -> Iterator[tuple[Fate, tuple[str, ...]]]:
    """Yield the fate of each mutant of a session, with the gates that decided.

    Only a gate that the session meets can notice a mutant: no other metric runs. A judge, if one is asked, is
    asked of all at once.
    """
    question, met = audited.question, audited.gates.met
    started = [start_metrics(plan, mutant.session, question, met) for mutant in mutants]
    reference = None
    for mutant, begun in zip(mutants, started, strict=True):
        fate = _fate(_resolved(begun))
        if fate[0] is not Fate.CAUGHT:
            reference = reference or completed(audited.session, question, met)
            if is_right(mutant.session, reference):
                fate = (Fate.RIGHT, ())
        yield fate


def counts(mutants: Iterable[Tried]) -> Counter[Fate]:
    """Return how many mutants there are of each fate."""
    return Counter(one.fate for one in mutants)


def share_caught(fates: Mapping[Fate, int]) -> float | None:
    """Return the share of the wrong mutants that is caught, undecided ones counted as not caught.

    None if there is no mutant that is wrong.
    """
    wrong = sum(number for fate, number in fates.items() if fate not in NOT_WRONG)
    return fates.get(Fate.CAUGHT, 0) / wrong if wrong else None


def _fate(results: Iterable[tuple[Metric, Outcome]]) -> tuple[Fate, tuple[str, ...]]:
    caught: list[str] = []
    undecided: list[str] = []
    for metric, outcome in results:
        if isinstance(outcome, Failure) or (isinstance(outcome, Score) and outcome.passed is False):
            caught.append(metric.name)
        elif isinstance(outcome, Inconclusive):
            undecided.append(metric.name)
    if caught:
        return Fate.CAUGHT, tuple(caught)
    return (Fate.UNDECIDED, tuple(undecided)) if undecided else (Fate.SURVIVED, ())


def _resolved(started: Iterable[tuple[Metric, Started]]) -> list[tuple[Metric, Outcome]]:
    return [(metric, resolve(metric, one)) for metric, one in started]
