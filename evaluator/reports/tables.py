"""What many grades come to: totals, tables, JSON, rows for the store."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spangrade.evaluator.grading.grade import Grade
from spangrade.evaluator.grading.policy import Verdict, exit_code
from spangrade.evaluator.metrics import Inconclusive, Outcome, Score
from spangrade.evaluator.metrics.latency import nearest_rank
from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.errors import ExitCode, InputError

MOST_LISTED = 20  # grades of one verdict that the table tells the reasons of; the JSON Lines have them all

_TOLD = {  # the verdicts that the table tells the reasons of, the gravest first, and their colours
    Verdict.BROKEN: "magenta",
    Verdict.FAILED: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.UNMATCHED: "dim",
}


class ScoreRow(NamedTuple):
    """One outcome as a row of the table `scores`. `outcome` is "score", "inconclusive" or "failure"."""

    run_id: str
    session_id: str | None
    question_id: str | None
    metric: str
    value: float | None
    passed: bool | None
    outcome: str
    reason: str
    evidence: tuple[str, ...]


def score_rows(run_id: str, grade: Grade) -> Iterator[ScoreRow]:
    """The rows of one grade, one for each metric."""
    for name, outcome in grade.outcomes.items():
        key = (run_id, grade.session_id, grade.question_id, name)
        if isinstance(outcome, Score):
            yield ScoreRow(*key, outcome.value, outcome.passed, "score", outcome.reason, outcome.evidence)
        elif isinstance(outcome, Inconclusive):
            yield ScoreRow(*key, None, None, "inconclusive", outcome.reason, ())
        else:
            yield ScoreRow(*key, None, None, "failure", outcome.error, ())


def grade_json(grade: Grade) -> dict[str, Any]:
    """A grade as JSON values."""
    return {
        "session_id": grade.session_id,
        "question_id": grade.question_id,
        "verdict": grade.verdict.value,
        "reason": grade.reason,
        "metrics": {name: _outcome_json(outcome) for name, outcome in grade.outcomes.items()},
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Score):
        return {"outcome": "score", **outcome._asdict()}
    if isinstance(outcome, Inconclusive):
        return {"outcome": "inconclusive", "reason": outcome.reason}
    return {"outcome": "failure", "error": outcome.error}


@dataclass(slots=True)
class MetricTotals:
    """One metric over all grades."""

    values: array[float] = field(default_factory=lambda: array("d"))
    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    failures: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        if isinstance(outcome, Score):
            self.values.append(outcome.value)
            self.passed += outcome.passed is True
            self.failed += outcome.passed is False
        elif isinstance(outcome, Inconclusive):
            self.inconclusive += 1
        else:
            self.failures += 1

    def as_json(self) -> dict[str, Any]:
        """Mean and percentiles (nearest rank) of the scores, and the counts.

        `pass_rate` is the share of the scores that a threshold judged. What is of no score is null.
        """
        ordered = sorted(self.values)
        judged = self.passed + self.failed
        return {
            "scores": len(ordered),
            "mean": sum(ordered) / len(ordered) if ordered else None,
            "p50": nearest_rank(ordered, 0.5),
            "p95": nearest_rank(ordered, 0.95),
            "pass_rate": self.passed / judged if judged else None,
            "inconclusive": self.inconclusive,
            "failures": self.failures,
        }


class Report:
    """The totals of the grades added so far, at eight bytes a score, and the first that did not pass."""

    def __init__(self) -> None:
        self.verdicts: Counter[Verdict] = Counter()
        self.unanswered: list[str] = []
        self.metrics: dict[str, MetricTotals] = {}
        self._listed: dict[Verdict, list[Grade]] = {verdict: [] for verdict in _TOLD}
        self._unlisted: Counter[Verdict] = Counter()

    def add(self, grade: Grade) -> None:
        """Count one grade."""
        if grade.session_id is None:
            self.unanswered.append(grade.question_id or "")
        else:
            self.verdicts[grade.verdict] += 1
            for name, outcome in grade.outcomes.items():
                if name not in self.metrics:
                    self.metrics[name] = MetricTotals()
                self.metrics[name].add(outcome)
        if grade.verdict in _TOLD:
            if len(self._listed[grade.verdict]) < MOST_LISTED:
                self._listed[grade.verdict].append(grade._replace(outcomes={}))
            else:
                self._unlisted[grade.verdict] += 1

    @property
    def exit_code(self) -> ExitCode:
        """What the command line exits with."""
        unanswered = [Verdict.INCONCLUSIVE] if self.unanswered else []
        return exit_code([*self.verdicts, *unanswered])

    def line(self) -> str:
        """The totals in one line, as in `3 sessions: 2 passed, 1 failed; 1 golden question unanswered`."""
        total = self.verdicts.total()
        counts = ", ".join(
            f"{self.verdicts[verdict]} {verdict}" for verdict in Verdict if self.verdicts[verdict]
        )
        text = f"{_counted(total, 'session')}{': ' if counts else ''}{counts}"
        if self.unanswered:
            text += f"; {_counted(len(self.unanswered), 'golden question')} unanswered"
        return text

    def as_json(self) -> dict[str, Any]:
        """The totals as JSON values."""
        return {
            "sessions": self.verdicts.total(),
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "unanswered_questions": self.unanswered,
            "exit_code": int(self.exit_code),
            "metrics": {name: totals.as_json() for name, totals in self.metrics.items()},
        }

    def tables(self) -> RenderableType:
        """What did not pass and why, every metric's totals, and the line; to be printed by rich."""
        parts: list[RenderableType] = []
        if any(self._listed.values()):
            parts.append(self._grades_table())
        parts += [Text(f"and {number} more {verdict}") for verdict, number in self._unlisted.items()]
        if self.metrics:
            parts.append(self._metrics_table())
        return Group(*parts, Text(self.line()))

    def _grades_table(self) -> Table:
        table = Table("session", "question", "verdict", "reason")
        for grade in chain.from_iterable(self._listed.values()):
            table.add_row(
                _printable(grade.session_id or "–"),
                _printable(grade.question_id or "–"),
                Text(grade.verdict, _TOLD[grade.verdict]),
                _printable(grade.reason),
            )
        return table

    def _metrics_table(self) -> Table:
        table = Table("metric")
        columns = ("mean", "p50", "p95", "pass_rate", "scores", "inconclusive", "failures")
        for column in columns:
            table.add_column(column.replace("_", " "), justify="right")
        for name, totals in self.metrics.items():
            row = totals.as_json()
            table.add_row(name, *("–" if row[column] is None else f"{row[column]:.6g}" for column in columns))
        return table


def written(grades: Iterable[Grade], folder: Path) -> Iterator[Grade]:
    """Pass grades on, each also written to `folder/sessions.jsonl`. Raises `InputError` if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lines = (folder / "sessions.jsonl").open("wb")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error
    with lines:
        for grade in grades:
            lines.write(f"{dumps(grade_json(grade))}\n".encode())
            yield grade


def write_results(report: Report, folder: Path) -> None:
    """Write a report's totals to `folder/results.json`. Raises `InputError` if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(dumps(report.as_json(), indent=True), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _printable(text: str) -> Text:
    """Recorded text for a terminal: no markup, no control characters."""
    return Text("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text))
