"""The grid of a run: a row for each question, a column for each metric, what changed against another run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.evaluator.grading.run_list import find_run_id, refuse_itself
from spangrade.evaluator.grading.stored_sessions import GRAVEST_FIRST
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics.causes import path_of
from spangrade.evaluator.metrics.stored_values import only_run, stored_bounds, stored_evidence
from spangrade.evaluator.reports.html.queries import page_query, query_rows, rows_of
from spangrade.evaluator.statistics.comparison.compare import difference_of
from spangrade.evaluator.statistics.comparison.differences import TooLittle
from spangrade.evaluator.statistics.comparison.sample import Measured
from spangrade.evaluator.statistics.intervals import wilson_interval
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store

ROWS = 100  # that are loaded at once
MAX_SESSIONS = 100_000  # of a run: the grid of more takes seconds, and their list is quick
MAX_METRICS = 100
RUNS = 100  # to compare with
NONE = "none"  # no baseline
_LEAST_SESSIONS = 2  # of a question in each run: one and one never show a difference

_SORTS = ("change", "verdict")
_PARAMETERS = ("against", "verdict", "metric", "metadata", "text", "changed", "sort")
_VERDICTS = [str(verdict) for verdict in Verdict]


class GridColumn(NamedTuple):
    """A metric; `higher_is_better` is None where it has no direction, `judged` says that it is a gate.

    `bounds` are its lowest and highest possible value.
    """

    metric: str
    higher_is_better: bool | None
    unit: str
    judged: bool
    bounds: tuple[float, float]


class GridCell(NamedTuple):
    """The result of a metric on the sessions of a question.

    `state` is a verdict, "" where nothing judged it; `share` is "2 of 3" where there are repeats. `change` is
    the difference of the value to that of the baseline, None where one is unknown; `style` says whether it is
    better or worse, "" where its 95% interval has no difference in it. `reason` leads with the place where a
    gate failed. `unit` is that of the metric.
    """

    value: float | None
    state: str
    share: str
    change: float | None
    style: str
    reason: str
    unit: str


class GridRow(NamedTuple):
    """A question, or a session without one, in a run and in its baseline; `cells` are by metric."""

    key: str
    words: str
    verdict: str
    share: str
    before: str | None
    share_before: str
    reason: str
    session_id: str | None
    base_session_id: str | None
    cells: tuple[GridCell | None, ...]


def grid_page(store: Store, run_id: str, texts: Mapping[str, str], limit: int = ROWS) -> dict[str, Any]:
    """Return the values of `grid.html`, of an existing run, against the one that `against` names.

    It has at most `limit` rows.

    Raises InputError if there is no such baseline, and for a filter that cannot be used.
    """
    given = {name: text for name in _PARAMETERS if (text := texts.get(name, "")).strip()}
    runs = rows_of(store, "runs_to_compare", run=run_id, limit=RUNS)
    about = only_run(rows_of(store, "run", run=run_id), run_id)
    same = [one["run_id"] for one in runs if one["dataset"] == about["dataset"]]
    before = [one["run_id"] for one in runs if one["graded_at"] < about["graded_at"]]
    base = next((one for one in same if one in before), None)
    if against := given.get("against"):
        base = None if against == NONE else find_run_id(store, against)
        refuse_itself(run_id, base, (run_id[:12], against))
    counts = {row["verdict"]: row["number"] for row in rows_of(store, "run_verdicts", run=run_id)}
    unanswered = counts.pop(None, 0)
    sessions = sum(counts.values())
    judged = sessions - counts.get(Verdict.UNMATCHED, 0)
    passed = counts.get(Verdict.PASSED, 0)
    values: dict[str, Any] = {
        "run": about,
        "runs": runs,
        "base": next((one for one in runs if one["run_id"] == base), None),
        "given": given,
        "verdicts": {one: counts[one] for one in _VERDICTS if counts.get(one)},
        "all_verdicts": _VERDICTS,
        "sorts": _SORTS,
        "sessions": sessions,
        "unanswered": unanswered,
        "rate": (passed, judged, *wilson_interval(passed, judged)) if judged else None,
        "too_large": sessions > MAX_SESSIONS,
        "limit": MAX_SESSIONS,
        "rows_at_once": ROWS,
    }
    if values["too_large"]:
        return {**values, "rows": [], "columns": (), "total": 0, "skip": 0, "address": {}}
    return {**values, **grid_rows(store, run_id, base, {**texts, "against": base or NONE}, limit)}


def grid_part(store: Store, run_id: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `grid_rows.html`: the rows from `skip` on. Raises InputError as it does."""
    against = texts.get("against") or NONE
    base = None if against == NONE else find_run_id(store, against)
    return grid_rows(store, run_id, base, texts)


