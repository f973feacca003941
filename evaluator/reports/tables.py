"""Tables for people, to be printed by rich: any rows, a run, the list of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
from spangrade.evaluator.reports.repeats import (
    FLAKY_COLUMNS,
    RATE_COLUMNS,
    condition_line,
    flaky_rows,
    more_flaky,
    rate_rows,
    repeats_line,
)
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.terminal import counted, printable

if TYPE_CHECKING:  # grading takes 30 ms to import, and most tables are of rows
    from spangrade.evaluator.grading.run import Run, SessionVerdict
    from spangrade.evaluator.statistics.repeats.repeats import Repeats

WIDE = 120  # columns from which the list of sessions has all of its own

VERDICT_STYLES: Mapping[str, str] = {  # the gravest first
    Verdict.BROKEN: "magenta",
    Verdict.FAILED: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.UNMATCHED: "dim",
    Verdict.PASSED: "green",
}


def cell(value: Any, *, newline: str = "\n") -> Text:
    """Return a value as text in which nothing is markup and no character controls the terminal."""
    if value is None:
        return Text("–", "dim")
    if isinstance(value, float):
        value = f"{value:.6g}"
    if not isinstance(value, str):
        value = dumps(value) if isinstance(value, list | tuple | dict) else str(value)
    return Text(printable(value, newline=newline))


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str | None = None) -> Table:
    """Return rows as a table; columns of numbers are aligned to the right."""
    rows = list(rows)
    made = Table(title=None if title is None else cell(title), title_justify="left")
    for column in columns:
        number = any(isinstance(row[column], int | float) for row in rows)
        made.add_column(cell(column), justify="right" if number else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell(row[column]) for column in columns))
    return made


def run_tables(run: Run, *, every: bool = False) -> RenderableType | None:
    """Return the results by group and, with `every`, all else that a run has; None if that is nothing."""
    parts: list[RenderableType] = []
    by_verdict: dict[Verdict, list[SessionVerdict]] = {
        verdict: [] for verdict in (*PRECEDENCE, Verdict.UNMATCHED)
    }
    for session in run.sessions if every else ():
        if session.verdict in by_verdict:
            by_verdict[session.verdict].append(session)
    if any(by_verdict.values()):
        parts.append(_verdicts_table(by_verdict))
    if run.group_by is not None:
        rows = [{run.group_by: name, **counts} for name, counts in run.groups.items()]
        parts.append(table(rows, list(rows[0]) if rows else []))
    if every and run.shown_metrics:
        parts.append(_metrics_table(run))
    if every and run.repeats is not None:
        parts.append(_repeats_tables(run.repeats))
    return Group(*parts) if parts else None


def _verdicts_table(by_verdict: Mapping[Verdict, Sequence[SessionVerdict]]) -> Table:
    made = Table("session", "question", "verdict", "reason")
    for verdict, sessions in by_verdict.items():
        for session in sessions:
            made.add_row(
                cell(session.session_id or "–"),
                cell(session.question_id or "–"),
                Text(verdict, VERDICT_STYLES[verdict]),
                cell(session.reason),
            )
    return made


def metric_rows(run: Run) -> Iterator[list[str]]:
    """Yield the headings of the totals of metrics, then a row for each that a run shows."""
    columns = ["mean", "p50", "p95", "pass_rate", "scores", "inconclusive", "failures"]
    if run.judge_failures:
        columns.append("judge_failures")
    yield ["metric", *(column.replace("_", " ") for column in columns)]
    for name, totals in run.shown_metrics.items():
        row = totals.to_json()
        yield [name, *("–" if row[column] is None else f"{row[column]:.6g}" for column in columns)]


def _metrics_table(run: Run) -> Table:
    (first, *headings), *rows = metric_rows(run)
    made = Table(first)
    for heading in headings:
        made.add_column(heading, justify="right")
    for name, *values in rows:
        made.add_row(cell(name), *values)
    return made


def _repeats_tables(repeats: Repeats) -> RenderableType:
    """Return the rates and the flaky questions as tables."""
    parts: list[RenderableType] = []
    more = [condition_line(repeats), *filter(None, [more_flaky(repeats)])]
    for line, columns, rows in (
        (f"repeats: {repeats_line(repeats)}", RATE_COLUMNS, rate_rows(repeats)),
        (f"flaky: {counted(repeats.flaky_questions, 'question')}", FLAKY_COLUMNS, flaky_rows(repeats)),
    ):
        if rows:
            made = Table(*columns)
            for row in rows:
                made.add_row(*map(cell, row))
            parts += [cell(line), made]
    return Group(*parts, *map(cell, more))


def sessions_table(rows: Iterable[Mapping[str, Any]], width: int) -> Table:
    """Return rows of `Database.list_sessions` as a table that fits a width; a wide one has more columns.

    The origin is shown where sessions of others than production are among them.
    """
    rows, is_wide = list(rows), width >= WIDE
    has_origins = any(row["origin"] != "production" for row in rows)
    left_out = {*(() if is_wide else _OF_WIDE), *_OF_LINES, *(() if has_origins else ("origin",))}
    padding = 2 if is_wide else 1
    made = Table(padding=(0, padding, 0, 0), pad_edge=False, box=None)
    listed = [dict(zip(_HEADINGS, _session_texts(row, "short_id"), strict=True)) for row in rows]
    for texts in listed if not is_wide else ():
        texts["started"] = texts["started"].partition("-")[2] or texts["started"]
    words = width
    for name in _HEADINGS:  # the verdict first: no line begins with what was recorded
        if name in left_out:
            continue
        is_folded = name in _FOLDED
        if name != _USER_SAID:
            longest = max(cell_len(name), *(cell_len(texts[name]) for texts in listed), 0)
            words -= padding + (min(longest, _MOST_OF_FOLDED) if is_folded else longest)
        overflow: Literal["fold", "ellipsis"] = "fold" if is_folded else "ellipsis"
        made.add_column(
            name, justify="right" if name in _NUMBERS else "left", overflow=overflow, no_wrap=not is_folded
        )
    for row, texts in zip(rows, listed, strict=True):
        cells = {
            name: Text(text, "dim" * (text == "–")) for name, text in texts.items() if name not in left_out
        }
        cells[_USER_SAID].truncate(max(words, _LEAST_OF_WORDS), overflow="ellipsis")
        cells["verdict"].stylize(VERDICT_STYLES.get(row["verdict"], ""))
        made.add_row(*cells.values())
    return made


def verdict_text(row: Mapping[str, Any]) -> str:
    """Return the verdict of a listed session, and whether more of it arrived since; – without a verdict."""
    return f"{printable(row['verdict'] or '–')}{', arrived since' if row['arrived_since'] else ''}"


def session_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the wide list of sessions line by line; the first thousand say how wide the columns are."""
    each = iter(rows)
    head = [_HEADINGS, *map(_session_texts, islice(each, _ALIGNED_BY))]
    widths = [max(map(len, column)) for column in zip(*head, strict=True)]
    left = _HEADINGS.index("turns")
    aligned = [f"{{:{'<' if number < left else '>'}{width}}}" for number, width in enumerate(widths)]
    line = "  ".join(aligned)
    for texts in chain(head, map(_session_texts, each)):
        yield line.format(*texts)


