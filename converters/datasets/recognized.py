"""Which tool made a file of questions, by its content."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.files import load_json
from spangrade.converters.spans.values import either
from spangrade.tracer.base.errors import InputError

_EXPECTED = "expected a file of promptfoo, Inspect, DeepEval or ADK, a golden file or a conversation log"


def tool_of(path: Path) -> str:
    """Return `promptfoo`, `inspect`, `deepeval`, `adk` (an eval set, or golden questions) or `log`.

    Raises InputError for a file that none of them makes.
    """
    if (tool := tool_of_content(_content(path))) is None:
        raise InputError(f"{path}: {_EXPECTED}")
    return tool


def is_evalset(document: Any) -> bool:
    """Return whether a JSON document is an ADK eval set, or a list of eval cases in its old form."""
    if isinstance(document, list):
        return any(isinstance(case, dict) and isinstance(case.get("data"), list) for case in document)
    return isinstance(document, dict) and isinstance(either(document, "eval_cases"), list)


def _first(content: Any) -> Mapping[str, Any]:
    """Return the first record of a list, or a document itself; empty if it is none."""
    first = content[0] if isinstance(content, list) and content else content
    return first if isinstance(first, dict) else {}


class KnownForm(NamedTuple):
    """A form of a file of questions: its name, what it is, and whether content has it."""

    name: str
    what: str
    fits: Callable[[Any], bool]


# The first that fits is the form of a file.
FORMS = (
    KnownForm(
        "promptfoo",
        "promptfoo's configuration, YAML or JSON, with `tests` or `prompts`",
        lambda content: (
            isinstance(content, dict)
            and (isinstance(content.get("tests"), list | str) or "prompts" in content)
        ),
    ),
    KnownForm(
        "adk",
        "an eval set of Google ADK, with `eval_cases`; golden questions, which become an eval set",
        lambda content: (
            is_evalset(content)
            or (isinstance(content, dict) and "golden_questions" in content)
            or ("query" not in _first(content) and either(_first(content), "eval_id") is not None)
        ),
    ),
    KnownForm(
        "log",
        "a conversation log: a list of turns, each with `query`",
        lambda content: "query" in _first(content),
    ),
    KnownForm(
        "inspect",
        "a dataset of Inspect, JSON, JSON Lines or CSV, with `input` and `target`",
        lambda content: {"input", "target"} <= _first(content).keys(),
    ),
    KnownForm(
        "deepeval",
        "goldens of DeepEval, JSON, JSON Lines or CSV, with `expected_output` or `goldens`",
        lambda content: (
            isinstance(_first(content).get("goldens"), list)
            or bool({"expected_output", "actual_output", "expected_outcome"} & _first(content).keys())
        ),
    ),
)


def tool_of_content(content: Any) -> str | None:
    """Return the name of the form of questions, given as JSON; None for any other."""
    return next((form.name for form in FORMS if form.fits(content)), None)


def _content(path: Path) -> Any:
    """Return the content of a file, of many lines or rows the first."""
    if path.suffix in (".yaml", ".yml"):
        return {"tests": []}  # of these tools only promptfoo has such a file
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8-sig") as file:
            return [row for row, _ in zip(csv.DictReader(file), range(1), strict=False)]
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8-sig") as file:
            try:
                return [json.loads(next((line for line in file if line.strip()), "{}"))]
            except ValueError:
                raise InputError(f"{path}: {_EXPECTED}") from None
    return load_json(path)
