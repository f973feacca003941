"""The pages of runs: their list, and what one run found."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from spangrade.evaluator.grading.run_list import list_runs
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics.stored_values import only_run, stored_thresholds
from spangrade.evaluator.reports.html.queries import rows_of
from spangrade.evaluator.reports.repeats import (
    FLAKY_COLUMNS,
    RATE_COLUMNS,
    flaky_rows,
    more_flaky,
    rate_rows,
    repeats_line,
)
from spangrade.evaluator.statistics.intervals import wilson_interval
from spangrade.evaluator.statistics.reasons import what_went_wrong
from spangrade.evaluator.statistics.repeats.repeats import repeats_of_run
from spangrade.tracer.store import Store

RUNS = 100  # on a page of their list
BARS = 20
MAX_GROUPS = 50  # reasons, tools, agents: the largest groups
_LIMITED = {"limit": MAX_GROUPS}
_REASONS = 10_000  # different ones, of which those alike are one group
WIDTH, HEIGHT = 440, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 8, 10, 22
_PLOT_WIDTH, _PLOT_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
_FACTORS = (1, 2, 5)


def runs_page(store: Store, page: int, *, watched: bool = False) -> dict[str, Any]:
    """Return the values of `runs.html`: a page, from 1, of the runs, or of the rolling ones of `watch`."""
    runs = list_runs(store, limit=RUNS + 1, offset=(page - 1) * RUNS, watched=watched).rows()
    for run in runs:
        run["rate"] = pass_rate(run["passed"], run["sessions"] - run["unmatched"])
    return {"runs": runs[:RUNS], "page": page, "more": len(runs) > RUNS, "watched": watched}


def run_page(store: Store, run_id: str) -> dict[str, Any] | None:
    """Return the values of `run.html`; None if there is no such run."""
    found = rows_of(store, "run", run=run_id)
    if not found:
        return None
    run = only_run(found, run_id)
    verdicts = {row["verdict"]: row["number"] for row in rows_of(store, "run_verdicts", run=run_id)}
    unanswered = verdicts.pop(None, 0)
    sessions = sum(verdicts.values())
    judged = sessions - verdicts.get(Verdict.UNMATCHED, 0)
    return {
        "run": run,
        "verdicts": {str(verdict): verdicts.get(verdict, 0) for verdict in Verdict},
        "sessions_number": sessions,
        "judged": judged,
        "rate": pass_rate(verdicts.get(Verdict.PASSED, 0), judged),
        "unanswered_number": unanswered,
        "unanswered": rows_of(store, "run_unanswered", run=run_id, **_LIMITED) if unanswered else [],
        "metrics": _metrics(store, run_id, stored_thresholds(run["thresholds"])),
        "reasons": _reasons(rows_of(store, "run_reasons", run=run_id, limit=_REASONS)),
        "inconclusive": rows_of(store, "run_inconclusive", run=run_id, **_LIMITED),
        "tools": rows_of(store, "run_tools", run=run_id, **_LIMITED),
        "agents": rows_of(store, "run_agents", run=run_id, **_LIMITED),
        "usage": rows_of(store, "run_usage", run=run_id),
        "repeats": _repeats(store, run_id),
        "max_groups": MAX_GROUPS,
    }


def _reasons(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return why sessions failed or broke, reasons that differ in values alone as one, the most first.

    `text` is what the reasons of its sessions, and of no others, have in common, empty if nothing.
    """
    alike: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        alike.setdefault((row["verdict"], row["metric"], what_went_wrong(row["reason"] or "")), []).append(
            row
        )
    made = []
    for (_, _, what), each in alike.items():
        number, reasons = sum(row["sessions"] for row in each), [row["reason"] or "" for row in each]
        first, last = min(reasons), max(reasons)  # what these have in common, all have
        same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        text = first[: sum(1 for _ in same)]
        reason = reasons[0] if len(reasons) == 1 else what
        made.append({**each[0], "sessions": number, "reason": reason, "text": text})
    largest = sorted(made, key=lambda one: -one["sessions"])[:MAX_GROUPS]
    for one in largest:
        others = (row for row in rows if row["verdict"] == one["verdict"] and one["text"])
        having = sum(row["sessions"] for row in others if one["text"] in (row["reason"] or ""))
        one["text"] = one["text"] if having == one["sessions"] else ""
    return largest


