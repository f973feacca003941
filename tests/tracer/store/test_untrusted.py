"""A database that someone else made reaches nothing else, and is refused in one line if it is odd."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from made_once import copy_of, made_once

from spangrade import StoreError
from spangrade.tracer.span import Span
from spangrade.tracer.store import Added, Store

pytestmark = pytest.mark.makes_databases

SECRET = "the-local-secret"
SPAN = Span("a" * 32, "b" * 16, None, "chat", "CLIENT", 1, 2)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    def make(path: Path) -> None:
        with Store.open(path) as store:
            store.add([SPAN])

    (tmp_path / "secret.csv").write_text(f"a\n{SECRET}\n")
    return copy_of(made_once("one-span", make), tmp_path / "s.duckdb")


def altered(db: Path, *statements: str) -> None:
    """Run statements as someone who opens the file with DuckDB itself."""
    with duckdb.connect(str(db)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "select",
    [
        "SELECT content FROM read_text('{}')",
        "SELECT * FROM read_csv('{}', header = true, columns = {{'a': 'VARCHAR'}})",
        "SELECT file FROM glob('{}')",
        "FROM '{}'",
    ],
)
def test_a_view_and_a_macro_read_no_file(db: Path, select: str, read_only: bool) -> None:
    select = select.format(db.parent / "secret.csv")
    altered(db, f"CREATE VIEW leak AS {select}", f"CREATE MACRO leaking() AS TABLE {select}")
    for query in ("FROM leak", "FROM leaking()"):
        with (
            pytest.raises(StoreError, match=r"s\.duckdb: Permission Error: .*disabled by configuration"),
            Store.open(db, read_only=read_only) as store,
        ):
            store.query(query)


def test_a_view_reads_no_python_variable(db: Path) -> None:
    local_rows = duckdb.sql(f"SELECT '{SECRET}' AS a")
    with duckdb.connect(str(db)) as connection:
        connection.execute("CREATE TABLE local_rows (a VARCHAR)")
        connection.execute("CREATE VIEW leak AS FROM local_rows")
        connection.execute("DROP TABLE local_rows")
    with pytest.raises(StoreError, match="local_rows does not exist"), Store.open(db) as store:
        store.query("FROM leak")
    assert local_rows.fetchall() == [(SECRET,)]


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH '{}/other.duckdb' AS other",
        "COPY spans TO '{}/out.csv'",
        "EXPORT DATABASE '{}/out'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET python_enable_replacements = true",
        "SET lock_configuration = false",
        "SET allowed_paths = ['/']",
        "RESET allowed_paths",
    ],
)
def test_no_statement_opens_the_way_again(db: Path, statement: str) -> None:
    files = sorted(db.parent.iterdir())
    with pytest.raises(StoreError), Store.open(db) as store:
        store.query(statement.format(db.parent))
    assert sorted(db.parent.iterdir()) == files


@pytest.mark.parametrize("first_to_read", [True, False])
def test_what_one_opening_leaves_is_not_in_the_next(db: Path, first_to_read: bool) -> None:
    with Store.open(db, read_only=first_to_read) as store:
        store.connection.execute("CREATE TEMP TABLE spans (a INTEGER)")
        store.connection.execute("SET VARIABLE left_over = 1")
        store.connection.execute("BEGIN")
    with Store.open(db) as store:
        assert store.query("SELECT span_id, getvariable('left_over') FROM spans") == [("b" * 16, None)]
        with pytest.raises(duckdb.InvalidInputException, match="configuration has been locked"):
            store.query("SET enable_external_access = true")
        with pytest.raises(duckdb.PermissionException, match="disabled by configuration"):
            store.query(f"FROM '{db.parent / 'secret.csv'}'")
    with Store.open(db, confined=True) as store, pytest.raises(duckdb.PermissionException):
        store.query(f"FROM read_text('{db}')")


def test_a_closed_store_is_free_for_another_process_and_for_a_fork_of_this_one(db: Path) -> None:
    work = """
import os, subprocess, sys
from spangrade.tracer.store import Store
Store.open(sys.argv[1]).close()
Store.open(sys.argv[1]).close()
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
with Store.open(sys.argv[1]) as store:
    print(store.query("SELECT count(*) FROM spans"), flush=True)
