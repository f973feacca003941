"""The report files of a run beside its results.json and sessions.jsonl."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from spangrade.converters.datasets.files import create, create_text, writing
from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.evaluator.grading.prepare import Prepared
from spangrade.evaluator.grading.run import Grade, Run
from spangrade.evaluator.grading.run_details import RunDetails, details_json
from spangrade.evaluator.grading.stored_run import expectations
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.reports.csv import write_csv
from spangrade.evaluator.reports.facts import SessionFacts, facts_lines
from spangrade.evaluator.reports.json import grade_line, places_text, write_results, written
from spangrade.evaluator.reports.junit import write_junit
from spangrade.evaluator.reports.kinds import ALL_REPORTS, Report
from spangrade.evaluator.reports.markdown import markdown, sessions_shown
from spangrade.evaluator.reports.summary import (
    Graded,
    MeansByKey,
    is_judged,
    question_summary,
    summary_head,
    write_summary,
)
from spangrade.evaluator.session import Session

_OF_FACTS = frozenset({Report.CSV, Report.SUMMARY})


class SliceReports:
    """What the reports need of a slice of the sessions: the lines of `sessions.jsonl`, and of the facts."""

    def __init__(self, *, with_facts: bool) -> None:
        self.with_facts = with_facts
        self.lines = bytearray()
        self.facts = bytearray()

    def sessions(self, sessions: Iterable[Session]) -> Iterator[Session]:
        """Yield the sessions that are graded, and note the facts of each if reports need them."""
        for session in sessions:
            if self.with_facts:
                self.facts += facts_lines(session)
            yield session

    def grades(self, grades: Iterable[Grade]) -> Iterator[Grade]:
        """Yield their grades, and note the line of each."""
        for grade in grades:
            self.lines += grade_line(grade)
            yield grade


class Reports(SessionFacts):
    """Writes the wanted reports of a grade in a folder, as it goes on and when it is done.

    `write_html` writes report.html of a run, given its id, in any process.
    """

    def __init__(
        self,
        folder: Path,
        wanted: Collection[Report] = ALL_REPORTS,
        write_html: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._write_html = write_html
        self._folder = folder
        self._wanted = wanted
        self._with_facts = not _OF_FACTS.isdisjoint(wanted)
        self._has_slices = False

    def sessions(self, sessions: Iterable[Session]) -> Iterator[Session]:
        """Yield the sessions that are graded, and write down the facts of each that reports need."""
        return self.noted(sessions) if self._with_facts else iter(sessions)

    def grades(self, grades: Iterable[Grade]) -> Iterator[Grade]:
        """Yield their grades, each also written to `sessions.jsonl`."""
        return written(grades, self._folder)

    def of_slice(self) -> SliceReports:
        """Return the object that collects, in another process, what the reports need of a slice."""
        return SliceReports(with_facts=self._with_facts)

    def add_slice(self, seen: SliceReports) -> None:
        """Write what a slice noted, after the slices before it. Raises InputError if it cannot be written."""
        self.add(seen.facts)
        file = self._folder / "sessions.jsonl"
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with file.open("ab") if self._has_slices else create(file) as lines:
                lines.write(seen.lines)
        self._has_slices = True

    def finish(self, run: Run, prepared: Prepared, details: RunDetails, in_order: InOrder) -> None:
        """Write the other reports of the run."""
        questions = prepared.questions
        expected = expectations(questions.golden_questions)
        about = {"run_id": run.run_id, **details_json(details, expected)}
        write_results(run, self._folder, about)
        at = datetime.now(UTC)

        def parts() -> Iterator[Callable[[], None]]:
            """Yield what any process may write; the rest is written here, while they do."""
            if Report.HTML in self._wanted and self._write_html is not None:
                yield partial(self._write_html, run.run_id)
            if Report.JUNIT in self._wanted:
                yield partial(_write_junit, run.without_scores(), self._folder, at)
            here = set(self._wanted) - {Report.JUNIT}
            write_reports(run, self._folder, questions, self, at, prepared.metrics, here)

        deque(in_order(operator.call, parts()), maxlen=0)


def _write_junit(run: Run, folder: Path, at: datetime) -> None:
    with writing(folder):
        write_junit(run, _lines(folder / "sessions.jsonl"), folder / "junit.xml", at)


def write_reports(
    run: Run,
    folder: Path,
    dataset: GoldenDataset,
    facts: SessionFacts,
    at: datetime,
    metrics: Iterable[Metric] = (),
    wanted: Collection[Report] = ALL_REPORTS,
) -> None:
    """Write the wanted reports of a run, but report.html, to a folder that has its sessions.jsonl.

    `facts` are those of the sessions, in the order of their grades, `metrics` the requested ones, `at` is the
    run's time. The sessions are read one by one, so that a large run is never held whole. Raises InputError
    if a file cannot be written.
    """
    file = folder / "sessions.jsonl"
    with writing(folder):
        if Report.JUNIT in wanted:
            _write_junit(run, folder, at)
        if Report.MARKDOWN in wanted:
            create_text(folder / "summary.md", markdown(run, _places(run, file)))
        if Report.CSV in wanted:
            write_csv(run, _with_columns(file, dataset, facts), folder / "evaluation_results.csv")
        if Report.SUMMARY in wanted:
            _write_summary(run, file, dataset, facts, at, metrics)


def _places(run: Run, file: Path) -> dict[str, str]:
    """Return where the gates of the sessions that did not pass failed, by the sessions' ids."""
    shown = {one.session_id for one in sessions_shown(run)} - {None}
    if not shown:
        return {}
    with file.open("rb") as lines:
        graded = [
            orjson.loads(line)
            for one, line in zip(run.sessions, lines, strict=False)
            if one.session_id in shown
        ]
    return {line["session_id"]: places_text(line) for line in graded}


