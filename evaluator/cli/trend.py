"""`spangrade trend`."""

from __future__ import annotations

from dataclasses import dataclass

from spangrade.evaluator.cli.options import Printed, Selected, StoredIn
from spangrade.evaluator.cli.output import note_origins, show
from spangrade.evaluator.results.origin import OriginFilter
from spangrade.evaluator.statistics.by import By
from spangrade.tracer.base.fields import REQUIRED, argument, option


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendOptions:
    """What is shown, by what."""

    metric: str = argument(REQUIRED, "`passed`, `cost`, `latency`, `tokens`, or a metric that was measured.")
    by: By = option(By.DAY, "What the sessions are grouped by.")


def trend(select: Selected, measured: TrendOptions, at: StoredIn, printed: Printed) -> None:
    """Show a metric of the stored sessions by day, version, prompt or model, with 95% intervals.

    They are those of production, unless --where names an origin.
    """
    origin = select.origin or OriginFilter.PRODUCTION
    with at.opened() as opened:
        found = opened.trend(measured.metric, by=measured.by, origin=origin, select=select)
        note_origins(opened, origin)
    if printed.as_table:
        from spangrade.evaluator.reports.trend import trend_chart

        show(trend_chart(found))
    else:
        printed.write(found.to_json(), "points")
