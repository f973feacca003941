"""`spangrade metrics`."""

from __future__ import annotations

from math import isfinite

from spangrade.evaluator.cli.options import Format, MetricsFiles, OutputFormat
from spangrade.evaluator.cli.output import print_json, print_table

_COLUMNS = ("name", "unit", "better", "threshold", "needs", "parameter", "description")


def metrics(
    metrics_file: MetricsFiles = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """List the metrics, and those of files beside them."""
    import spangrade
    from spangrade.evaluator.reports.json import metric_json

    listed = spangrade.list_metrics(metrics_file or ())
    if format is Format.JSON:
        print_json([metric_json(metric) for metric in listed])
        return
    rows = [
        {
            **metric_json(metric),
            "unit": f"{metric.unit} {metric.scale[0]:g} to {metric.scale[1]:g}"
            if metric.scale and isfinite(metric.scale[1])
            else metric.unit,
            "parameter": "|".join(metric.choices) or metric.parameter,
        }
        for metric in listed
    ]
    print_table(rows, _COLUMNS)
