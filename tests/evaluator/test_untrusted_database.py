"""Every command refuses, or reads without harm, a database that someone else made."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from command_line import run
from made_once import copy_of_sample
from paths import SAMPLE

import spangrade

SECRET = "the-local-secret"
VIEWS = ("sessions", "turns", "trajectory", "tool_interactions", "llm_calls", "errors")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    return copy_of_sample(tmp_path / "s.duckdb")


def altered(db: Path, *statements: str) -> None:
    with duckdb.connect(str(db)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("command", ["sessions", "show", "lint", "delete", "import", "grade"])
@pytest.mark.short_form("command", 5)
def test_a_view_under_our_name_is_not_read(command: str, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = str(spangrade.open(db).list_sessions().rows()[0]["session_id"])
    golden = SAMPLE / "customer_service_golden.json"
    arguments = {
        "show": [session_id],
        "delete": ["--session", session_id, "--dry-run"],
        "import": [SAMPLE / "spans.otlp.jsonl"],
        "grade": [golden],
    }.get(command, [])
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(db.parent / "cache"))
    expected = run(command, *arguments, "--db", db)
    leak = f"SELECT content AS session_id, * FROM read_text('{db.parent / 'secret.txt'}')"
    altered(db, *(f"CREATE OR REPLACE VIEW {view} AS {leak}" for view in VIEWS))
    assert run(command, *arguments, "--db", db) == expected


def test_sql_does_not_print_a_local_file(db: Path) -> None:
    altered(db, f"CREATE OR REPLACE VIEW sessions AS FROM read_text('{db.parent / 'secret.txt'}')")
    done = run("sql", "FROM sessions", "--db", db)
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert SECRET not in done.err[0]


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE derived.turns CASCADE",
        "ALTER TABLE derived.sessions RENAME complete TO incomplete",
        "CREATE OR REPLACE TABLE derived.progress AS SELECT * REPLACE ('x' AS seq) FROM derived.progress",
    ],
)
@pytest.mark.short_form("statement", 3)
def test_derived_tables_of_another_form_are_derived_again(db: Path, statement: str) -> None:
    before = spangrade.open(db).list_sessions().rows()
    with duckdb.connect(str(db)) as connection:
        for view in VIEWS:
            connection.execute(f"DROP VIEW IF EXISTS {view}")
        connection.execute(statement)
    assert spangrade.open(db).list_sessions().rows() == before
    assert len(list(spangrade.open(db).sessions())) == len(before)


@pytest.mark.parametrize("command", ["sessions", "lint", "delete", "import", "sql"])
def test_a_database_that_is_refused_is_one_line(command: str, db: Path) -> None:
    altered(db, "CREATE MACRO count(x) AS 42")
    arguments = {
        "delete": ["--before", "1d"],
        "import": [SAMPLE / "spans.otlp.jsonl"],
        "sql": ["SELECT 1"],
    }.get(command, [])
    done = run(command, *arguments, "--db", db)
    assert (done.code, done.out, done.err) == (
        2,
        [],
        [f'spangrade: {db}: it defines a function "count", which hides DuckDB\'s own: drop it first'],
    )
