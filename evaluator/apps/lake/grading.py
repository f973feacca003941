"""Grading on a lake: each slice by itself, the questions that no session answers at the end."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spangrade.converters.datasets.formats import Dataset
from spangrade.evaluator.derive.session_rows import load
from spangrade.evaluator.grading.grade import Coverage, grade_sessions, grade_unanswered
from spangrade.evaluator.grading.prepare import Prepared, prepare, with_questions
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.save import insert_grades, insert_run
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.grading.verdict import Verdict, exit_code
from spangrade.tracer.base.errors import ExitCode, InputError
from spangrade.tracer.store import Store


class Grading(NamedTuple):
    """The specification of a grade, with the content of its dataset, for any process."""

    run_id: str
    spec: GradeSpec
    golden: Dataset

    def prepared(self) -> Prepared:
        """Return the prepared grade."""
        return with_questions(self.spec, self.golden)


class SliceGrade(NamedTuple):
    """The result of grading a slice, or a run: verdicts, questions, and the gates that applied.

    `answered`, `doubtful` and `without_texts` are as in `Coverage`; no session answers the questions in
    `unanswered`.
    """

    verdicts: Mapping[Verdict, int]
    answered: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    without_texts: int = 0
    applied: frozenset[str] = frozenset()
    prices: frozenset[str] = frozenset()
    unanswered: tuple[str, ...] = ()
    unapplied: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of `spangrade lake update`, as that of `spangrade grade`."""
        untested = [Verdict.INCONCLUSIVE] if self.unanswered or self.unapplied else []
        return exit_code([*self.verdicts, *untested])


NOT_GRADED = SliceGrade({})


def grading_by(spec: GradeSpec) -> Grading:
    """Return the grading that is asked for. Raises InputError if it needs more than a lake has."""
    prepared = prepare(spec, None)
    if prepared.golden.spans is not None:
        raise InputError(f"{prepared.dataset}: it brings its own sessions; expected golden questions")
    if prepared.asks_judge:
        raise InputError(
            f"{prepared.dataset}: a judge would be needed, and none is asked on a lake: leave its metrics "
            "out, and the reply (reference_response) too, as a reference that is not a gate"
        )
    golden = prepared.golden._replace(rows={})  # there are none, and it goes to other processes
    return Grading(uuid.uuid4().hex, prepared.spec, golden)


def grade_slice(store: Store, grading: Grading) -> SliceGrade:
    """Grade the sessions of a slice and write their scores and verdicts."""
    run, coverage = Run(grading.run_id), Coverage()
    for grade in grade_sessions(grading.prepared(), run.noted(load(store)), coverage):
        run.add(grade)
    insert_grades(store, run)
    return SliceGrade(
        {verdict: count for verdict, count in run.verdicts.items() if count},
        frozenset(coverage.answered),
        frozenset(coverage.doubtful),
        coverage.without_texts,
        frozenset(name for name, totals in run.metrics.items() if totals.applied),
        frozenset(run.price_overrides),
    )


def finish_run(
    store: Store, grading: Grading, graded: Iterable[SliceGrade], answered: Iterable[str]
) -> SliceGrade:
    """Write a run and the questions that no session answers; return the result of all its grades.

    `answered` are the questions that sessions of the lake answered in earlier runs.
    """
    parts = list(graded)
    coverage = Coverage(set(answered))
    for one in parts:
        coverage.add(Coverage(set(one.answered), set(one.doubtful), one.without_texts))
    prepared = grading.prepared()
    run = prepared.new_run(grading.run_id)
    for grade in grade_unanswered(prepared, coverage):
        run.add(grade)
    insert_run(store, run, prepared.texts, prepared.questions.golden_questions, prepared.details)
    applied = frozenset[str]().union(*(one.applied for one in parts))
    verdicts: Counter[Verdict] = Counter()
    for one in parts:
        verdicts.update(one.verdicts)
    return SliceGrade(
        dict(verdicts),
        unanswered=tuple(run.unanswered_questions),
        unapplied=tuple(name for name in prepared.gates if name not in applied),
    )
