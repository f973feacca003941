"""Datasets of any format, recognised by their content: golden JSON, ADK eval set, simulation CSV or JSONL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from pydantic import Field, StrictStr

from spangrade.converters.datasets.adk_evalset import questions_of
from spangrade.converters.datasets.files import condensed, refuse_device, separate
from spangrade.converters.datasets.golden import (
    GoldenDataset,
    GoldenQuestion,
    fields_of_questions,
    question_problems,
    taken_golden,
)
from spangrade.converters.datasets.golden_text import read_written
from spangrade.converters.datasets.recognized import is_evalset
from spangrade.converters.datasets.simulation_csv import (
    REQUIRED,
    Row,
    is_simulation_csv,
    read_csv,
    read_jsonl,
    spans_in,
)
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.semconv import CONVERSATION_ID
from spangrade.tracer.span import Problem, Span

_RECORDINGS = (".json", ".jsonl", ".ndjson", ".pb", ".gz")


class UnroutedQuestion(GoldenQuestion):
    """A question of a file that names no agents. `agents_evaluated` holds the app, and is not judged."""

    agents_evaluated: tuple[StrictStr, ...] = Field(default=())

    def reference(self, key: str) -> Any:
        """Return the reference under a key; None for `agents_evaluated`."""
        return None if key == "agents_evaluated" else super().reference(key)


class Dataset(NamedTuple):
    """The content of a file: questions, the spans of its own sessions, and the problems in it.

    `spans` is None for a format without sessions, whose questions are for the stored ones. `rows` are those
    of the sessions, by the id that each session gets from its spans.
    """

    questions: GoldenDataset
    spans: list[Span] | None
    problems: list[Problem]
    rows: Mapping[str, Row] = MappingProxyType({})

    @property
    def answers(self) -> dict[str, str]:
        """The ids of the questions that the rows say their sessions answer, by the sessions' ids."""
        known = {question.id for question in self.questions.golden_questions}
        return {name: row.question_id for name, row in self.rows.items() if row.question_id in known}

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that a row has a value in."""
        return frozenset(name for row in self.rows.values() for name in row.columns)


def read_dataset(path: Path) -> Dataset:
    """Return the content of a dataset file. Raises InputError if none of it can be used."""
    refuse_device(path)
    if is_simulation_csv(path):
        return _simulation(path, read_csv(path))
    if _is_interaction(path):
        return _simulation(path, read_jsonl(path))
    document, form = read_written(path, fields_of_questions)
    if is_evalset(document):
        records = questions_of(document, str(path))
        questions, problems = _questions((str(path), record, False) for record in records)
        return Dataset(_dataset(path, questions, problems), None, problems)
    return Dataset(taken_golden(document, str(path), form), None, [])


def find_dataset(folder: Path) -> tuple[Path, list[Path]]:
    """Return a folder's golden dataset and its recordings, sorted.

    The dataset is the one file named `golden.json` or `*_golden.json`; the recordings are all other JSON,
    JSON Lines, protobuf and gzip files in and below the folder. Raises InputError unless there is exactly
    one dataset and at least one recording.
    """
    if not folder.is_dir():
        raise InputError(
            f"{folder}: not a folder; a dataset is a folder with a *_golden.json and recorded spans"
        )
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix in _RECORDINGS and file.is_file() and not file.name.startswith(".")
    )
    golden = [file for file in files if file.name == "golden.json" or file.name.endswith("_golden.json")]
    if not golden:
        raise InputError(f"{folder}: no golden dataset; expected one file named golden.json or *_golden.json")
    if len(golden) > 1:
        names = ", ".join(str(file.relative_to(folder)) for file in golden)
        raise InputError(f"{folder}: {len(golden)} golden datasets ({names}); expected one")
    recordings = [file for file in files if file != golden[0]]
    if not recordings:
        raise InputError(
            f"{folder}: no recorded spans beside {golden[0].name}; expected .json, .jsonl or .pb files"
        )
    return golden[0], recordings


def _is_interaction(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            line = next((line for line in file if not line.isspace()), b"")
    except OSError:
        return False  # reported when the file is read as golden JSON
    if b'"session_trace"' not in line:
        return False
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return True  # one broken line; the others may be whole
    return isinstance(document, dict) and REQUIRED.issubset(document)


def _simulation(path: Path, rows: Iterable[Row | Problem]) -> Dataset:
    spans: list[Span] = []
    span_problems: list[Problem] = []
    sessions: list[tuple[str, Row]] = []
    unnamed = 0

    def records() -> Iterator[tuple[str, dict[str, Any] | Problem, bool]]:
        for row in rows:
            if isinstance(row, Problem):
                yield "", row, False
                continue
            nonlocal unnamed
            unnamed += row.recorded_id is None
            # Without a reference, agents_evaluated holds the app that was run.
            yield row.where, _question(row), bool(row.values.get("reference_data"))
            found, problems = separate(spans_in(row))
            spans.extend(found)
            span_problems.extend(problems)
            if found:
                sessions.append((_session_id(found), row))

    questions, problems = _questions(records())
    rejected = {problem.where for problem in problems}
    by_session: dict[str, Row] = {}
    for session_id, row in sessions:
        if row.where not in rejected and by_session.setdefault(session_id, row) is not row:
            first = by_session[session_id].where
            text = f'session "{session_id}" is that of {first} too, whose columns it is graded with'
            span_problems.append(Problem(row.where, text))
    if unnamed:
        text = (
            f"{counted(unnamed, 'row')} without a question_id: the number of the row is the id, as in row-1"
        )
        span_problems.append(Problem(str(path), text, dropped=False))
    problems = condensed([*problems, *span_problems])
    return Dataset(_dataset(path, questions, problems), spans, problems, by_session)


def _session_id(spans: Sequence[Span]) -> str:
    """Return the id of the session that is made of spans."""
    ids = (span.attributes.get(CONVERSATION_ID) for span in spans)
    return next((name for name in ids if isinstance(name, str) and name), spans[0].trace_id)


def _question(row: Row) -> dict[str, Any]:
    agents = row.values.get("agents_evaluated") or []
    return {
        "id": row.question_id,
        "user_inputs": row.values.get("user_inputs"),
        "agents_evaluated": agents,
        "metadata": row.values.get("question_metadata") or {},
        "reference_data": row.values.get("reference_data") or {},
    }


def _questions(
    records: Iterable[tuple[str, dict[str, Any] | Problem, bool]],
) -> tuple[list[GoldenQuestion], list[Problem]]:
    """Return the valid questions, each once, and the problems of the others.

    Each record comes with its place in the file, and whether the agents that it names are a reference.
    """
    found: dict[str, GoldenQuestion] = {}
    problems: list[Problem] = []
    for where, record, routed in records:
        if isinstance(record, Problem):
            problems.append(record)
            continue
        model = GoldenQuestion if routed else UnroutedQuestion
        if mistakes := question_problems(record, model):
            problems += (Problem(where, text) for text in mistakes)
            continue
        question = model.model_validate(record)
        if found.setdefault(question.id, question) != question:
            problems.append(Problem(where, f'id: "{question.id}" is also the id of another question'))
    return list(found.values()), problems


def _dataset(path: Path, questions: list[GoldenQuestion], problems: list[Problem]) -> GoldenDataset:
    if not questions:
        first = next((f"; the first problem: {p.where}: {p.message}" for p in problems), "")
        raise InputError(f"{path}: no question that can be graded{first}")
    return GoldenDataset(golden_questions=tuple(questions))
