"""Writing a run to the database: its scores, verdicts, metrics and golden questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import duckdb

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.run_details import RunDetails, save_metrics
from spangrade.evaluator.grading.stored_run import save_questions
from spangrade.evaluator.judge.run import Spent
from spangrade.evaluator.results.views import place_verdicts
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import error_line, statement
from spangrade.tracer.store.store import Stored

RepeatsOf = Callable[[Store, str], Any]  # the repeats of a run that is saved, by its id


def save(
    db: Stored,
    run: Run,
    metrics: Sequence[str],
    questions: Sequence[GoldenQuestion] = (),
    details: RunDetails = RunDetails(),  # noqa: B008 (a frozen value)
    *,
    wait_s: float = 0,
    repeats_of: RepeatsOf = lambda store, run_id: None,  # noqa: ARG005
) -> None:
    """Write the scores, verdicts and questions of a run to a database: all of them or, if that fails, none.

    It waits up to `wait_s` seconds for the database; the run gets its repeats before it is closed. Raises
    StoreError if they cannot be written.
    """
    with db.writing(wait_s=wait_s) as store:
        try:
            with store.transaction():
                insert_run(store, run, metrics, questions, details)
            run.repeats = repeats_of(store, run.run_id)
        except duckdb.Error as error:
            raise StoreError(f"{db.path}: cannot save the scores: {error_line(error)}") from error


def insert_run(
    store: Store,
    run: Run,
    metrics: Sequence[str],
    questions: Sequence[GoldenQuestion] = (),
    details: RunDetails = RunDetails(),  # noqa: B008 (a frozen value)
) -> None:
    """Write the scores, verdicts and questions of a run, within the caller's transaction."""
    judge, spent = run.judge or (None, Spent())
    dataset_digest = save_questions(store, run.run_id, questions)
    insert_grades(store, run)
    store.query(
        statement("insert_run", "spangrade.evaluator.grading"),
        {
            "run_id": run.run_id,
            "dataset": run.dataset,
            "metrics": list(metrics),
            "thresholds": dumps(dict(run.thresholds)),
            "price_overrides": run.price_overrides or None,
            "judge": judge,
            "judge_failures": run.judge_failures,
            **asdict(spent),
            **details.cells(dataset_digest),
        },
    )
    save_metrics(store, run.run_id, details.metrics)
    place_verdicts(store, [run.run_id])


def insert_grades(store: Store, run: Run, given_at: datetime | None = None) -> None:
    """Write the scores and verdicts of a run; `given_at` is when they were made, None if with the run."""
    of_run = {"run_id": run.run_id, "given_at": given_at}
    store.query(
        "INSERT INTO scores BY NAME "
        "SELECT $run_id AS run_id, 'run' AS source, $given_at::TIMESTAMP AS scored_at, * FROM incoming",
        of_run,
        incoming=run.score_table,
    )
    store.query(
        "INSERT INTO verdicts BY NAME "
        "SELECT $run_id AS run_id, $given_at::TIMESTAMP AS given_at, * FROM incoming",
        of_run,
        incoming=run.verdict_table,
    )
