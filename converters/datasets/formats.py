"""What a dataset file is, found from what is in it: golden JSON, ADK eval set, simulation CSV or JSONL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import Field, StrictStr

from spangrade.converters.datasets.adk_evalset import is_evalset, questions_of
from spangrade.converters.datasets.golden import (
    GoldenDataset,
    GoldenQuestion,
    golden_of,
    load_json,
    question_problems,
)
from spangrade.converters.datasets.simulation_csv import (
    REQUIRED,
    Row,
    is_simulation_csv,
    read_csv,
    read_jsonl,
    spans_in,
)
from spangrade.tracer.errors import InputError
from spangrade.tracer.span import Problem, Span


class UnroutedQuestion(GoldenQuestion):
    """A question of a file that names no agents. What stands in their place is the app, and not judged."""

    agents_evaluated: tuple[StrictStr, ...] = Field(default=())

    def reference(self, key: str) -> Any:
        """What is expected under a key; of `agents_evaluated`, nothing."""
        return None if key == "agents_evaluated" else super().reference(key)


class Dataset(NamedTuple):
    """What a file holds: questions, the spans of the sessions that it brings along, and what was wrong.

    `spans` is None for a format that brings no sessions: those that are stored are meant.
    """

    questions: GoldenDataset
    spans: list[Span] | None
    problems: list[Problem]


def read_dataset(path: Path) -> Dataset:
    """Return what a dataset file holds. Raises InputError for one that cannot be used at all."""
    if path.suffix == ".csv" or is_simulation_csv(path):
        return _simulation(path, read_csv(path))
    if _is_interaction(path):
        return _simulation(path, read_jsonl(path))
    document = load_json(path)
    if is_evalset(document):
        records = questions_of(document, str(path))
        questions, problems = _questions((str(path), record, False) for record in records)
        return Dataset(_dataset(path, questions, problems), None, problems)
    return Dataset(golden_of(document, str(path)), None, [])


def _is_interaction(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            line = next((line for line in file if not line.isspace()), b"")
    except OSError:
        return False  # to be said of the file as golden JSON, which most are
    if b'"session_trace"' not in line:
        return False
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return True  # one broken line; the others may be whole
    return isinstance(document, dict) and REQUIRED.issubset(document)


def _simulation(path: Path, rows: Iterable[Row | Problem]) -> Dataset:
    spans: list[Span] = []
    lost: list[Problem] = []

    def asked() -> Iterator[tuple[str, dict[str, Any] | Problem, bool]]:
        for row in rows:
            if isinstance(row, Problem):
                yield "", row, False
                continue
            # Without a reference beside it, what stands under agents_evaluated is the app that was run.
            yield row.where, _question(row), bool(row.values.get("reference_data"))
            for span in spans_in(row):
                if isinstance(span, Problem):
                    lost.append(span)
                else:
                    spans.append(span)

    questions, problems = _questions(asked())
    problems += lost
    return Dataset(_dataset(path, questions, problems), spans, problems)


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
    """Return the questions that are valid, each once, and the problems of the others.

    A record comes with where it stands, and whether the agents that it names are a reference.
    """
    found: dict[str, GoldenQuestion] = {}
    problems: list[Problem] = []
    for where, record, routed in records:
        if isinstance(record, Problem):
            problems.append(record)
            continue
        model = GoldenQuestion if routed else UnroutedQuestion
        if wrong := question_problems(record, model):
            problems += (Problem(where, text) for text in wrong)
            continue
        question = model.model_validate(record)
        if found.setdefault(question.id, question) != question:
            problems.append(Problem(where, f'id: "{question.id}" is taken by a question of other content'))
    return list(found.values()), problems


def _dataset(path: Path, questions: list[GoldenQuestion], problems: list[Problem]) -> GoldenDataset:
    if not questions:
        first = next((f"; the first problem: {p.where}: {p.message}" for p in problems), "")
        raise InputError(f"{path}: no question in it that can be graded{first}")
    return GoldenDataset(golden_questions=tuple(questions))