def grid_rows(
    store: Store, run_id: str, base: str | None, texts: Mapping[str, str], limit: int = ROWS
) -> dict[str, Any]:
    """Return rows of a grid: those that the filters leave, from `skip` on, at most `limit`."""
    columns = tuple(
        GridColumn(
            row["metric"],
            row["higher_is_better"],
            row["unit"] or "",
            row["judged"],
            stored_bounds(row["lowest"], row["highest"]),
        )
        for row in rows_of(store, "grid_metrics", run=run_id, limit=MAX_METRICS)
    )
    skip = _number(texts.get("skip", ""))
    found = query_rows(
        store,
        page_query("grid_rows"),
        {
            "run": run_id,
            "base": base,
            "gravest_first": [str(one) for one in GRAVEST_FIRST],
            "limit": limit,
            "skip": skip,
            **_conditions(texts, has_base=base is not None),
        },
    )
    keys = [row["key"] for row in found]
    cells: dict[tuple[str, str], dict[bool, dict[str, Any]]] = {}
    for row in rows_of(store, "grid_cells", run=run_id, base=base, keys=keys):
        cells.setdefault((row["key"], row["metric"]), {})[row["is_run"]] = row
    total = found[0]["of_all"] if found else 0
    return {
        "rows": [_row(row, columns, cells) for row in found],
        "columns": columns,
        "run_id": run_id,
        "base_id": base,
        "total": total,
        "rows_text": rows_text(found[0]["questions"] if found else 0, total),
        "skip": skip,
        "sessions_of": {},
        "address": {
            "against": base or NONE,
            **{one: texts[one] for one in _PARAMETERS if one != "against" and texts.get(one, "").strip()},
        },
    }


def rows_text(questions: int, rows: int) -> str:
    """Return what rows of a grid are: questions, and sessions that answer none."""
    sessions = f"{rows - questions:,} session{'' if rows - questions == 1 else 's'}"
    if not questions and rows:
        return sessions
    asked = f"{questions:,} question{'' if questions == 1 else 's'}"
    return f"{asked}, {sessions} without one" if rows > questions else asked


def _conditions(texts: Mapping[str, str], *, has_base: bool) -> dict[str, Any]:
    verdict = texts.get("verdict", "").strip() or None
    if verdict is not None and verdict not in _VERDICTS:
        raise InputError(f"verdict: {verdict[:80]!r}; expected one of {', '.join(_VERDICTS)}")
    sort = texts.get("sort", "").strip() or _SORTS[0]
    if sort not in _SORTS:
        raise InputError(f"sort: {sort[:80]!r}; expected one of {', '.join(_SORTS)}")
    metadata = texts.get("metadata", "").strip()
    name, equals, wanted = metadata.partition("=")
    if metadata and not equals:
        raise InputError(f"metadata: {metadata[:80]!r}; expected a key and its value: topic=refund")
    return {
        "verdict": verdict,
        "metric": texts.get("metric", "").strip() or None,
        "text": texts.get("text", "").strip() or None,
        "metadata_key": name.strip() or None,
        "metadata_value": wanted.strip(),
        "only_changed": bool(texts.get("changed", "").strip()) and has_base,
        "by_change": sort == _SORTS[0] and has_base,
    }


def _row(
    row: Mapping[str, Any],
    columns: Sequence[GridColumn],
    cells: Mapping[tuple[str, str], Mapping[bool, Mapping[str, Any]]],
) -> GridRow:
    return GridRow(
        row["key"],
        (row["words"] or row["first_input"] or "").strip(),
        row["verdict"],
        _share(row["passed"], row["sessions"]),
        row["base_verdict"],
        _share(row["base_passed"], row["base_sessions"]),
        row["reason"] or "",
        row["session_id"],
        row["base_session_id"],
        tuple(_cell(column, cells.get((row["key"], column.metric), {})) for column in columns),
    )


def _share(passed: int | None, sessions: int | None) -> str:
    """Return how many of several sessions passed; "" for one session."""
    return f"{passed} of {sessions}" if sessions is not None and sessions > 1 else ""


def _cell(column: GridColumn, sides: Mapping[bool, Mapping[str, Any]]) -> GridCell | None:
    mine, theirs = sides.get(True), sides.get(False)
    if mine is None:
        return None
    state = ""
    if mine["broken"]:
        state = "broken"
    elif mine["judged"]:
        state = "passed" if mine["passed"] == mine["judged"] else "failed"
    elif mine["inconclusive"] and column.judged:
        state = "inconclusive"
    change = None
    if theirs is not None and mine["value"] is not None and theirs["value"] is not None:
        difference = mine["value"] - theirs["value"]
        change = difference if not math.isclose(mine["value"], theirs["value"], rel_tol=1e-9) else None
    style = ""
    if change is not None and theirs is not None and column.higher_is_better is not None:
        direction = shown_direction(theirs["session_values"], mine["session_values"], column.bounds)
        if direction:
            style = "better" if (direction > 0) == column.higher_is_better else "worse"
    share = _share(mine["passed"], mine["judged"])
    paths = map(path_of, stored_evidence(mine["evidence"])) if state == "failed" else ()
    where = ", ".join(dict.fromkeys(filter(None, paths)))
    reason = ": ".join(filter(None, (where, mine["reason"])))
    return GridCell(mine["value"], state, share, change, style, reason, column.unit)


def shown_direction(before: Sequence[float], now: Sequence[float], bounds: tuple[float, float]) -> int:
    """Return whether the values of a question's sessions are shown to be larger, 1, or smaller, -1, else 0.

    By the interval of a comparison of two runs, with sessions in the place of questions. Of values without
    bounds, such as costs, that takes hundreds: 0.
    """
    if min(len(before), len(now)) < _LEAST_SESSIONS or not all(map(math.isfinite, bounds)):
        return 0
    sides = [[(one,) for one in side] for side in (before, now)]
    try:
        found = difference_of(sides[0], sides[1], Measured(None, bounds, ""), is_paired=False)
    except InputError:  # scipy is not installed: nothing is shown
        return 0
    return 0 if isinstance(found, TooLittle) else found.at().direction


def _number(text: str) -> int:
    """Return a number of an address, 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
