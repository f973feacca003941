"""The list of metrics of `spangrade lint --metrics`."""

from __future__ import annotations

import os
from math import isfinite

import typer

from spangrade import Gates
from spangrade.evaluator.cli.options import Printed
from spangrade.evaluator.cli.output import print_table
from spangrade.evaluator.cli.settings import is_given, loaded_settings
from spangrade.tracer.base.settings_file import FILE_VARIABLE
from spangrade.tracer.base.terminal import warn

_COLUMNS = ("name", "unit", "better", "threshold", "needs", "parameters", "description")


def print_metrics(context: typer.Context, gates: Gates, printed: Printed) -> None:
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
    print_table(rows, _COLUMNS)


def _is_only_found(context: typer.Context) -> bool:
    """Return whether metrics files are those of a settings file that nobody named: perhaps someone else's."""
    loaded = loaded_settings(context)
    named = os.environ.get(FILE_VARIABLE)
    return not named and loaded.file is not None and loaded.source("metrics_files") == str(loaded.file)
