"""All that each tool answers about three databases, in `tests/cases/mcp`: calls, as JSON, with their answers.

`WRITE_CASES=1 pytest tests/evaluator/mcp/test_whole_answers.py` writes it, to be read in the diff.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from case_database import labelled, some_values
from cases import FOLDER, compare
from made_once import copy_of
from many_sessions import two_hundred

import spangrade
from spangrade.evaluator.apps.mcp.tools import Tools
from spangrade.tracer.base.errors import SpangradeError

DATABASES = {"some_values": some_values, "labelled": labelled, "two_hundred": two_hundred}
# What differs from run to run.
CHANGING = (
    (re.compile(r"\b[0-9a-f]{32}\b|(?<=run\":\")[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"/\S*/(?=[\w-]+\.duckdb)"), ""),
    (re.compile(r"\b20(?!26-0[1-4])\d\d-\d\d-\d\d[ T]\d\d:\d\d(:[\d.]+)?(\+00:00|Z)?"), "TIME"),
)


def answered(tools: Tools, call: str) -> Any:
    """Return what a tool answers to a call, its name and its arguments, without what differs each time."""
    name, _, arguments = call.partition(" ")
    try:
        text = getattr(tools, name)(**json.loads(arguments or "{}"))
    except SpangradeError as error:
        text = json.dumps(f"{type(error).__name__}: {error}")
    for changing, word in CHANGING:
        text = changing.sub(word, text)
    return json.loads(text)


@pytest.mark.parametrize("database", DATABASES)
def test_a_tool_answers_what_it_is_to_answer(database: str, tmp_path: Path) -> None:
    made = DATABASES[database]()
    opened = spangrade.open(copy_of(made, tmp_path / made.name), settings=None)
    everything = Tools(opened, "ann", tmp_path / "golden.json", max_tokens=3000)
    small = Tools(opened, max_tokens=1000)
    file = FOLDER / "mcp" / f"{database}.json"
    found = {
        part: {call: answered(small if part == "small" else everything, call) for call in calls}
        for part, calls in json.loads(file.read_text("utf-8")).items()
    }
    compare(file, found)
