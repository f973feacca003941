"""`spangrade grade`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nanoarrow as na

from spangrade.converters.datasets.formats import Dataset, read_dataset
from spangrade.evaluator.cli.importing import take_in
from spangrade.evaluator.cli.opening import WAIT_S
from spangrade.evaluator.cli.output import console, print_json, progress, warn
from spangrade.evaluator.derive import load, update
from spangrade.evaluator.golden import find_dataset
from spangrade.evaluator.grading.grade import Grade, grade
from spangrade.evaluator.metrics.files import requested
from spangrade.evaluator.metrics.queries import Query
from spangrade.evaluator.reports.tables import Report, ScoreRow, score_rows, write_results, written
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.errors import ExitCode, InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows
from spangrade.tracer.store.spool import drain
from spangrade.tracer.store.sql import statement

_BATCH = 16_384  # rows of scores
_TYPES = {
    name: {"value": na.float64(), "passed": na.bool_()}.get(name, na.string()) for name in ScoreRow._fields
}


def run(
    dataset: Path,
    db: Path,
    spans: Sequence[Path],
    metrics: Sequence[str],
    out: Path | None,
    *,
    metrics_files: Sequence[Path] = (),
    as_json: bool,
) -> None:
    """Grade, keep the scores in the database, and print what came of it."""
    recordings = list(spans)
    if dataset.is_dir():
        dataset, found = find_dataset(dataset)
        recordings = recordings or found
    read = read_dataset(dataset)
    if recordings and read.spans is not None:
        raise InputError(f"{dataset}: it brings its own sessions; right is without --spans")
    asked = requested(metrics, metrics_files)
    lost = _problems(read)
    with Store.open(db, wait_s=WAIT_S) as store:
        only: set[str] | None = None
        if recordings:
            _, intake = take_in(store, recordings)
            only, lost = _sessions_of(store, intake.traces), lost or intake.exit_code
        elif read.spans is not None:
            store.add(read.spans)
            update(store)
            only = _sessions_of(store, {span.trace_id for span in read.spans})
        else:
            drain(store)
            update(store)
        for metric in asked:
            if isinstance(metric.function, Query):
                metric.function.run(store)
        sessions = (s for s in load(store) if only is None or s.session_id in only)
        grades: Iterable[Grade] = grade(sessions, read.questions, asked)
        if out is not None:
            grades = written(grades, out)
        report = Report()
        with progress("grading"):
            _keep(store, dataset, metrics, _counted(grades, report))
    if out is not None:
        write_results(report, out)
    if as_json:
        print_json(report.as_json())
    else:
        console().print(report.tables())
    raise SystemExit(lost or report.exit_code)


def _problems(read: Dataset) -> ExitCode:
    """Say what in a dataset could not be used, and return what the command exits with for it."""
    for problem in read.problems:
        warn(f"{problem.where}: {problem.message}")
    return ExitCode.BAD_INPUT if any(problem.dropped for problem in read.problems) else ExitCode.PASSED


def _sessions_of(store: Store, traces: set[str]) -> set[str]:
    wanted = arrow_column("trace_id", traces)
    rows = store.query(
        "SELECT DISTINCT session_id FROM derived.traces SEMI JOIN wanted USING (trace_id)", wanted=wanted
    )
    return {session_id for (session_id,) in rows}


def _counted(grades: Iterable[Grade], report: Report) -> Iterator[Grade]:
    for one in grades:
        report.add(one)
        yield one


def _keep(store: Store, dataset: Path, metrics: Sequence[str], grades: Iterable[Grade]) -> None:
    """Write the scores as they come, some thousands at a time: all of a run, or none."""
    run_id = uuid.uuid4().hex
    store.query(statement("scores", "spangrade.evaluator.grading"))
    with store.transaction():
        rows: list[tuple[Any, ...]] = []
        for one in grades:
            rows += ((*row[:-1], canonical(row.evidence)) for row in score_rows(run_id, one))
            if len(rows) >= _BATCH:
                store.query("INSERT INTO scores BY NAME FROM incoming", incoming=arrow_rows(rows, _TYPES))
                rows = []
        if rows:
            store.query("INSERT INTO scores BY NAME FROM incoming", incoming=arrow_rows(rows, _TYPES))
        store.query(
            "INSERT INTO runs (run_id, dataset, metrics) VALUES ($run_id, $dataset, $metrics)",
            {"run_id": run_id, "dataset": str(dataset), "metrics": list(metrics)},
        )