def _write_summary(
    run: Run, file: Path, dataset: GoldenDataset, facts: SessionFacts, at: datetime, metrics: Iterable[Metric]
) -> None:
    deterministic, judged = MeansByKey(), MeansByKey()
    places: dict[str, list[tuple[int, int]]] = {}
    each = facts.measured()
    for place, line in _sessions(file):
        fact_place, measured = _next_of(line, each)
        deterministic.add(measured["deterministic_metrics"])
        judged.add({"": {name: one["value"] for name, one in line["metrics"].items() if is_judged(one)}})
        if line["question_id"] is not None:
            places.setdefault(line["question_id"], []).append((place, fact_place))
    means = {key.removeprefix("."): mean for key, mean in judged.means().items()}
    with file.open("rb") as lines:
        questions = (
            question_summary(question, [_graded(lines, facts, *both) for both in places.get(question.id, ())])
            for question in dataset.golden_questions
        )
        head = summary_head(run, metrics, deterministic, means, at)
        write_summary(head, questions, file.with_name("eval_summary.json"))


def _graded(lines: BinaryIO, facts: SessionFacts, place: int, fact_place: int) -> Graded:
    lines.seek(place)
    return orjson.loads(lines.readline()), facts.at(fact_place)["deterministic_metrics"]


def _with_columns(
    file: Path, dataset: GoldenDataset, facts: SessionFacts
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each line of sessions.jsonl with the columns of its question and its session."""
    agents = {question.id: question.agents_evaluated for question in dataset.golden_questions}
    each = facts.columns()
    for line in _lines(file):
        columns = {} if line["session_id"] is None else _next_of(line, each)[1]
        yield line, {"agents_evaluated": agents.get(line["question_id"]), **columns}


def _next_of(
    line: Mapping[str, Any], facts: Iterator[tuple[int, dict[str, Any]]]
) -> tuple[int, dict[str, Any]]:
    """Return the facts of a graded session, past those of sessions that were read and not graded."""
    return next(one for one in facts if one[1]["session_id"] == line["session_id"])


def _sessions(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the position and the values of each line that is of a session."""
    position = 0
    with file.open("rb") as lines:
        for line in lines:
            graded = orjson.loads(line)
            if graded["session_id"] is not None:
                yield position, graded
            position += len(line)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)