if not child:
    os._exit(0)  # DuckDB 1.5 by itself aborts when a fork of a process that used it ends
if child:
    count = "import duckdb, sys; print(duckdb.connect(sys.argv[1]).sql('SELECT 1 FROM spans').fetchall())"
    subprocess.run([sys.executable, "-c", count, sys.argv[1]], check=True)
"""
    command = [sys.executable, "-W", "error", "-c", work, str(db)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("[(1,)]\n" * 3, "")
    assert sorted(path.name for path in db.parent.iterdir()) == ["s.duckdb", "secret.csv"]


@pytest.mark.parametrize("query", ["FROM read_blob('{}')", "FROM read_text('{}.tmp/x')", "FROM glob('{}*')"])
def test_a_confined_store_opens_no_file_at_all(db: Path, query: str) -> None:
    with Store.open(db, confined=True) as store:
        with pytest.raises(duckdb.PermissionException, match="LocalFileSystem has been disabled"):
            store.query(query.format(db))
        assert store.query("SELECT name FROM spans") == [("chat",)]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("CREATE MACRO count(x) AS 42", 'function "count"'),
        ("CREATE MACRO MAX(x) AS 42", 'function "max"'),
        ("CREATE MACRO duckdb_tables() AS TABLE SELECT 'spans' AS table_name", 'function "duckdb_tables"'),
        ("CREATE MACRO duckdb_functions() AS TABLE SELECT 1 AS a", 'function "duckdb_functions"'),
        ("CREATE TYPE json AS ENUM ('a')", 'type "JSON"'),
        ("CREATE VIEW duckdb_tables AS SELECT 1 AS a", 'view "duckdb_tables"'),
        ("CREATE TABLE duckdb_views (a INTEGER)", 'view "duckdb_views"'),
        ("CREATE SCHEMA store", 'schema "store"'),
        ("CREATE SCHEMA temp", 'schema "temp"'),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_what_hides_a_part_of_duckdb_is_refused(db: Path, statement: str, what: str, read_only: bool) -> None:
    altered(db, statement)
    with pytest.raises(StoreError) as refused:
        Store.open(db, read_only=read_only)
    assert str(refused.value) == f"{db}: it defines a {what}, which hides DuckDB's own: drop it first"


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_was_opened_before_is_refused_for_what_its_write_ahead_log_brings(
    db: Path, read_only: bool
) -> None:
    with Store.open(db, read_only=read_only):
        pass
    before = db.stat()
    altered(db, "PRAGMA disable_checkpoint_on_shutdown", "CREATE MACRO count(x) AS 42")
    assert (db.stat().st_size, db.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(StoreError, match='it defines a function "count"'):
        Store.open(db, read_only=read_only)


@pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB 1 has no triggers")
def test_a_trigger_is_refused(db: Path) -> None:
    theirs = db.with_name("theirs.duckdb")
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{db}' AS ours")
        connection.execute(f"ATTACH '{theirs}' AS theirs (STORAGE_VERSION 'v2.0.0')")
        connection.execute("COPY FROM DATABASE ours TO theirs")
        connection.execute("USE theirs")
        connection.execute("CREATE TABLE copies (name VARCHAR)")
        connection.execute(
            "CREATE TRIGGER tr AFTER INSERT ON spans REFERENCING NEW TABLE AS new FOR EACH STATEMENT "
            "INSERT INTO copies SELECT name FROM new"
        )
    with pytest.raises(StoreError) as refused:
        Store.open(theirs)
    assert str(refused.value) == f'{theirs}: it defines a trigger "tr" on "spans": drop it first'


def test_macros_views_and_tables_of_the_users_own_are_kept(db: Path) -> None:
    altered(
        db,
        "CREATE MACRO twice(x) AS 2 * x",
        "CREATE VIEW names AS SELECT name FROM spans",
        "CREATE SCHEMA mine",
        "CREATE TABLE mine.spans (note VARCHAR)",
        "ALTER TABLE spans ADD COLUMN note VARCHAR",
    )
    with Store.open(db) as store:
        assert store.add([SPAN, SPAN._replace(span_id="c" * 16)]) == Added(1, 0, 1)
        assert store.query("SELECT twice(count(*)), min(name) FROM names") == [(4, "chat")]


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (
            ["ALTER TABLE spans RENAME TO real_spans", "CREATE VIEW spans AS FROM real_spans"],
            '"spans" is not a table',
        ),
        (["DROP TABLE logs"], '"logs" is not a table'),
        (
            ["ALTER TABLE spans DROP COLUMN name"],
            'table "spans", column "name": expected VARCHAR, found no such column',
        ),
        (
            ["ALTER TABLE spans ALTER seq DROP DEFAULT", "ALTER TABLE spans ALTER seq TYPE VARCHAR"],
            'table "spans", column "seq": expected BIGINT, found VARCHAR',
        ),
        (
            ["ALTER TABLE spans ALTER links TYPE INTEGER[] USING []"],
            'table "spans", column "links": expected VARCHAR, found INTEGER[]',
        ),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_tables_of_another_form_are_refused(
    db: Path, statements: list[str], problem: str, read_only: bool
) -> None:
    altered(db, *statements)
    with pytest.raises(StoreError) as refused:
        Store.open(db, read_only=read_only)
    assert str(refused.value) == f"{db}: not a spangrade database: {problem}"


@pytest.mark.parametrize(
    "columns",
    [
        "name VARCHAR GENERATED ALWAYS AS ('evil')",
        "name VARCHAR NOT NULL CHECK (name = 'evil')",
        "name VARCHAR NOT NULL, extra INTEGER DEFAULT (error('evil'))",
    ],
)
def test_a_table_that_takes_no_spans_says_so_in_one_line(db: Path, columns: str) -> None:
    with duckdb.connect(str(db)) as connection:
        row = connection.execute("SELECT sql FROM duckdb_tables() WHERE table_name = 'spans'").fetchone()
        assert row is not None
        connection.execute("DROP TABLE spans")
        connection.execute(re.sub(r'"?\bname"? VARCHAR NOT NULL', columns, row[0], count=1))
    with pytest.raises(StoreError, match=r"s\.duckdb: cannot write: ") as refused, Store.open(db) as store:
        store.add([SPAN])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_write_ahead_log_of_someone_else_reaches_nothing_either(db: Path, read_only: bool) -> None:
    connection = duckdb.connect(str(db))
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    connection.execute(f"CREATE VIEW leak AS FROM read_text('{db.parent / 'secret.csv'}')")
    crafted = db.with_name("crafted.duckdb")
    shutil.copy(db, crafted)
    shutil.copy(f"{db}.wal", f"{crafted}.wal")
    connection.close()
    with Store.open(crafted, read_only=read_only) as store:
        assert store.query("SELECT view_name FROM duckdb_views() WHERE NOT internal") == [("leak",)]
        with pytest.raises(duckdb.PermissionException):
            store.query("FROM leak")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_write_ahead_log_of_other_bytes_changes_nothing(db: Path, read_only: bool) -> None:
    Path(f"{db}.wal").write_bytes(b"\xff" * 4096)
    with Store.open(db, read_only=read_only) as store:
        assert store.query("SELECT name FROM spans") == [("chat",)]


def test_a_store_is_opened_through_a_link_and_by_a_relative_path(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = db.with_name("link.duckdb")
    link.symlink_to(db.name)
    monkeypatch.chdir(db.parent)
    for number, path in enumerate((link, Path("link.duckdb"), Path("..", db.parent.name, "s.duckdb"))):
        with Store.open(path) as store:
            assert store.add([SPAN._replace(span_id=f"{number:016}")]) == Added(1, 0, 0)
        with Store.open(path, read_only=True) as store:
            assert store.query("SELECT count(*) FROM spans") == [(number + 2,)]


def test_what_exceeds_memory_goes_to_a_file_beside_the_database_or_fails(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANGRADE_MEMORY_LIMIT", "40MB")
    monkeypatch.chdir(db.parent)
    query = "SELECT count(*) FROM (SELECT DISTINCT range || repeat('x', 20) FROM range(1_500_000))"
    with Store.open(db, read_only=True) as store:
        assert store.query(query) == [(1_500_000,)]
        assert Path(f"{db}.tmp").is_dir()
    with (
        pytest.raises(StoreError, match="more memory than its limit"),
        Store.open(db, confined=True) as store,
    ):
        store.query(query)
    assert not Path(".tmp").exists()