_HEADINGS = (
    *("verdict", "session", "user said", "question", "agents", "started"),
    *("turns", "tools", "models", "tokens", "USD", "s", "errors", "origin"),
)
_USER_SAID = "user said"
_FOLDED, _NUMBERS = frozenset({"session", "question", "agents"}), _HEADINGS[6:-1]
_OF_WIDE = frozenset({"question", "agents", "turns", "tokens"})  # columns of a wide table alone
_OF_LINES = frozenset({"tools", "models"})  # columns of the list line by line alone
_ALIGNED_BY = 1_000  # rows
_WORDS = 200  # characters of what the user said
_MOST_OF_FOLDED, _LEAST_OF_WORDS = 24, 12  # columns


def _session_texts(row: Mapping[str, Any], named: str = "session_id") -> tuple[str, ...]:
    counts, started = (row["input_tokens"], row["output_tokens"]), row["started_at"]
    known = [count for count in counts if count is not None]
    cost, seconds = row["cost_usd"], row["total_s"]
    return (
        printable(verdict_text(row), newline=" "),
        printable(row[named] or "–", newline=" "),
        printable(" ".join((row["first_input"] or "")[:_WORDS].split()) or "–"),
        printable(row["question_id"] or "–", newline=" "),
        printable(", ".join(row["agents"] or ()) or "–", newline=" "),
        "–" if started is None else started.isoformat(" ", "minutes"),
        *("–" if row[name] is None else str(row[name]) for name in ("turns", "tool_calls", "llm_calls")),
        str(sum(known)) if known else "–",
        "–" if cost is None else f"{cost:.6f}",
        "–" if seconds is None else f"{seconds:.2f}",
        str(row["errors"]),
        str(row["origin"]),
    )


def p_value_text(p_value: float | None) -> str:
    """Return a p-value with two digits; it is never 0."""
    if p_value is None:
        return "–"
    return "< 0.0001" if p_value < 0.0001 else f"{p_value:.2g}"
