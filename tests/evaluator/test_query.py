"""A query that someone else wrote is one SELECT; it reads the database and nothing else, within limits."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest

import spangrade
from spangrade import InputError
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store import query as limits
from spangrade.tracer.store.query import select

ENDLESS = "SELECT sum(a.range * b.range) FROM range(10_000_000_000) a, range(10_000_000_000) b"
# One call of a function, seconds long, which DuckDB does not interrupt.
LONG_CALL = "SELECT damerau_levenshtein(repeat('a', 20_000), repeat('b', 20_000))"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "s.duckdb"
    with Store.open(path) as store:
        store.add([Span("a" * 32, "b" * 16, None, "chat", "CLIENT", 1, 2)])
    spangrade.open(path).derive()
    (path.parent / "other.csv").write_text("a,b\n1,2\n")
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 'chat' AS name",
        "FROM (SELECT name FROM spans);",
        "WITH one AS (SELECT name FROM spans) FROM one",
        "VALUES ('chat')",
        "SELECT name FROM spans -- DELETE FROM spans",
        "SELECT name FROM query('SELECT name FROM spans')",
        "PIVOT spans ON kind IN ('CLIENT') USING count(*) GROUP BY name",
        "DESCRIBE spans",
        "SHOW TABLES",
        "SUMMARIZE spans",
        "EXPLAIN SELECT 1",
        "explain analyze SELECT 1",
        "EXPLAIN (ANALYZE, FORMAT json) SELECT 1",
        "EXPLAIN (SELECT 1) UNION ALL SELECT 2",
    ],
)
def test_one_select_is_run(db: Path, query: str) -> None:
    rows = spangrade.open(db).sql(query)
    assert len(rows) > 0
    first = next(iter(rows.rows()[0].values()))
    assert isinstance(first, str)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "expected one SELECT, found no statements"),
        (" \n-- nothing", "expected one SELECT, found no statements"),
        ("SELECT 1; SELECT 2", "expected one SELECT, found 2 statements"),
        ("DELETE FROM spans", "expected a SELECT, found DELETE"),
        ("COPY spans TO 'DB' (FORMAT csv, USE_TMP_FILE false)", "expected a SELECT, found COPY"),
        ("EXPLAIN DELETE FROM spans", "expected EXPLAIN of one SELECT"),
        ("EXPLAIN ANALYZE COPY (SELECT 'x') TO 'DB' (FORMAT csv)", "expected EXPLAIN of one SELECT"),
        ("/**/ EXPLAIN (ANALYZE) COPY (SELECT 'x') TO 'DB'", "expected EXPLAIN of one SELECT"),
        (
            "PIVOT spans ON kind USING count(*)",
            "expected one SELECT; a PIVOT is one if it names its values: ON x IN (…)",
        ),
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        (
            "SELECT nothing",
            'Binder Error: Referenced column "nothing" was not found because the FROM clause is missing',
        ),
    ],
)
def test_anything_else_is_refused_in_one_line(db: Path, query: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        spangrade.open(db).sql(query.replace("DB", str(db)))
    assert str(refused.value) == f"SQL: {message}"


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 'x') TO 'DB' (FORMAT csv, USE_TMP_FILE false)",
        "COPY (SELECT 'x') TO 'DB.wal' (FORMAT csv, USE_TMP_FILE false)",
        "COPY (SELECT 'x') TO '.tmp/x' (FORMAT csv, USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (SELECT 'x') TO 'DB' (FORMAT csv, USE_TMP_FILE false)",
        "EXPLAIN /**/ ANALYZE /**/ COPY (SELECT 'x') TO 'DB.wal' (FORMAT csv, USE_TMP_FILE false)",
        "/* /* */ EXPLAIN SELECT 1 -- */ EXPLAIN ANALYZE COPY (FROM spans) TO 'DB' (FORMAT csv)",
        "EXPLAIN (ANALYZE true, FORMAT 'json') COPY (SELECT 'x') TO 'DB' (FORMAT csv, USE_TMP_FILE false)",
        "WITH x AS (COPY (SELECT 'x') TO 'DB' (FORMAT csv, USE_TMP_FILE false)) SELECT 1",
        "WITH x AS (INSERT INTO spans FROM spans RETURNING *) FROM x",
        "WITH x AS (DELETE FROM spans RETURNING *) FROM x",
        "EXPLAIN ANALYZE WITH x AS (DELETE FROM spans RETURNING *) FROM x",
        "FROM query('WITH x AS (DELETE FROM spans RETURNING *) FROM x')",
        "SELECT nextval('arrival')",
        "SELECT size FROM read_blob('DB')",
        "FROM read_text('DB.wal')",
        "FROM read_text('.tmp/secret')",
        "FROM read_duckdb('DB')",
        "FROM 'other.csv'",
        "FROM sniff_csv('other.csv')",
        "FROM query_table('other.csv')",
        "FROM json_execute_serialized_sql(json_serialize_sql('FROM ''other.csv'''))",
        "FROM enable_logging(storage = 'file')",
        "FROM enable_logging(storage = 'file', storage_path = 'log')",
        "FROM enable_profiling(save_location = 'profile.json')",
        "FROM duckdb_extensions()",
        "FROM force_checkpoint()",
        "CALL enable_logging()",
        "CHECKPOINT",
        "SET VARIABLE x = 1",
        "EXECUTE p",
        "FROM local_rows",
        "FROM pandas_scan(1)",
    ],
)
def test_nothing_is_written_and_nothing_else_is_read(
    db: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_rows = duckdb.sql("SELECT 1")  # a variable of this process
    monkeypatch.chdir(db.parent)
    Path(".tmp").mkdir(exist_ok=True)
    Path(".tmp", "secret").write_text("secret")
    before = files(db.parent / ".tmp"), [p.name for p in db.parent.iterdir()], db.read_bytes()
    with pytest.raises(InputError, match=r"^SQL: [^\n]*$"):
        spangrade.open(db).sql(query.replace("DB", str(db)))
    assert (files(db.parent / ".tmp"), [p.name for p in db.parent.iterdir()], db.read_bytes()) == before
    assert local_rows.fetchall() == [(1,)]


def test_a_query_is_stopped_after_its_time(db: Path) -> None:
    with pytest.raises(InputError) as stopped:
        spangrade.open(db).sql(ENDLESS, timeout_s=0.1)
    assert str(stopped.value) == "timeout_s: stopped after 0.1 s: select less, or raise the limit"


@pytest.mark.exhaustive
def test_what_cannot_be_stopped_is_reported_while_it_runs(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 0.1)
    overrun = threading.Event()
    with pytest.raises(InputError, match="stopped after"):
        spangrade.open(db).sql(LONG_CALL, timeout_s=0.1, on_overrun=overrun.set)
    assert overrun.is_set()


def test_a_query_needs_no_more_memory_than_the_limit(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPANGRADE_MEMORY_LIMIT", "50MB")
    with pytest.raises(InputError) as refused:
        spangrade.open(db).sql("SELECT list(range || repeat('x', 100)) FROM range(10_000_000)")
    assert str(refused.value) == (
        "SQL: needs more memory than the limit: select less, or raise SPANGRADE_MEMORY_LIMIT"
    )


def test_a_result_that_is_too_long_or_too_large_is_refused(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = spangrade.open(db)
    assert len(database.sql("FROM range(10)", max_rows=10)) == 10
    with pytest.raises(InputError) as refused:
        database.sql("FROM range(11)", max_rows=10)
    assert str(refused.value) == "SQL: more than 10 rows: aggregate, or add a LIMIT"
    with pytest.raises(InputError, match="SQL: more than 1,000,000 rows"):
        database.sql("FROM range(1_000_001)")
    monkeypatch.setattr(limits, "MAX_BYTES", 5_000_000)
    with pytest.raises(InputError) as refused:
        database.sql("SELECT repeat('x', 1_000) FROM range(10_000)")
    assert str(refused.value) == "SQL: more than 5 MB: select less, or add a LIMIT"


def test_a_store_is_as_good_as_new_after_a_refused_query(db: Path) -> None:
    with Store.open(db, confined=True) as store:
        for query in ("FROM range(20)", "SELECT nothing", "DELETE FROM spans"):
            with pytest.raises(InputError, match=r"^metric\.sql: "):
                select(store, query, where="metric.sql", max_rows=10)
        assert select(store, "SELECT name FROM spans").rows() == [{"name": "chat"}]
