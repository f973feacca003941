"""SQL reads the database, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Done, run

import spangrade
from spangrade import InputError
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "s.duckdb"
    with Store.open(path) as store:
        store.add([Span("a" * 32, "b" * 16, None, "chat", "CLIENT", 1, 2)])
    spangrade.open(path).derive()
    (path.parent / "other.csv").write_text("a,b\n1,2\n")
    return path


def test_spans_can_be_queried(db: Path) -> None:
    assert spangrade.open(db).sql("SELECT name FROM spans").rows() == [{"name": "chat"}]


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO spans SELECT * FROM spans",
        "DELETE FROM spans",
        "DROP TABLE spans",
        "CREATE TABLE mine AS SELECT 1 AS a",
        "ATTACH 'new.duckdb' AS new",
        "ATTACH 's.duckdb' AS again (READ_WRITE)",
        "COPY spans TO 'out.csv'",
        "COPY (SELECT 1) TO 'out.parquet' (FORMAT parquet)",
        "EXPORT DATABASE 'out'",
        "CREATE TEMP TABLE t (a INTEGER); COPY t FROM 'other.csv'",
        "SELECT * FROM 'other.csv'",
        "SELECT * FROM read_csv('other.csv')",
        "SELECT * FROM read_text('other.csv')",
        "SELECT * FROM read_blob('/etc/hostname')",
        "SELECT * FROM glob('*')",
        "SELECT * FROM read_parquet('http://127.0.0.1:1/x.parquet')",
        "SELECT * FROM sniff_csv('other.csv')",
        "SELECT * FROM query('SELECT * FROM read_text(''other.csv'')')",
        "WITH t AS MATERIALIZED (SELECT * FROM read_json('other.csv')) FROM t",
        "SELECT getenv('PATH') FROM read_text('other.csv')",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SELECT 1; SET lock_configuration = false; SELECT * FROM read_text('other.csv')",
        "RESET enable_external_access",
        "PRAGMA enable_external_access",
        "SET temp_directory = '.'",
        "CREATE SECRET s (TYPE s3)",
        "PREPARE p AS SELECT * FROM read_text('other.csv'); EXECUTE p",
        "CREATE TEMP MACRO m() AS TABLE SELECT * FROM read_text('other.csv'); FROM m()",
    ],
)
def test_nothing_is_written_and_no_file_or_network_is_reached(
    query: str, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(db.parent)
    before = {path.name: path.read_bytes() for path in db.parent.iterdir()}
    with pytest.raises(InputError, match=r"^SQL: "):
        spangrade.open(db).sql(query)
    assert {path.name: path.read_bytes() for path in db.parent.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([""], "SQL: expected one SELECT, found no statements"),
        (["DROP TABLE spans"], "SQL: expected a SELECT, found DROP"),
        (
            [
                "SELECT sum(a.range * b.range) FROM range(1e10::BIGINT) a, range(1e10::BIGINT) b",
                "--timeout",
                "0.1",
            ],
            "--timeout: stopped after 0.1 s: select less, or raise the limit",
        ),
        (
            ["SELECT repeat('x', 4_000_000_000)"],
            "SQL: needs more memory than the limit: select less, or raise SPANGRADE_MEMORY_LIMIT",
        ),
    ],
)
def test_the_command_refuses_in_one_line(arguments: list[str], line: str, db: Path) -> None:
    done = run("sql", *arguments, "--db", db)
    assert done == Done(2, [], [f"spangrade: {line}"])
