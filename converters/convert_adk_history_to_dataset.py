"""Convert `adk eval` results into a CSV and spans: a script."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spangrade.converters.datasets.files import separate
from spangrade.converters.script import report, run_script
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.span import Problem

if TYPE_CHECKING:
    from spangrade.converters.datasets.adk_history import EvalCase
    from spangrade.converters.datasets.golden import GoldenQuestion


def convert(
    agent_dir: Annotated[Path, typer.Option(help="The agent's folder, which contains .adk/eval_history.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The CSV to write; default: run_<date>_<time>.csv.")
    ] = None,
    golden: Annotated[
        Path | None, typer.Option(help="A golden file whose references are merged into the CSV.")
    ] = None,
    db: Annotated[
        Path | None, typer.Option(help="A DuckDB file in which the sessions' spans are stored too.")
    ] = None,
) -> None:
    """Convert the results of `adk eval` into a dataset for `spangrade grade`.

    Anything that cannot be used is reported and left out, and the exit code is then 2.
    """
    from spangrade.converters.datasets.adk_events import spans_of
    from spangrade.converters.datasets.adk_history import read_folder, score_attributes
    from spangrade.converters.datasets.files import write_text
    from spangrade.converters.datasets.simulation_csv import csv_text, is_simulation_csv
    from spangrade.tracer.store import Store

    path = output or Path(f"run_{datetime.now():%Y%m%d_%H%M%S}.csv")
    if path.exists() and not is_simulation_csv(path):
        raise InputError(f"{path}: not a simulation's CSV, so it is left unchanged; name another --output")
    question_of = _questions(golden)
    cases, problems = separate(read_folder(agent_dir))
    rows = []
    for case in cases:
        question = question_of(case)
        if golden and question is None:
            problems.append(
                Problem(f"{golden}: {case.eval_id}", "no question has its id or user inputs", dropped=False)
            )
        question_id = question.id if question else case.eval_id
        spans = list(
            spans_of(
                case.session_id,
                case.turns,
                case.state,
                question_id,
                case.durations,
                case.app_name,
                score_attributes(case.scores),
            )
        )
        rows.append((case, spans, question))
    if not rows:
        report("nothing converted", [*problems, Problem(str(agent_dir), "no session in its eval history")])
    write_text(path, csv_text(rows))
    summary = f"{counted(len(rows), 'session')} converted to {path}"
    if db:
        with Store.open(db) as store:
            added = store.add(span for _, spans, _ in rows for span in spans)
        summary += f", {counted(added.spans, 'span')} added to {db}"
    report(summary, problems)


def _questions(golden: Path | None) -> Callable[[EvalCase], GoldenQuestion | None]:
    """Return a function that looks up a case's golden question: by the case's id, else by its user inputs."""
    from spangrade.converters.datasets.golden import load_golden

    questions = load_golden(golden).golden_questions if golden else ()
    by_id = {question.id: question for question in questions}
    by_inputs = {question.user_inputs: question for question in questions}
    return lambda case: (
        by_id.get(case.eval_id) or by_inputs.get(tuple(t.user_input or "" for t in case.turns))
    )


if __name__ == "__main__":
    run_script(convert)
