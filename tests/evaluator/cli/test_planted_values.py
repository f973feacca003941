"""Values that someone planted in the stored runs and scores end a command in one line, not in a defect."""

from __future__ import annotations

import io
import tempfile
from contextlib import suppress
from pathlib import Path
from unittest import mock

import duckdb
import pytest
from command_line import run
from every_command import graded
from hypothesis import given, settings
from hypothesis import strategies as st
from made_once import copy_of, made_once
from paths import SAMPLE
from short_form import examples

import spangrade

GOLDEN = SAMPLE / "customer_service_golden.json"
# A value of every column that a command parses, and what is said of it.
PLANTED = {
    ("runs.run_id", "'x'"): "runs with the id 'x': expected one",
    ("runs.thresholds", "'[1]'"): "'[1]' in runs.thresholds: expected an object such as",
    ("runs.thresholds", '\'{"cost": "<= x"}\''): "in runs.thresholds: expected an object such as",
    ("runs.tags", "'{\"a\": []}'"): "in runs.tags: expected an object of texts",
    ("scores.evidence", "'{}'"): "'{}' in scores.evidence: expected a list of span ids or places",
    ("scores.evidence", "'x'"): "'x' in scores.evidence: expected a list of span ids or places",
    ("scores.source", "'x'"): "'x' in scores.source: expected one of run, person, trace, program",
    ("runs.metrics", "[NULL]"): "None in runs.metrics: expected a list of texts",
    ("runs.metrics_files", "[NULL]"): "None in runs.metrics_files: expected a list of texts",
    ("runs.without_references", "[NULL]"): "None in runs.without_references: expected a list of texts",
    ("run_metrics.highest", "'nan'"): "nan in run_metrics.highest: expected a number",
    (
        "derived.sessions.agents",
        "'x'",
    ): "a value in derived.sessions.agents: expected JSON: `spangrade doctor --derive-all",
    ("derived.sessions.agents", "'[1]'"): "a value in derived.sessions.agents: expected a list of texts",
    (
        "derived.sessions.state_variables",
        "'[]'",
    ): "a value in derived.sessions.state_variables: expected an object",
    (
        "schema_version.version",
        str(-(2**31)),
    ): "schema -2147483648, expected 11 to ",
    ("golden_questions.question", "'[]'"): "a value in golden_questions.question: expected an object",
}


def ids(path: Path) -> list[str]:
    return [str(row["session_id"]) for row in spangrade.open(path).list_sessions().rows()]


def commands(session: str) -> list[tuple[str, ...]]:
    return [
        ("sessions",), ("show", session), ("runs",), ("compare", "first", "second"),
        ("grade", "--dry-run", "--of-run", "first"),
        ("view", "--export", "pages"), ("label", "--by", "x"), ("trend", "token_usage"),
    ]  # fmt: skip


OTHERS = (
    ("audit", str(GOLDEN)), ("show", "first"), ("judge", "token_usage"),
    ("serve", "--only", "grade", "--once", "--metric", "token_usage<=1000000"), ("grade", str(GOLDEN)),
)  # fmt: skip


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.short_form("value", 3)
def test_a_planted_score_that_is_not_finite_is_shown(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    planted = copy_of(made_once("graded", graded), tmp_path / "s.duckdb")
    with duckdb.connect(str(planted)) as connection:
        connection.execute("UPDATE scores SET value = ?::DOUBLE WHERE run_id IS NOT NULL", [value])
    for command in (("show", ids(planted)[0]), ("view", "--export", "pages"), ("compare", "first", "second")):
        assert run(*command, "--db", planted).code in {0, 4}


@pytest.mark.exhaustive
@pytest.mark.short_form("column", 8)
@pytest.mark.parametrize(("column", "value"), PLANTED)
@pytest.mark.short_form("value", 2)
def test_a_planted_value_is_one_line_that_names_its_column(
    column: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    planted = copy_of(made_once("graded", graded), tmp_path / "s.duckdb")
    table, _, name = column.rpartition(".")
    with duckdb.connect(str(planted)) as connection:
        connection.execute(f"UPDATE {table} SET {name} = {value}")
    refused = set()
    for command in commands("conversation-1"):
        with mock.patch("sys.stdin", io.StringIO("q\n")):
            done = run(*command, "--db", planted)
        assert done.code in {0, 1, 2, 4}, (command, done.err)
        if done.code == 2:
            refused.update(done.err)
            assert len(done.err) == 1, (command, done.err)
    assert any(PLANTED[column, value] in line for line in refused)


@pytest.mark.exhaustive
def test_any_text_of_an_argument_or_an_answer_is_taken_or_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_of(made_once("graded", graded), tmp_path / "s.duckdb")
    texts = ("\x1b[31mx\x07", "a\x00b", "a\u202eb", "\udc80", "", "../../../etc/passwd", "null")
    for text in texts:
        for command in (
            ("label", "--by", text), ("label", text, "pass", "--by", "x"), ("judge", text, "--again"),
            ("label", "conversation-1", "pass", "--by", text), ("judge", text),
        ):  # fmt: skip
            with mock.patch("sys.stdin", io.StringIO(f"{text}\nq\n")):
                done = run(*command, "--db", "s.duckdb")
            assert done.code in {0, 2, 4}, (command, done.err)
            shown = "".join(done.out + done.err)
            assert not any(character in shown for character in "\x1b\x07\x00\u202e"), command


# Values that a column of a type can have and that no command writes.
VALUES = {
    "VARCHAR": ("'x'", "NULL", "''", "'[1]'", """'{"a": [1e999]}'""", "repeat('[', 2000)", "'\u202e\x01'"),
    "JSON": ("NULL", "'null'", "'[]'", "'{}'", "'\"x\"'", """'[[{"a":null}]]'""", "'1e308'"),
    "BIGINT": ("NULL", str(-(2**63)), str(2**63 - 1)),
    "INTEGER": ("NULL", str(-(2**31)), str(2**31 - 1)),
    "DOUBLE": ("NULL", "'nan'", "'inf'", "1e308"),
    "BOOLEAN": ("NULL",),
    "TIMESTAMP": ("NULL", "'infinity'", "'290309-12-22 (BC) 00:00:00'"),
    "VARCHAR[]": ("NULL", "[]", "[NULL]", "['x', 'x']"),
}
EXAMPLES = 300 if settings.get_current_profile_name() == "long" else examples(20)


@pytest.mark.exhaustive
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_no_value_of_any_column_is_a_defect_of_any_command(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        planted = copy_of(made_once("graded", graded), Path("s.duckdb"))
        with duckdb.connect(str(planted)) as connection:
            columns = connection.execute(
                "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
                "WHERE NOT internal AND table_oid IN (SELECT table_oid FROM duckdb_tables()) ORDER BY ALL"
            ).fetchall()
            schema, table, column, kind = data.draw(st.sampled_from(columns))
            value = data.draw(st.sampled_from(VALUES[kind]))
            with suppress(duckdb.ConstraintException):
                connection.execute(f'UPDATE "{schema}"."{table}" SET "{column}" = {value}')
        command = data.draw(st.sampled_from([*commands("conversation-1"), *OTHERS]))
        with mock.patch("sys.stdin", io.StringIO("q\n")):
            done = run(*command, "--db", planted)
        assert done.code in {0, 1, 2, 3, 4}, (command, table, column, value, done.err)
