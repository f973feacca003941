"""Grading on a lake: each slice by itself, the questions that no session answers at the end."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from spangrade.converters.datasets.formats import read_dataset
from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.derive.session_rows import load
from spangrade.evaluator.grading.grade import (
    Coverage,
    grade_sessions,
    grade_unanswered,
    may_ask_judge,
)
from spangrade.evaluator.grading.policy import MetricPlan, Verdict, exit_code
from spangrade.evaluator.grading.revision import revision
from spangrade.evaluator.grading.run_details import NO_TAGS, GradedBy, RunDetails
from spangrade.evaluator.metrics import Metric, load_metrics
from spangrade.evaluator.pipeline import requested_metrics
from spangrade.evaluator.run import Run
from spangrade.evaluator.save_run import insert_run
from spangrade.tracer.errors import ExitCode, InputError
from spangrade.tracer.store import Store


class Grading(NamedTuple):
    """How sessions are graded: `metrics` as `NAME>=T`, and the names of the references that are not gates."""

    run_id: str
    dataset: str
    questions: GoldenDataset
    metrics: tuple[str, ...]
    without: tuple[str, ...]
    name: str | None

    def requested(self) -> tuple[Metric, ...]:
        """Return the metrics that are requested."""
        return requested_metrics(self.metrics, ())


class Graded(NamedTuple):
    """What the grades of a slice come to, or those of a run: verdicts, questions, and the gates that applied.

    `answered` and `doubtful` are as in `Coverage`, `unanswered` the questions that no session answers.
    """

    verdicts: Mapping[Verdict, int]
    answered: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    applied: frozenset[str] = frozenset()
    prices: frozenset[str] = frozenset()
    unanswered: tuple[str, ...] = ()
    unapplied: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """What `spangrade lake update` exits with, as `spangrade grade` does."""
        untested = [Verdict.INCONCLUSIVE] if self.unanswered or self.unapplied else []
        return exit_code([*self.verdicts, *untested])


NOT_GRADED = Graded({})


def grading_by(
    dataset: Path, metrics: Sequence[str] = (), without: Sequence[str] = (), name: str | None = None
) -> Grading:
    """Return the grading by a dataset. Raises InputError if it brings its own sessions or needs a judge."""
    golden = read_dataset(dataset)
    if golden.spans is not None:
        raise InputError(f"{dataset}: it brings its own sessions; expected golden questions")
    grading = Grading(uuid.uuid4().hex, str(dataset), golden.questions, tuple(metrics), tuple(without), name)
    if may_ask_judge(golden.questions, grading.requested(), without):
        raise InputError(
            f"{dataset}: a judge would be needed, and none is asked on a lake: leave its metrics out, "
            "and the replies with --no-reference reference_response"
        )
    return grading


def grade_slice(store: Store, grading: Grading) -> Graded:
    """Grade the sessions of a slice and write their scores and verdicts."""
    run, coverage = Run(grading.run_id), Coverage.none()
    requested = grading.requested()
    sessions = run.noted(load(store))
    for grade in grade_sessions(sessions, grading.questions, requested, grading.without, {}, None, coverage):
        run.add(grade)
    _save(store, run)
    return Graded(
        {verdict: count for verdict, count in run.verdicts.items() if count},
        frozenset(coverage.answered),
        frozenset(coverage.doubtful),
        frozenset(name for name, totals in run.metrics.items() if totals.applied),
        frozenset(run.price_overrides),
    )


def finish_run(store: Store, grading: Grading, graded: Iterable[Graded], answered: Iterable[str]) -> Graded:
    """Write a run and the questions that no session answers; return what all its grades come to.

    `answered` are the questions that sessions of the lake answered in earlier runs.
    """
    parts = list(graded)
    coverage = Coverage(set(answered).union(*(one.answered for one in parts)), set())
    coverage.doubtful.update(*(one.doubtful for one in parts))
    requested = grading.requested()
    plan = MetricPlan.of(requested, load_metrics(), grading.without, None)
    run = Run(grading.run_id, grading.dataset, thresholds=plan.thresholds)
    for grade in grade_unanswered(grading.questions, coverage):
        run.add(grade)
    graded_by = GradedBy(without_references=tuple(sorted(grading.without)))
    details = RunDetails(grading.name, NO_TAGS, revision(Path.cwd()), plan.metrics, graded_by)
    insert_run(store, run, grading.metrics, grading.questions.golden_questions, details)
    applied = frozenset[str]().union(*(one.applied for one in parts))
    verdicts: Counter[Verdict] = Counter()
    for one in parts:
        verdicts.update(one.verdicts)
    gates = [metric.name for metric in requested if metric.threshold is not None]
    return Graded(
        dict(verdicts),
        unanswered=tuple(run.unanswered_questions),
        unapplied=tuple(name for name in gates if name not in applied),
    )


def _save(store: Store, run: Run) -> None:
    for table, rows in (("scores", run.score_table), ("verdicts", run.verdict_table)):
        store.query(
            f"INSERT INTO {table} BY NAME SELECT $run_id AS run_id, * FROM incoming",  # noqa: S608 (our own names)
            {"run_id": run.run_id},
            incoming=rows,
        )
