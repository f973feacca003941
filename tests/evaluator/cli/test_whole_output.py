"""All that commands print of databases, in `tests/cases/commands`, and by lines in `tests/cases/lines`.

`WRITE_CASES=1 pytest tests/evaluator/cli/test_whole_output.py` writes it, to be read in the diff. A new line
is a key of `tests/cases/lines` with `null`. Those of a story are run one after another in one folder.
"""

from __future__ import annotations

import difflib
import io
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from case_database import every_value, labelled, some_values
from cases import FOLDER, compare
from command_line import Done, Spangrade
from every_command import fill
from made_once import copy_of
from many_sessions import two_hundred
from paths import ROOT

DATABASES = {"every_value": every_value, "labelled": labelled, "two_hundred": two_hundred}
# What differs from run to run.
CHANGING = (
    (re.compile(r"\b[0-9a-f]{32}\b|(?<=run )[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"\b20(?!26-0[1-4])\d\d-\d\d-\d\d[ T]\d\d:\d\d(:[\d.]+)?(\+00:00|Z)?"), "TIME"),
    (re.compile(r"\S*/(?=[\w-]+\.duckdb)"), ""),
    (re.compile(r"\b\d+ (s|min|h) ago"), "AGO"),
    (re.compile(r"(?<=\"prices_version\": )\"[\d.]+\""), "VERSION"),
    (re.compile(r"(python -m pytest|pytest|__main__.py)\.spangrade"), "spangrade"),
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


# Of what a command makes: sizes and ids.
OF_STORIES = (
    (re.compile(r"\b\d+\.\d (?=MB\b)"), "SIZE "),
    (re.compile(r"(?<=q-)[0-9a-f]{6,8}\b|(?<=[a-z]-)[0-9a-f]{8}\b|(?<=answer@)[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"(?<![.\w])[0-9a-f]{16}\b|(?<=│ )[0-9a-f]{8}(?= │)"), "ID"),
)
OF_OPTIONS = {"some_values": some_values, "labelled": labelled, "two_hundred": two_hundred}
WHOLE = 110  # lines of what one of the lines prints


def printed(
    done: Done, folder: Path, changing: Iterable[tuple[re.Pattern[str], str]] = CHANGING
) -> list[str]:
    """Return the exit code and the lines that a command printed, without what differs from run to run."""
    text = "\n".join([f"exit {done.code}", *done.out[:WHOLE], *(f"! {one}" for one in done.err[:WHOLE])])
    text = text.replace(f"{folder}/", "").replace(f"{ROOT}/", "")
    for pattern, word in changing:
        text = pattern.sub(word, text)
    return text.splitlines()


@pytest.mark.parametrize("database", OF_OPTIONS)
def test_each_option_changes_what_is_printed(database: str, spangrade: Spangrade, tmp_path: Path) -> None:
    made = OF_OPTIONS[database]()
    db = copy_of(made, tmp_path / made.name)
    file = FOLDER / "lines" / f"{database}.json"
    found = {
        command: {
            line: printed(spangrade(command, *shlex.split(line), "--db", db), tmp_path) for line in lines
        }
        for command, lines in json.loads(file.read_text("utf-8")).items()
    }
    compare(file, found)


@pytest.mark.parametrize("file", sorted((FOLDER / "lines").glob("story_*.json")), ids=lambda file: file.stem)
def test_a_story_of_commands_leaves_what_it_is_to_leave(
    file: Path, spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of a file, in their order, in a folder with the sample, two runs of it and labels.

    What is in a folder of the file's name is there, too.
    """
    monkeypatch.chdir(fill(tmp_path))
    for more in file.with_suffix("").glob("*.*"):  # and no folder of bytecode
        shutil.copy(more, tmp_path)
    monkeypatch.setenv("SPANGRADE_DB", "s.duckdb")
    found: dict[str, dict[str, list[str]]] = {}
    for part, lines in json.loads(file.read_text("utf-8")).items():
        found[part] = {}
        for line in lines:
            monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
            done = spangrade(*shlex.split(line))
            found[part][line] = printed(done, tmp_path, (*CHANGING, *OF_STORIES))
    compare(file, found)
