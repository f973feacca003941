"""Writing golden datasets: what is there is kept, and a file is either the old or the new one, never half."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spangrade.converters.datasets.golden import GoldenDataset, golden_of, load_json, question_problems
from spangrade.tracer.errors import InputError
from spangrade.tracer.span import Problem


def existing(path: Path) -> tuple[Any, GoldenDataset | None]:
    """Return the golden dataset that a file holds, as it stands and as models; without a file, an empty one.

    Raises InputError for a file that is no golden dataset: nothing else is ever written over.
    """
    if not path.exists():
        return {"golden_questions": []}, None
    raw = load_json(path)
    if isinstance(raw, dict) and raw.get("golden_questions") == []:
        return raw, None
    try:
        return raw, golden_of(raw, str(path))
    except InputError as error:
        raise InputError(f"{error}\n{path}: not a golden dataset, so it is left as it is") from error


def append(path: Path, questions: Iterable[Mapping[str, Any]]) -> tuple[int, list[Problem]]:
    """Write those questions that are valid and have a new id after those that a golden file has.

    Return how many that were, what was wrong with the others, and which ask what another one asks. Raises
    InputError as `existing` does, with the file as it was.
    """
    raw, dataset = existing(path)
    known = dataset.golden_questions if dataset else ()
    by_id = {question.id for question in known}
    by_inputs = {question.user_inputs: question.id for question in known}
    added: list[Mapping[str, Any]] = []
    problems: list[Problem] = []
    for question in questions:
        where = f'{path}: id "{question["id"]}"'
        wrong = ["it is taken"] if question["id"] in by_id else question_problems(question)
        problems += (Problem(where, text) for text in wrong)
        if wrong:
            continue
        alike = by_inputs.setdefault(tuple(question["user_inputs"]), question["id"])
        if alike != question["id"]:
            text = f'asks the same as "{alike}"; a session that fits both is inconclusive'
            problems.append(Problem(where, text, dropped=False))
        by_id.add(question["id"])
        added.append(question)
    if added:
        write(path, {**raw, "golden_questions": [*raw["golden_questions"], *added]})
    return len(added), problems


def write_new(path: Path, document: Any) -> None:
    """Write a JSON document to a file that is not there yet. Raises InputError if that cannot be."""
    if path.exists():
        raise InputError(f"{path}: is there already, so it is left as it is; name another --output")
    write(path, document)


def write(path: Path, document: Any) -> None:
    """Write a JSON document in place of a file, at once. Raises InputError if that cannot be."""
    replace(path, json.dumps(document, indent=4, ensure_ascii=False) + "\n")


def replace(path: Path, text: str) -> None:
    """Write a text in place of a file, at once. Raises InputError if that cannot be."""
    target = path.resolve()  # a link stays one
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)
