"""A trend as a chart for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spangrade.evaluator.reports.tables import cell
from spangrade.evaluator.statistics.trends.trend import Point, Trend

WIDTH = 40  # columns of the chart


def trend_chart(trend: Trend) -> RenderableType:
    """Return a line per group: its sessions, its mean with the interval, and both drawn on a common scale."""
    values = [
        value for point in trend.points for value in (point.mean, point.low, point.high) if value is not None
    ]
    if not values:
        return cell(f"no session has a value of {trend.metric} in this time")
    low, high = min(values), max(values)
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(trend.by, overflow="fold")
    made.add_column("sessions", justify="right")
    made.add_column("unknown", justify="right")
    made.add_column("mean", justify="right")
    made.add_column("95% interval", justify="right")
    made.add_column(_scale(low, high), no_wrap=True)
    for point in trend.points:
        interval = None if point.low is None or point.high is None else f"{point.low:.4g} to {point.high:.4g}"
        made.add_row(
            cell(point.key),
            cell(point.sessions),
            cell(point.unknown),
            cell(None if point.mean is None else f"{point.mean:.4g}"),
            cell(interval),
            _line(point, low, high),
        )
    return Group(cell(f"{trend.metric} ({trend.unit}) by {trend.by}"), made)


def _scale(low: float, high: float) -> Text:
    """Return the ends of the chart's scale, at its ends."""
    ends = f"{low:.4g}", f"{high:.4g}"
    return Text(f"{ends[0]}{' ' * max(1, WIDTH - len(ends[0]) - len(ends[1]))}{ends[1]}")


def _line(point: Point, low: float, high: float) -> Text:
    """Return a mean as a dot on the line of its interval; a mean without one alone."""
    if point.mean is None:
        return Text("")

    def column(value: float) -> int:
        return round((value - low) / (high - low) * (WIDTH - 1)) if high > low else WIDTH // 2

    at = column(point.mean)
    drawn = [" "] * WIDTH
    if point.low is not None and point.high is not None:
        first, last = column(point.low), column(point.high)
        drawn[first : last + 1] = "─" * (last + 1 - first)
    drawn[at] = "●"
    return Text("".join(drawn).rstrip())
