"""The pages of a comparison: two runs, as `spangrade compare` does it, and two sessions side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.evaluator.apps.server.pages.charts import Interval, interval
from spangrade.evaluator.apps.server.pages.queries import rows_of
from spangrade.evaluator.grading.run_list import find_run_id, refuse_itself
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics.trajectory import calls_of_steps
from spangrade.evaluator.reports.comparison import (
    difference_text,
    interval_lines,
    judge_lines,
)
from spangrade.evaluator.reports.comparison_head import headlines
from spangrade.evaluator.reports.html.alignment import MOST, TextPair, aligned, difference
from spangrade.evaluator.reports.html.conversation import TurnView
from spangrade.evaluator.reports.html.grid_page import ROWS, grid_rows
from spangrade.evaluator.reports.html.links import SideLinks
from spangrade.evaluator.reports.html.session_page import SessionPage, page_of
from spangrade.evaluator.reports.html.session_source import session_source
from spangrade.evaluator.reports.html.texts import TextLimits
from spangrade.evaluator.reports.tables import p_value_text
from spangrade.evaluator.session import Step, ToolInteraction
from spangrade.evaluator.statistics.comparison.compare import Change, Comparison, Flip, MetricChange, compare
from spangrade.evaluator.statistics.comparison.differences import Difference, TooLittle
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.comparison.sample import PASSED
from spangrade.evaluator.statistics.comparison.stored_sample import sample_of_run
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store

RUNS = 100  # to choose from
MAX_SESSIONS = 100_000  # of a run: comparing more takes many seconds, and a link must not start that
MAX_FLIPS = 200  # questions of one kind
MAX_NAMES = 200  # questions that only one run has

_SIDES = ("a", "b")
_LONGEST = 1_000  # characters of arguments
_LIMITS = TextLimits(longest=4_000, items=200, bars=0)
_CLASSES = {
    Change.BETTER: "passed",
    Change.WORSE: "failed",
    Change.TOO_LITTLE: "inconclusive",
}


class MetricRow(NamedTuple):
    """A metric in both runs: its picture, None where there is too little data, and its numbers as texts."""

    change: MetricChange
    shape: Interval | None
    difference: str
    p_value: str
    notes: str
    style: str


class FlipRow(NamedTuple):
    """A question whose verdicts differ, with the two sessions that are shown side by side."""

    flip: Flip
    passed: tuple[str, str]
    sessions: tuple[Graded, Graded]


class Side(NamedTuple):
    """One of two sessions side by side."""

    title: str
    run: str | None
    page: Any
    prefix: str
    links: SideLinks


class PairOfSteps(NamedTuple):
    """A step of one of two trajectories, or of both; `arguments` are those of its calls where they differ."""

    first: str | None
    second: str | None
    result: str
    arguments: tuple[str, str] = ("", "")
    turn: int = 0


class TurnPair(NamedTuple):
    """A turn of two sessions, None where one has none, and its replies word by word."""

    number: int
    first: TurnView | None
    second: TurnView | None
    replies: TextPair


def compare_page(store: Store, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `compare.html`: of the runs `a` and `b` that a URL names, if it has both.

    Each is the name of a run, its id or the beginning of it. `newest` are the two newest runs of a dataset.
    Raises InputError if there is no such run, and if one is too large for a page.
    """
    asked = {side: texts.get(side, "").strip() for side in _SIDES}
    runs = rows_of(store, "runs_to_compare", run=None, limit=RUNS)
    newest = next(
        (
            (one, two)
            for at, two in enumerate(runs)
            for one in runs[at + 1 :]
            if one["dataset"] and one["dataset"] == two["dataset"]
        ),
        None,
    )
    values: dict[str, Any] = {"runs": runs, "newest": newest, "given": asked, "comparison": None}
    if not all(asked.values()):
        return values
    run_ids = [find_run_id(store, text) for text in asked.values()]
    refuse_itself(run_ids[0], run_ids[1], (asked["a"], asked["b"]))
    for run_id in run_ids:
        _check_size(store, run_id)
    comparison = compare(sample_of_run(store, run_ids[0]), sample_of_run(store, run_ids[1]))
    grid = grid_rows(store, run_ids[1], run_ids[0], {})
    judged = {PASSED, *(one.metric for one in grid["columns"] if one.judged)}
    metrics = list(map(_metric_row, comparison.metrics))
    return {
        **values,
        **grid,
        "rows_at_once": ROWS,
        "comparison": comparison,
        "headlines": [*comparison.careful, *headlines(comparison)],
        "run_ids": dict(zip(_SIDES, run_ids, strict=True)),
        "notes": [*interval_lines(comparison), *judge_lines(comparison)],
        "metrics": metrics,
        "gates": [row for row in metrics if row.change.metric in judged],
        "others": [row for row in metrics if row.change.metric not in judged],
        "groups": [(title, kind, list(map(_flip_row, flips))) for title, kind, flips in _groups(comparison)],
        "only": [
            (title, names)
            for title, names in (
                ("only in the first run", comparison.only_in_first),
                ("only in the second run", comparison.only_in_second),
                ("unanswered in the first run", comparison.unanswered_in_first),
                ("unanswered in the second run", comparison.unanswered_in_second),
                (
                    "with other expectations in the second run",
                    [f"{one.question}: {one.what}" for one in comparison.changed_questions],
                ),
            )
            if names
        ],
        "max_flips": MAX_FLIPS,
        "max_names": MAX_NAMES,
    }


def _check_size(store: Store, run_id: str) -> None:
    number = sum(row["number"] for row in rows_of(store, "run_verdicts", run=run_id))
    if number > MAX_SESSIONS:
        raise InputError(
            f"run {run_id[:12]} has {number:,} sessions, and a page compares at most {MAX_SESSIONS:,}: "
            f"use `spangrade compare`"
        )