def _repeats(store: Store, run_id: str) -> dict[str, Any] | None:
    """Return the texts of the repeats of a run; None without any."""
    repeats = repeats_of_run(store, run_id)
    if repeats is None:
        return None
    return {
        "line": repeats_line(repeats),
        "tables": ((RATE_COLUMNS, rate_rows(repeats)), (FLAKY_COLUMNS, flaky_rows(repeats))),
        "more": more_flaky(repeats),
    }


def pass_rate(passed: int, sessions: int) -> dict[str, Any] | None:
    """Return the share of sessions that passed with its 95% interval (Wilson); None without sessions.

    Sessions without a verdict for want of a question are not in it; inconclusive and broken ones are.
    """
    if not sessions:
        return None
    low, high = wilson_interval(passed, sessions)
    return {"passed": passed, "of": sessions, "share": passed / sessions, "low": low, "high": high}


def _metrics(store: Store, run_id: str, thresholds: Mapping[str, str]) -> list[dict[str, Any]]:
    counts: dict[str, Counter[int]] = {}
    ranges: dict[str, tuple[float, float]] = {}
    for row in rows_of(store, "run_distribution", run=run_id, bars=BARS):
        counts.setdefault(row["metric"], Counter())[row["bar"]] = row["number"]
        ranges[row["metric"]] = (row["low"], row["high"])
    metrics = rows_of(store, "run_metrics", run=run_id)
    for metric in metrics:
        name = metric["metric"]
        gated = metric["passed"] + metric["failed"]
        metric["threshold"] = thresholds.get(name)
        metric["rate"] = pass_rate(metric["passed"], gated)
        metric["chart"] = None
        if name in ranges:
            threshold = _threshold(thresholds.get(name))
            metric["chart"] = distribution(counts[name], *ranges[name], BARS, threshold)
    return metrics


def _threshold(text: str | None) -> float | None:
    found = re.fullmatch(r"[<>]= (\S+)", text or "")
    return float(found[1]) if found else None


class ChartBar(NamedTuple):
    """One bar: its place, what it counts, and the bounds of its values."""

    x: float
    y: float
    width: float
    height: float
    number: int
    low: float
    high: float


class PlacedTick(NamedTuple):
    """A round number beside an axis, and where it is."""

    at: float
    text: str


class Distribution(NamedTuple):
    """Bars over a range of values; `threshold` is where the gate's line is."""

    bars: tuple[ChartBar, ...]
    ticks: tuple[PlacedTick, ...]
    y_ticks: tuple[PlacedTick, ...]
    threshold: float | None


def distribution(
    counts: Mapping[int, int], low: float, high: float, bars: int, threshold: float | None = None
) -> Distribution:
    """Return the bars of counts by number of the part, of `bars` equal parts from `low` to `high`."""
    most = max(counts.values(), default=0)
    side = round_numbers(0, most, 2, whole=True)
    top = max(most, side[-1], 1)
    width, step = _PLOT_WIDTH / bars, (high - low) / bars

    def place(value: float) -> float:
        return _short(_LEFT + (value - low) / (high - low) * _PLOT_WIDTH)

    shapes = tuple(
        ChartBar(
            x=_short(_LEFT + number * width + 1),
            y=_short(_TOP + _PLOT_HEIGHT - height),
            width=_short(width - 2),
            height=_short(height),
            number=count,
            low=low + number * step,
            high=low + (number + 1) * step,
        )
        for number, count in sorted(counts.items())
        # One session among a million is still to be seen.
        if (height := max(count / top * _PLOT_HEIGHT, 1.5))
    )
    at = None
    if threshold is not None and high > low and low <= threshold <= high:
        at = place(threshold)
    return Distribution(
        shapes,
        tuple(PlacedTick(place(one), f"{one:,.12g}") for one in round_numbers(low, high, 4)),
        tuple(PlacedTick(_short(_TOP + _PLOT_HEIGHT * (1 - one / top)), f"{one:,.12g}") for one in side),
        at,
    )


def round_numbers(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Return the multiples from `low` to `high` of the least 1, 2 or 5 times a power of ten that fits.

    A step fits if the range is at most `most` times as long. Without a range there are none.
    """
    least = high / most - low / most
    if least < 1e-290:
        return [] if low else [0.0]
    power = math.floor(math.log10(least))
    steps = (float(f"{factor}e{power + more}") for more in (0, 1) for factor in _FACTORS)
    step = next((one for one in steps if one >= least), least)
    step = max(step, 1.0) if whole else step
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [float(f"{number * step:.12g}") for number in numbers]


def _short(number: float) -> float:
    return round(number, 1)
