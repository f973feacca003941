"""Writing golden datasets: what is there is kept, and a file is either the old or the new one, never half."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spangrade.converters.golden import GoldenDataset, golden_of, load_json
from spangrade.tracer.errors import InputError


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


def append(path: Path, questions: Iterable[Mapping[str, Any]]) -> int:
    """Write questions after those that a golden file has, if there is one; return how many it holds then.

    Raises InputError, with the file as it was, for one that is something else, and for a question that is
    not valid or has an id that is taken.
    """
    raw, _ = existing(path)
    document = {**raw, "golden_questions": [*raw["golden_questions"], *questions]}
    if document["golden_questions"]:
        golden_of(document, str(path))
    write(path, document)
    return len(document["golden_questions"])


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
