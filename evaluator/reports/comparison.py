"""A comparison as JSON values, as tables for people, as Markdown, and as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spangrade.converters.datasets.files import create_text, replacing, writing
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.reports.comparison_head import (
    found_text,
    head_of_compared_run,
    head_of_comparison,
    headlines,
    left_out,
)
from spangrade.evaluator.reports.headline import as_markdown
from spangrade.evaluator.reports.junit import write_conditions
from spangrade.evaluator.reports.markdown import MAX_METRICS, MAX_NAME, code, table_lines
from spangrade.evaluator.reports.tables import cell, p_value_text
from spangrade.evaluator.statistics.comparison.compare import Change, Comparison, Flip, MetricChange
from spangrade.evaluator.statistics.comparison.condition import Compared, ConditionOutcome, ConditionResult
from spangrade.evaluator.statistics.comparison.differences import Difference, TooLittle
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.comparison.sample import Replayed, is_judged
from spangrade.evaluator.statistics.intervals import ERROR
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store.store import Stored

MAX_LISTED = 20  # questions of one kind; the JSON has all of them

_STYLES = {
    Change.BETTER: "green",
    Change.WORSE: "red",
    Change.NONE: "dim",
    Change.TOO_LITTLE: "yellow",
    ConditionOutcome.PASSED: "green",
    ConditionOutcome.FAILED: "red",
    ConditionOutcome.UNSETTLED: "yellow",
}
_COLUMNS = ("metric", "first", "second", "difference (interval)", "p", "change", "questions")
_FLIP_COLUMNS = ("question", "passed", "paths part at", "reason")
_LIMITS = {"change": 200, "reason": 200}  # characters in Markdown; of other columns MAX_NAME


def comparison_json(comparison: Comparison, conditions: Sequence[ConditionResult] = ()) -> dict[str, Any]:
    """Return a comparison as JSON values; null is unknown."""
    return {
        **{
            side: {
                "run": sample.label,
                "run_id": sample.run_id,
                "sessions": len(sample.graded),
                "ungraded": sample.ungraded,
                "arrived_since": sample.arrived_since,
                "replayed": _replayed_json(sample.replayed),
            }
            for side, sample in (("first", comparison.first), ("second", comparison.second))
        },
        "metrics": [_metric_json(change) for change in comparison.metrics],
        **{
            kind: [_flip_json(flip) for flip in getattr(comparison, kind)]
            for kind in ("fixed", "regressed", "inconclusive_in_first", "inconclusive_in_second")
        },
        "only_in_first": list(comparison.only_in_first),
        "only_in_second": list(comparison.only_in_second),
        "compared": {"questions": comparison.passed.comparable, "of": comparison.passed.total},
        "unanswered_in_first": list(comparison.unanswered_in_first),
        "unanswered_in_second": list(comparison.unanswered_in_second),
        "changed_questions": [
            {"question_id": one.question, "what": one.what, "relaxed": one.is_relaxed}
            for one in comparison.changed_questions
        ],
        "metrics_only_in_first": list(comparison.metrics_only_in_first),
        "metrics_only_in_second": list(comparison.metrics_only_in_second),
        "unrecorded": comparison.unrecorded,
        "careful": list(comparison.careful),
        "conditions": [one._asdict() for one in conditions],
    }


def comparison_tables(comparison: Comparison, conditions: Sequence[ConditionResult] = ()) -> RenderableType:
    """Return all of a comparison as tables: the headline, what changed, and the conditions."""
    heads = (*comparison.careful, *headlines(comparison, conditions))
    parts: list[RenderableType] = [cell(line) for line in heads]
    metrics = Table(*_COLUMNS)
    for change in comparison.metrics:
        cells = [cell(text) for text in _metric_cells(change)]
        cells[_COLUMNS.index("change")].stylize(_STYLES.get(change.change, ""))
        metrics.add_row(*cells)
    parts += [metrics] if comparison.metrics else []
    for title, flips in _flip_groups(comparison):
        made = Table(*_FLIP_COLUMNS, title=title, title_justify="left")
        for flip in flips:
            made.add_row(*(cell(text) for text in _flip_cells(flip)))
        parts.append(made)
    parts += [cell(line) for line in _lines(comparison)]
    for one in conditions:
        outcome = (one.outcome.text, _STYLES[one.outcome])
        parts.append(
            Text.assemble(cell(f"condition '{one.condition}': "), outcome, cell(f"; {found_text(one)}"))
        )
    return Group(*parts)


def interval_lines(comparison: Comparison) -> Iterator[str]:
    """Yield how wide the intervals are, if they are not all of 95%."""
    if any(each.error < ERROR for each in comparison.metrics):
        yield (
            "intervals: of passed of 95%; of others as wide as their test by Holm's method for their number, "
            "so that each has no difference in it unless it shows one"
        )


def comparison_markdown(
    comparison: Comparison, conditions: Sequence[ConditionResult] = (), head: str = ""
) -> str:
    """Return a comparison for a comment on a pull request, in bounded length; recorded text in code spans.

    The `head` and the conditions come first, what flipped after them, and the metrics last, folded.
    """
    lines = [f"## spangrade: {code(comparison.first.label)} against {code(comparison.second.label)}", ""]
    lines += (
        [head, ""] if head else [line for text in headlines(comparison, conditions) for line in (text, "")]
    )
    lines += [
        f"- condition {code(one.condition)}: **{one.outcome.text}**; {code(found_text(one), 400)}"
        for one in conditions[:MAX_LISTED]
    ]
    lines += [f"- and {len(conditions) - MAX_LISTED} more"] if len(conditions) > MAX_LISTED else []
    lines += [*([""] if conditions else []), "<details><summary>All of the comparison</summary>", ""]
    for title, flips in _flip_groups(comparison):
        lines += [f"### {title}", "", *_markdown_table(_FLIP_COLUMNS, map(_flip_cells, flips[:MAX_LISTED]))]
        if len(flips) > MAX_LISTED:
            lines += ["", f"and {len(flips) - MAX_LISTED} more"]
        lines += [""]
    lines += [
        "### Metrics",
        "",
        *_markdown_table(_COLUMNS, map(_metric_cells, comparison.metrics[:MAX_METRICS])),
    ]
    if len(comparison.metrics) > MAX_METRICS:
        lines += ["", f"and {len(comparison.metrics) - MAX_METRICS} more metrics"]
    lines += [line for text in _lines(comparison) for line in ("", code(text, 400))]
    return "\n".join([*lines, "", "</details>", ""])


def write_comparison(
    compared: Compared, folder: Path, *, stored: Stored | None = None, run: Run | None = None
) -> None:
    """Write the files of a comparison to a folder. Raises InputError if one cannot be written.

    Where the second side is a `run` that has just been graded, its result heads comparison.md. With `stored`
    what was said before and now is there.
    """
    code = compared.exit_code()
    if run is None:
        head = head_of_comparison(compared, code, stored)
    else:
        head = head_of_compared_run(run, compared, stored=stored, code=code if compared.conditions else None)
    with replacing(folder) as new, writing(folder):
        create_text(new / "comparison.json", dumps(comparison_json(*compared), indent=True))
        create_text(new / "comparison.md", comparison_markdown(*compared, head=as_markdown(head)))
        name = f"spangrade compare {compared.comparison.first.label} {compared.comparison.second.label}"
        write_conditions(compared.conditions, new / "comparison.junit.xml", name)


def _markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    limits = [_LIMITS.get(column, MAX_NAME) for column in columns]
    return table_lines(columns, (map(code, row, limits) for row in rows))


def _replayed_json(replayed: Sequence[Replayed]) -> dict[str, Any] | None:
    if not replayed:
        return None
    parted = [one._asdict() for one in replayed if one.parted_at is not None]
    return {"sessions": len(replayed), "parted": parted}


def _metric_json(change: MetricChange) -> dict[str, Any]:
    difference = change.difference
    has_too_little = isinstance(difference, TooLittle)
    first, second = change.pairs.of_first, change.pairs.of_second
    return {
        "metric": change.metric,
        "unit": change.measured.unit,
        "higher_is_better": change.measured.higher_is_better,
        "first": change.first,
        "second": change.second,
        "questions": change.questions,
        "of": change.pairs.total,
        "change": change.change,
        "difference": None if isinstance(difference, TooLittle) else _difference_json(difference),
        "too_little_data": difference.reason if isinstance(difference, TooLittle) else None,
        "observed": difference.estimate if has_too_little else None,
        "corrected_p_value": change.corrected_p,
        "paired": change.pairs.is_paired,
        "inconclusive": [int(side.unknown.sum()) for side in (first, second)],
        "note": change.note,
        "judge_error": None if change.judge_error is None else change.judge_error._asdict(),
    }


def _difference_json(difference: Difference) -> dict[str, Any]:
    flips = None if difference.flips is None else list(difference.flips[:2])
    value = {**difference._asdict(), "flips": flips}
    del value["least_shown"]  # that of the metric's judge
    return value


def difference_text(difference: Difference | TooLittle) -> str:
    """Return a difference with its interval, as `-0.417 (-0.706 to -0.107)` or `×1.87 (1.85 to 1.88)`."""
    if difference.estimate is None:
        return "–"
    sign = "×" if difference.is_ratio else ""
    form = "{:.3g}" if difference.is_ratio else "{:+.3g}"
    if isinstance(difference, TooLittle):
        return f"{sign}{form.format(difference.estimate)} (no interval)"
    if difference.low == difference.high == 0:
        return "0"
    estimate, low, high = (
        form.format(value) for value in (difference.estimate, difference.low, difference.high)
    )
    return f"{sign}{estimate} ({low} to {high})"


def _metric_cells(change: MetricChange) -> list[str]:
    difference = change.difference
    means = ("–" if mean is None else f"{mean:.4g}" for mean in (change.first, change.second))
    why = difference.reason if isinstance(difference, TooLittle) else ""
    notes = "; ".join(filter(None, (why, change.note)))
    text = f"{change.change} ({notes})" if notes else str(change.change)
    total = change.pairs.total if change.pairs.is_paired else change.questions
    questions = str(change.questions) if change.questions == total else f"{change.questions} of {total}"
    return [
        change.metric,
        *means,
        difference_text(difference),
        p_value_text(change.corrected_p),
        text,
        questions,
    ]


def _flip_groups(comparison: Comparison) -> Iterator[tuple[str, Sequence[Flip]]]:
    """Yield the questions that flipped, by kind, each kind with a title."""
    for title, flips in (
        ("Regressed", comparison.regressed),
        ("Fixed", comparison.fixed),
        ("Inconclusive or broken in the first only", comparison.inconclusive_in_first),
        ("Inconclusive or broken in the second only", comparison.inconclusive_in_second),
    ):
        if flips:
            yield f"{title}: {len(flips)}", flips


def _flip_json(flip: Flip) -> dict[str, Any]:
    return {
        "question_id": flip.first[0].question_id,
        "first": list(map(_graded_json, flip.first)),
        "second": list(map(_graded_json, flip.second)),
        "reason": flip.reason,
        "step": flip.step,
    }


def _graded_json(graded: Graded) -> dict[str, Any]:
    return {"session_id": graded.session_id, "verdict": graded.verdict, "reason": graded.reason}


def _flip_cells(flip: Flip) -> list[str]:
    return [flip.key, f"{_passed(flip.first)}, then {_passed(flip.second)}", flip.step, flip.reason]


def _passed(graded: Sequence[Graded]) -> str:
    return f"{sum(g.verdict == 'passed' for g in graded)} of {len(graded)}"


def _lines(comparison: Comparison) -> Iterator[str]:
    """Yield, a line each, questions in one sample alone, changed questions, and notes on the intervals."""
    for side, sample, only in (
        ("first", comparison.first, comparison.only_in_first),
        ("second", comparison.second, comparison.only_in_second),
    ):
        questions = {graded.question_id for graded in sample.graded}
        yield from _line("question", f"only in the {side}", [key for key in only if key in questions])
        without = [key for key in only if key not in questions]
        yield from _line("session", f"without a question only in the {side}", without)
        yield from _line(
            "question", f"unanswered in the {side}", getattr(comparison, f"unanswered_in_{side}")
        )
    for text, is_relaxed in (("relaxed in the second", True), ("with other expectations", False)):
        changed = [
            f"{one.question} ({one.what})"
            for one in comparison.changed_questions
            if one.is_relaxed is is_relaxed
        ]
        yield from _line("question", text, changed)
    yield from interval_lines(comparison)
    yield from judge_lines(comparison)
    yield from _line("metric", "only in the first", comparison.metrics_only_in_first)
    yield from _line("metric", "only in the second", comparison.metrics_only_in_second)
    for side, sample in (("first", comparison.first), ("second", comparison.second)):
        yield from _replay_line(sample.replayed, side)
    yield from left_out(comparison)


def _replay_line(replayed: Sequence[Replayed], side: str) -> Iterator[str]:
    """Yield how many sessions were replayed to the end, and where the paths of the others parted."""
    parted = [one for one in replayed if one.parted_at is not None]
    if replayed:
        text = f"{len(replayed) - len(parted)} of {counted(len(replayed), 'session')} of the {side}"
        places = [f"{one.question_id or one.session_id} at turn {one.parted_at}" for one in parted]
        more = f" and {len(places) - MAX_LISTED} more" if len(places) > MAX_LISTED else ""
        shown = f"; parted: {', '.join(places[:MAX_LISTED])}{more}" if places else ""
        yield f"{text} replayed to the end{shown}"


def judge_lines(comparison: Comparison) -> Iterator[str]:
    """Yield how far the judge is right, by metric, and where it is taken at its word."""
    judges = sorted({*comparison.first.judges, *comparison.second.judges})
    rated = [one for one in comparison.metrics if is_judged(one.metric)] if judges else []
    by = " and ".join(judges)
    for change in rated:
        if error := change.judge_error:
            shown = "a difference may be any number of times what it shows"
            if error.least_shown > 0:
                shown = f"a difference may be up to {1 / error.least_shown:.2g} times what it shows"
            right = f"{error.right} of {error.labels} labelled sessions"
            yield f"{by} judged {change.metric} as people did in {right}: {shown}, and its interval says so"
    if unlabelled := [one.metric for one in rated if one.judge_error is None]:
        names = ", ".join(unlabelled[:MAX_LISTED])
        yield f"{by} taken at its word in {names}: `spangrade judge METRIC` measures its error"


def _line(noun: str, text: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        shown = ", ".join(names[:MAX_LISTED])
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        yield f"{counted(len(names), noun)} {text}: {shown}{more}"
