"""All that commands print of three databases, in `tests/cases/commands`.

`WRITE_CASES=1 pytest tests/evaluator/cli/test_whole_output.py` writes it, to be read in the diff.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from case_database import every_value, labelled
from cases import FOLDER
from command_line import Spangrade
from made_once import copy_of
from many_sessions import two_hundred

DATABASES = {"every_value": every_value, "labelled": labelled, "two_hundred": two_hundred}
# What differs from run to run.
CHANGING = (
    (re.compile(r"\b[0-9a-f]{32}\b|(?<=run )[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"\b20(?!26-0[1-4])\d\d-\d\d-\d\d[ T]\d\d:\d\d(:[\d.]+)?(\+00:00|Z)?"), "TIME"),
    (re.compile(r"\S*/(?=[\w-]+\.duckdb)"), ""),
    (re.compile(r"\b\d+ (s|min|h) ago"), "AGO"),
    (re.compile(r"\b(\d[\d.]* (ms|s) of \w+|in \d[\d.]* (ms|s|min))\b"), "TOOK"),
)
MOST_LINES = 250

LINES: Mapping[str, Mapping[str, str]] = {
    "every_value": {
        "sessions": "sessions --limit 12",
        "sessions_csv": "sessions --limit 5 --format csv --sort cost",
        "sessions_json": "sessions --limit 2 --format json --failed",
        "sessions_markdown": "sessions --limit 5 --format markdown --where 'cost_usd > 0.001'",
        "show": "show conv-17",
        "show_json": "show conv-44 --format json",
        "show_why": "show conv-128 --why",
        "compare": "compare before after",
        "compare_json": "compare before after --format json",
        "trend": "trend cost --by version",
        "trend_json": "trend passed --format json",
        "lint": "lint",
        "lint_json": "lint --format json",
        "sql": "sql 'SELECT verdict, count(*) AS n FROM verdicts GROUP BY 1 ORDER BY 1'",
        "no_such_session": "show none",
        "no_such_run": "compare none after",
    },
    "labelled": {
        "judge": "judge tool_success_rate",
        "judge_json": "judge tool_success_rate --format json",
        "judge_all": "judge tool_success_rate --all",
        "labelled_sessions": "sessions --limit 6",
        "labelled_trend": "trend tool_success_rate",
        "labelled_show": "show s03",
    },
    "two_hundred": {
        "many_sessions": "sessions --limit 10 --where model:gpt-5",
        "many_compare": "compare run-1 run-2",
        "many_compare_markdown": "compare run-1 run-2 --format markdown",
        "many_runs": "runs",
        "many_trend": "trend cost",
        "many_trend_passed": "trend passed --by model",
        "many_failed": "show run-1",
    },
}


def compared(title: str, found: str) -> list[str]:
    for changing, word in CHANGING:
        found = changing.sub(word, found)
    file = FOLDER / "commands" / f"{title}.txt"
    if "WRITE_CASES" in os.environ:
        file.parent.mkdir(exist_ok=True)
        file.write_text(found, "utf-8")
    known = file.read_text("utf-8").splitlines()
    return [*difflib.unified_diff(known, found.splitlines(), title, "found", n=1, lineterm="")]


@pytest.mark.parametrize("database", LINES)
def test_a_command_prints_what_it_is_to_print(database: str, spangrade: Spangrade, tmp_path: Path) -> None:
    made = DATABASES[database]()
    db = copy_of(made, tmp_path / made.name)  # a command may lock it, while another test reads it
    different: list[str] = []
    for title, line in LINES[database].items():
        words = [one.strip("'") for one in re.findall(r"'[^']*'|\S+", line)]
        done = spangrade(*words, "--db", db)
        text = "\n".join([f"exit {done.code}", *done.out[:MOST_LINES], *(f"! {one}" for one in done.err)])
        different += compared(title, text + "\n")
    assert not different, "\n".join(different[:80])
