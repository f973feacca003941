"""The one path from recorded spans to scores: import, derive, grade, save.

Nothing here prints or exits: results are values, problems and progress go to callbacks. The database is open
only in short windows, so that others can use it while metrics run and judges answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S
from spangrade.evaluator.derive.sync.workers import InOrder, few_collections
from spangrade.evaluator.grading.gate_names import named_tools, unknown_names
from spangrade.evaluator.grading.prepare import Prepared, custom_keys, prepare, sessions_to_grade
from spangrade.evaluator.grading.run import JudgeUsage, Run
from spangrade.evaluator.grading.run_details import RunDetails
from spangrade.evaluator.grading.save import RepeatsOf, save
from spangrade.evaluator.grading.slices import SlicedOutput, add_grades, workers_for, workers_on_slices
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.judge.run import spent_since
from spangrade.tracer.span import Problem
from spangrade.tracer.store.store import Stored


class RunOutput(SlicedOutput, Protocol):
    """An output beside the scores: it sees each session and each grade as it passes."""

    def finish(self, run: Run, prepared: Prepared, details: RunDetails, in_order: InOrder) -> None:
        """Write the output of the run, which is saved; `in_order` may have processes for it."""
        ...


def grade_stored(
    spec: GradeSpec,
    db: Stored,
    callbacks: Callbacks = DEFAULT,
    *,
    recordings: Sequence[Path] = (),
    output: RunOutput | None = None,
    repeats_of: RepeatsOf = lambda store, run_id: None,  # noqa: ARG005
    workers: int | None = 1,
) -> Run:
    """Grade by a specification; save the scores, and return the run.

    With recorded spans (given, or beside the dataset in its folder) these are imported and their sessions
    graded; with a dataset that brings its own sessions, those; else the stored sessions. The database is
    created only if the dataset brings its sessions, or spans are imported. For `workers` see `workers_for`.
    """
    prepared = prepare(spec, db, callbacks, recordings)
    return grade_prepared(prepared, db, callbacks, output, repeats_of, workers)


@few_collections()
def grade_prepared(
    prepared: Prepared,
    db: Stored,
    callbacks: Callbacks = DEFAULT,
    output: RunOutput | None = None,
    repeats_of: RepeatsOf = lambda store, run_id: None,  # noqa: ARG005
    workers: int | None = 1,
    *,
    is_saved: bool = True,
) -> Run:
    """Grade by a prepared specification, as `grade_stored` does.

    Unless it `is_saved`, nothing is said of its questions and gates: that was, where their run was saved.
    """
    if is_saved and (custom := custom_keys(prepared)) is not None:
        callbacks.on_problem(Problem(prepared.dataset, custom, dropped=False))
    judge = prepared.judge()
    spent_before = judge.spent
    sessions, complete = sessions_to_grade(prepared, db, callbacks, workers)
    if is_saved and (gates := named_tools(prepared)):
        with db.reading(derived=False, wait_s=RUN_WAIT_S) as store:
            unknown = unknown_names(gates, store, sessions.ids)
        if unknown is not None:
            callbacks.on_problem(Problem(prepared.dataset, unknown, dropped=False))
    run = prepared.new_run()
    run.incomplete |= not complete
    callbacks.on_progress("grading")
    number = workers_for(prepared, judge, len(sessions.ids), workers)
    with workers_on_slices(number, prepared, judge) as in_order:
        add_grades(run, prepared, judge, sessions, callbacks, output, in_order)
        run.judge = JudgeUsage(judge.name, spent_since(spent_before, judge.spent))
        details, questions = prepared.details, prepared.questions.golden_questions
        if is_saved:
            save(db, run, prepared.texts, questions, details, wait_s=RUN_WAIT_S, repeats_of=repeats_of)
        if output is not None:
            output.finish(run, prepared, details, in_order)
    return run
