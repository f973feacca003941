"""Grading sessions in slices, in other processes where that pays, with the results of one process.

A process is given the rows of a slice, makes its sessions and grades them as `grade_sessions` does. What
it found is added in the order of the slices. All that is opened or asked stays in the process that was
called: it reads the database, saves the run, and asks the judge.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple, Protocol

from spangrade.converters.datasets.formats import Dataset
from spangrade.evaluator.derive.session_rows import SessionRows
from spangrade.evaluator.derive.sync.intake import Callbacks
from spangrade.evaluator.derive.sync.workers import (
    InOrder,
    default_workers,
    given_to_workers,
    workers_in_order,
)
from spangrade.evaluator.grading.grade import Coverage, grade, grade_sessions, grade_unanswered
from spangrade.evaluator.grading.prepare import Prepared, with_questions
from spangrade.evaluator.grading.run import Grade, Run
from spangrade.evaluator.grading.selection import SessionReader
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.judge.choice import use_judge
from spangrade.evaluator.judge.protocol import NoJudge
from spangrade.evaluator.judge.run import JudgeRun
from spangrade.evaluator.session import Session
from spangrade.tracer.span import Problem

SLICE = 500  # sessions
_SPANS_OF_SESSION = 2  # so that two processes start at 10,000 sessions: for 5,000 they saved 4% of the time


class Output(Protocol):
    """An output of sessions and their grades: it sees each as it passes."""

    def sessions(self, sessions: Iterable[Session]) -> Iterator[Session]:
        """Yield the sessions that are graded."""
        ...

    def grades(self, grades: Iterable[Grade]) -> Iterator[Grade]:
        """Yield their grades."""
        ...


class SlicedOutput(Output, Protocol):
    """An output that also sees the sessions that other processes grade."""

    def of_slice(self) -> Output:
        """Return the output for a slice in another process, which comes back from there."""
        ...

    def add_slice(self, seen: Output) -> None:
        """Write the output of a slice: the slices come in order."""
        ...


class Shared(NamedTuple):
    """The specification and sessions' context that all slices of a grade share."""

    spec: GradeSpec
    golden: Dataset
    answers: Mapping[str, str]
    no_judge: str
    now_ns: int


class _Graded(NamedTuple):
    """The result of a slice."""

    run: Run
    coverage: Coverage
    problems: list[Problem]
    output: Output | None


def workers_for(prepared: Prepared, judge: JudgeRun | NoJudge, sessions: int, workers: int | None) -> int:
    """Return how many processes grade sessions: at most `workers`, or with None as many as save time.

    It is one where an order or an object of this process decides: a judge with its budget, questions that
    share their sessions, a metric that is not of a file or installed.
    """
    if prepared.in_slices and (not prepared.asks_judge or _why_not(judge) is not None):
        return workers_of_slices(sessions, workers)
    return 1


def workers_of_slices(sessions: int, workers: int | None) -> int:
    """Return how many processes work on slices of sessions: at most `workers`, if that is given."""
    return min(workers or default_workers(sessions * _SPANS_OF_SESSION), -(-sessions // SLICE))


def _why_not(judge: JudgeRun | NoJudge) -> str | None:
    """Return why a judge answers nothing, None if it may."""
    return None if judge.unavailable is None else str(judge.unavailable)


def add_grades(
    run: Run,
    prepared: Prepared,
    judge: JudgeRun | NoJudge,
    sessions: SessionReader,
    callbacks: Callbacks,
    output: SlicedOutput | None = None,
    in_order: InOrder = map,
) -> None:
    """Grade sessions, and the questions that none of them answers, and add the grades to a run."""
    if in_order is map:
        with use_judge(judge):
            read = prepared.with_columns(run.noted(sessions.read(callbacks)), callbacks.on_problem)
            read = read if output is None else output.sessions(read)
            _add(run, grade(prepared, read, sessions.spans_at), output)
        return
    coverage = Coverage()
    slices = (part for rows in sessions.read_rows(callbacks) for part in rows.slices(SLICE))
    jobs = ((part, None if output is None else output.of_slice()) for part in slices)
    for graded in in_order(_grade_slice, jobs):
        for problem in graded.problems:
            callbacks.on_problem(problem)
        run.add_part(graded.run)
        coverage.add(graded.coverage)
        if output is not None and graded.output is not None:
            output.add_slice(graded.output)
    last = None if output is None else output.of_slice()
    _add(run, grade_unanswered(prepared, coverage, sessions.spans_at), last)
    if output is not None and last is not None:
        output.add_slice(last)


def _add(run: Run, grades: Iterable[Grade], output: Output | None) -> None:
    for one in grades if output is None else output.grades(grades):
        run.add(one)


def workers_on_slices(
    number: int, prepared: Prepared | None, judge: JudgeRun | NoJudge
) -> AbstractContextManager[InOrder]:
    """Give `workers_in_order` whose processes have what all slices of a grade share; see `prepared_here`."""
    shared = _shared_by(prepared, judge) if number > 1 and prepared is not None else None
    return workers_in_order(number, shared)


def _shared_by(prepared: Prepared, judge: JudgeRun | NoJudge) -> Shared:
    golden = prepared.golden._replace(spans=None, problems=[], rows=dict(prepared.golden.rows))
    answers = dict(prepared.question_by_session)
    return Shared(prepared.spec, golden, answers, _why_not(judge) or "", time.time_ns())


@functools.cache
def prepared_here() -> tuple[Shared, Prepared]:
    """Return what a worker was given, and the grade prepared from it."""
    shared: Shared = given_to_workers()
    return shared, replace(with_questions(shared.spec, shared.golden), question_by_session=shared.answers)


def _grade_slice(job: tuple[SessionRows, Output | None]) -> _Graded:
    """Grade a slice, in a worker."""
    rows, output = job
    shared, prepared = prepared_here()
    run, coverage = Run(), Coverage()
    problems: list[Problem] = []
    with use_judge(NoJudge(shared.no_judge)):
        read = prepared.with_columns(run.noted(rows.decoded()), problems.append)
        read = read if output is None else output.sessions(read)
        _add(run, grade_sessions(prepared, read, coverage, shared.now_ns), output)
    run.pack()
    return _Graded(run, coverage, problems, output)