def _metric_row(change: MetricChange) -> MetricRow:
    difference = change.difference
    p_value = p_value_text(change.corrected_p)
    style = _CLASSES.get(change.change, "unmatched")
    text = difference_shown(difference, change.measured.unit)
    if isinstance(difference, TooLittle):
        notes = "; ".join(filter(None, (difference.reason, change.note)))
        return MetricRow(change, None, text, p_value, notes, style)
    shape = interval(difference.estimate, difference.low, difference.high, is_ratio=difference.is_ratio)
    return MetricRow(change, shape, text, p_value, change.note, style)


def difference_shown(difference: Difference | TooLittle, unit: str) -> str:
    """Return a difference with its interval: that of shares in points, a factor as a change in percent."""
    if difference.estimate is None or not (difference.is_ratio or unit == "share"):
        return difference_text(difference)
    none, each, after = (1.0, "%", "") if difference.is_ratio else (0.0, "", " points")

    def text(value: float) -> str:
        return f"{(value - none) * 100:+.3g}{each}".replace("-", "−")

    if isinstance(difference, TooLittle):
        return f"{text(difference.estimate)}{after} (no interval)"
    if difference.low == difference.high == none:
        return "0"
    return f"{text(difference.estimate)}{after} ({text(difference.low)} to {text(difference.high)})"


def _groups(comparison: Comparison) -> Sequence[tuple[str, str, Sequence[Flip]]]:
    return (
        ("Regressed", "failed", comparison.regressed),
        ("Fixed", "passed", comparison.fixed),
        ("Inconclusive or broken in the first run only", "inconclusive", comparison.inconclusive_in_first),
        ("Inconclusive or broken in the second run only", "inconclusive", comparison.inconclusive_in_second),
    )


def _flip_row(flip: Flip) -> FlipRow:
    passed = tuple(
        f"{sum(one.verdict == Verdict.PASSED for one in graded)} of {len(graded)}"
        for graded in (flip.first, flip.second)
    )
    return FlipRow(flip, (passed[0], passed[1]), _pair(flip))


def _pair(flip: Flip) -> tuple[Graded, Graded]:
    """Return a session of each side, of different verdicts if there are such."""
    pairs = [(one, two) for one in flip.first for two in flip.second]
    return next((pair for pair in pairs if pair[0].verdict != pair[1].verdict), pairs[0])


def compare_sessions_page(store: Store, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `compare_sessions.html`: two sessions, each with the grade of a run.

    Its parameters are `first` and `second`, ids of sessions, and `a` and `b`, ids of runs; without one it is
    the latest grade. Raises InputError if there is no such session.
    """
    sides = []
    for title, session, run in (("First", "first", "a"), ("Second", "second", "b")):
        session_id = texts.get(session, "")
        if not session_id:
            raise InputError(f"{session}: expected the id of a session")
        run_id = texts.get(run) or None
        source = session_source(store, session_id, run_id)._replace(findings=(), spans=())
        page = page_of(source, _LIMITS)
        sides.append(Side(title, run_id, page, f"{session}-", SideLinks()))
    steps = list(_steps(*(calls_of_steps(side.page.session)[:MOST] for side in sides)))
    turns = {turn.turn for side in sides for turn in side.page.session.turns}
    replies = [
        TurnPair(number, _turn(sides[0].page, number), _turn(sides[1].page, number), _replies(sides, number))
        for number in sorted(turns)[:MOST]
    ]
    parted = next((number for number, step in enumerate(steps) if step.result != "same"), None)
    return {"sides": sides, "steps": steps, "parted": parted, "turns": replies}


def _turn(page: SessionPage, number: int) -> TurnView | None:
    return next((one for one in page.conversation.turns if one.number == number), None)


def _replies(sides: Sequence[Side], number: int) -> TextPair:
    """Return the replies of a turn with their differences word by word."""
    first, second = (
        next((one.final_response for one in side.page.session.turns if one.turn == number), None)
        for side in sides
    )
    both = difference(first or "", second or "")
    return TextPair(None if first is None else both.expected, None if second is None else both.actual)


def _steps(
    first: Sequence[tuple[Step, ToolInteraction | None]],
    second: Sequence[tuple[Step, ToolInteraction | None]],
) -> Iterator[PairOfSteps]:
    """Yield steps side by side, turn by turn: those of one turn stand beside none of another."""
    for turn in sorted({step.turn or 0 for step, _ in (*first, *second)}):
        ours, theirs = ([one for one in side if (one[0].turn or 0) == turn] for side in (first, second))
        for left, right in aligned([step.name for step, _ in ours], [step.name for step, _ in theirs]):
            if right is None:
                yield PairOfSteps(ours[left or 0][0].name, None, "only in the first", turn=turn)
            elif left is None:
                yield PairOfSteps(None, theirs[right][0].name, "only in the second", turn=turn)
            else:
                (step, one), (_, other) = ours[left], theirs[right]
                yield PairOfSteps(step.name, step.name, *_difference(one, other), turn)


def _difference(first: ToolInteraction | None, second: ToolInteraction | None) -> tuple[str, tuple[str, str]]:
    """Return how two calls of a tool differ, and their arguments if these do."""
    if first is None or second is None:
        return "same", ("", "")
    if first.arguments_known and second.arguments_known:
        texts = tuple(canonical(call.input_arguments) for call in (first, second))
        if texts[0] != texts[1]:
            return "other arguments", (texts[0][:_LONGEST], texts[1][:_LONGEST])
    failed = [call.ok is False for call in (first, second)]
    if failed[0] is not failed[1] and None not in (first.ok, second.ok):
        return f"failed in the {'first' if failed[0] else 'second'}", ("", "")
    return "same", ("", "")
