"""What was recorded stands in no message, log line or file with a traceback, of any command."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pytest
from command_line import Done, run
from every_command import COMMANDS, arguments, fill, leaves
from full_disks import full_disk
from made_once import copy_of, made_once
from typer.main import get_command

from spangrade.evaluator.cli.app import app

MARK = "canary7341"
METRIC = """
from spangrade import metric

@metric()
def mine(session):
    '''One.'''
    raise ValueError(session.turns[0].user_input)
"""
LEAVES = dict(leaves(get_command(app)))
# Names and ids may be named: of operations, agents, tools, models, conversations.
NAMES = ("name", "id", "model", "models", "system", "type", "key")


def marked(value: Any, key: str = "") -> Any:
    """Return a JSON value with the mark in each text that is not a name."""
    if isinstance(value, dict):
        return {name: marked(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [marked(inner, key) for inner in value]
    if not isinstance(value, str) or key.rpartition(".")[2].rpartition("_")[2] in NAMES:
        return value
    try:
        inside = json.loads(value)
    except ValueError:
        return f"{value} {MARK}"
    return json.dumps(marked(inside)) if isinstance(inside, dict | list) else f"{value} {MARK}"


def mark_database(path: Path) -> None:
    """Write the mark into what the spans of a database recorded, and derive its sessions again."""
    with duckdb.connect(str(path)) as connection:
        for column in ("attributes", "events", "links", "resource"):
            found = connection.execute(f"SELECT DISTINCT {column}::VARCHAR FROM spans").fetchall()
            for (text,) in found:
                new = json.dumps(marked(json.loads(text)))
                connection.execute(f"UPDATE spans SET {column} = ? WHERE {column}::VARCHAR = ?", [new, text])
        connection.execute(f"UPDATE spans SET status_message = '{MARK}', trace_state = '{MARK}'")
    assert run("doctor", "--derive-all", "--db", path, "--all").code == 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder, the current one and that of temporary files, with a database full of the mark."""

    def make(path: Path) -> None:
        copy_of(fill(tmp_path) / "s.duckdb", path)
        mark_database(path)

    made = made_once("marked", make)
    fill(tmp_path)
    copy_of(made, tmp_path / "s.duckdb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def silent_about_it(done: Done, folder: Path) -> bool:
    tracebacks = "".join(file.read_text() for file in folder.glob("spangrade-defect-*"))
    return not any(MARK in text for text in (*done.err, tracebacks))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("free_bytes", [None, 0])
@pytest.mark.short_form("free_bytes", 21)
def test_no_command_says_what_was_recorded(words, free_bytes, port, place) -> None:
    with mock.patch("sys.stdin", io.StringIO("p\nq\n")):
        if free_bytes is None:
            done = run(*arguments(words, LEAVES[words], port))
        else:
            with full_disk(free_bytes):
                done = run(*arguments(words, LEAVES[words], port))
    assert silent_about_it(done, place)


def test_no_word_is_said_of_a_value_that_a_query_cannot_convert(place) -> None:
    done = run("sql", "SELECT sum(user_input::INT) FROM turns", "--db", "s.duckdb")
    assert (done.code, len(done.err)) == (2, 1)
    assert "Could not convert string … to INT32" in done.err[0]
    assert silent_about_it(done, place)


@pytest.mark.parametrize("field", ["traceId", "startTimeUnixNano", "kind", "status", "attributes", "events"])
@pytest.mark.short_form("field", 2)
def test_no_word_is_said_of_a_record_that_cannot_be_read(field, place) -> None:
    span = {"traceId": "1" * 32, "spanId": "1" * 16, "startTimeUnixNano": "1", field: MARK}
    file = place / "broken.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    done = run("import", file, "--db", "s.duckdb")
    assert (done.code, len(done.err) > 0) == (2, True)
    assert silent_about_it(done, place)


@pytest.mark.parametrize("column", ["agents", "tags", "state_variables"])
@pytest.mark.parametrize("command", [("show", "conversation-1"), ("grade", "golden.json"), ("sessions",)])
@pytest.mark.short_form("command", 3)
def test_no_word_is_said_of_a_stored_value_that_cannot_be_read(column, command, place) -> None:
    with duckdb.connect("s.duckdb") as connection:
        connection.execute(f"UPDATE derived.sessions SET {column} = '{MARK}'")
    assert silent_about_it(run(*command, "--db", "s.duckdb"), place)


def test_no_word_is_said_of_what_a_metric_raises(place) -> None:
    (place / "theirs.py").write_text(METRIC)
    done = run("grade", "--metrics-file", "theirs.py", "--metric", "mine", "--db", "s.duckdb")
    assert done.code == 3
    assert silent_about_it(done, place)
