"""`spangrade lint`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates
from spangrade.evaluator.cli.declare import Only
from spangrade.evaluator.cli.options import Printed, Selected, StoredIn
from spangrade.evaluator.cli.output import print_json, print_table
from spangrade.evaluator.cli.settings import is_given, loaded_settings
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.fields import OWN, argument, option
from spangrade.tracer.base.settings_file import FILE_VARIABLE
from spangrade.tracer.base.terminal import print_line, printable, warn

_OF_METRICS = ("name", "unit", "better", "threshold", "needs", "parameters", "description")


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """What is looked at."""

    session: str | None = argument(None, "A session's id, or the beginning of one.")
    dataset: Path | None = option(
        None, "Golden questions: say when each passes, and list what a grade would find inconclusive."
    )
    metrics: bool = option(False, "List the metrics instead, with those of --metrics-file.")
    schema: bool = option(False, "Print the JSON Schema of golden files instead.")
    workers: int = option(1, "Processes that look at sessions.", least=1, metavar="N", setting=OWN)


def lint(
    context: typer.Context,
    gates: Annotated[Gates, Only("metrics", "metrics_files")],
    select: Selected,
    linted: LintOptions,
    at: StoredIn,
    printed: Printed,
) -> None:
    """List what recordings lack, which metrics are inconclusive because of it, and how to fix it.

    Exit codes: 0 nothing to fix, 2 bad input, 4 a metric is inconclusive, or would be for a reference that
    needs it, for a reason that can be fixed.
    """
    if linted.metrics:
        _print_metrics(context, gates, printed)
        return
    if linted.schema:
        from spangrade.converters.datasets.golden_schema import golden_schema

        print_json(golden_schema())
        return
    dataset = linted.dataset
    if dataset is not None and printed.as_table:
        _explain(dataset)
    with at.opened(linted.workers) as opened:
        is_any = bool(dataset is None or at.db or linted.session) or opened.path.exists()
        findings = []
        if is_any:
            findings = opened.lint(linted.session, dataset=dataset, gates=gates, select=select)
    if not printed.as_table:
        printed.write(findings)
    elif findings:
        from spangrade.evaluator.reports.findings import finding_lines

        for line in finding_lines(findings):
            print_line(line)
        print_line("what is installed, set and reachable: spangrade doctor")
    else:
        print_line("nothing is lacking" if is_any else "nothing is recorded yet: spangrade doctor says why")
    fixable = any(finding.metrics and finding.advice for finding in findings)
    raise typer.Exit(ExitCode.INCONCLUSIVE if fixable else ExitCode.PASSED)


def _explain(dataset: Path) -> None:
    """Print one sentence for each question: when a session passes it."""
    from spangrade.converters.datasets.formats import find_dataset, read_dataset
    from spangrade.evaluator.reports.question_sentence import passes_if

    path = find_dataset(dataset)[0] if dataset.is_dir() else dataset
    for question in read_dataset(path).questions.golden_questions:
        sys.stdout.write(f"{printable(f'{question.id} {passes_if(question)}', newline=' ')}\n")


def _print_metrics(context: typer.Context, gates: Gates, printed: Printed) -> None:
    """Print the metrics, and those of files beside them.

    A module that a settings file names is listed, not run, unless you name one of the two files.
    """
    import spangrade
    from spangrade.evaluator.reports.json import metric_json

    files = gates.files
    if not is_given(context, "metrics_file") and _is_only_found(context):
        for file in [file for file in files if file.suffix == ".py"]:
            warn(f"{file}: not run to list its metrics: name it with --metrics-file")
            files = tuple(other for other in files if other != file)
    listed = spangrade.list_metrics(files)
    if not printed.as_table:
        printed.write([metric_json(metric) for metric in listed])
        return
    rows = [
        {
            **metric_json(metric),
            "unit": f"{metric.unit} {metric.scale[0]:g} to {metric.scale[1]:g}"
            if metric.scale and isfinite(metric.scale[1])
            else metric.unit,
            "parameters": ":".join("|".join(choices) or name for name, choices in metric.parameters) or None,
        }
        for metric in listed
    ]
    print_table(rows, _OF_METRICS)


def _is_only_found(context: typer.Context) -> bool:
    """Return whether metrics files are those of a settings file that nobody named: perhaps someone else's."""
    loaded = loaded_settings(context)
    named = os.environ.get(FILE_VARIABLE)
    return not named and loaded.file is not None and loaded.source("metrics_files") == str(loaded.file)
