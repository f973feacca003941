"""What functions return of values at their boundaries: `tests/cases/functions`, a file for each module.

A row has the arguments and the outcome; of a method, `Class.method`, the record is the first argument.
`WRITE_CASES=1 pytest tests/test_functions.py`, without `-n`, writes what comes out of the arguments that are
there, without the rows of functions that are gone: read the diff before you keep it.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cases import FOLDER
from functions import function_named, outcome

Rows = dict[str, list[list[Any]]]
FILES = sorted((FOLDER / "functions").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_functions_return_follows_from_their_arguments(file: Path) -> None:
    known: Rows = json.loads(file.read_text("utf-8"))
    if "WRITE_CASES" in os.environ:
        module = importlib.import_module(f"spangrade.{file.stem}")
        known = {name: rows for name, rows in known.items() if _has(module, name)}
    found = {
        name: [[given, outcome(function_named(f"{file.stem}:{name}"), given)] for given, _ in rows]
        for name, rows in known.items()
    }
    if "WRITE_CASES" in os.environ:
        file.write_text(written(found), "utf-8")
        known = found
    different = {
        f"{name}{row[0]}": [row[1], new[1]]
        for name, rows in known.items()
        for row, new in zip(rows, found[name], strict=True)
        if json.dumps(row[1]) != json.dumps(new[1])  # 1 is neither true nor 1.0
    }
    assert not different, json.dumps(different, indent=1, ensure_ascii=False)[:5000]


def _has(module: Any, name: str) -> bool:
    first, _, method = name.partition(".")
    return hasattr(getattr(module, first, None), method) if method else hasattr(module, first)


def written(rows: Rows) -> str:
    """Return rows as JSON, each on a line of its own."""
    parts = (
        f" {json.dumps(name)}: [\n"
        + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in of)
        + "\n ]"
        for name, of in rows.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"
