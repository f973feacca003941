"""Which tool made a file of questions, by its content."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

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


def tool_of_content(content: Any) -> str | None:
    """Return the tool that made questions, given as JSON, by the names of `tool_of`; None for any other."""
    if isinstance(content, dict):
        if isinstance(content.get("tests"), list | str) or "prompts" in content:
            return "promptfoo"
        if is_evalset(content) or "golden_questions" in content:
            return "adk"
        if isinstance(content.get("goldens"), list):
            return "deepeval"
        content = [content]
    elif is_evalset(content):
        return "adk"
    first = content[0] if isinstance(content, list) and content else None
    if isinstance(first, dict):
        if "query" in first:
            return "log"
        if {"input", "target"} <= first.keys():
            return "inspect"
        if {"expected_output", "actual_output", "expected_outcome"} & first.keys():
            return "deepeval"
        if either(first, "eval_id") is not None:
            return "adk"
    return None


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
