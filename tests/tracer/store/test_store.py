"""The store keeps each span once, whole, and refuses what it cannot keep with one clear line."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from spangrade import StoreError, StoreLockedError
from spangrade.tracer.exporter import DuckDBSpanExporter
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Added, Store
from spangrade.tracer.store.arrow import BATCH, rows_of
from spangrade.tracer.store.compact import shrink
from spangrade.tracer.store.spool import drain, folder_of, write

pytestmark = pytest.mark.makes_databases

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(number: int, **changes: object) -> Span:
    made = Span(TRACE, f"{number:016x}", None, "chat", "CLIENT", number, number + 1)
    return made._replace(**changes)


def test_a_span_comes_back_as_it_came(tmp_path: Path) -> None:
    whole = Span(
        TRACE,
        "b7ad6b7169203331",
        "00f067aa0ba902b7",
        "execute_tool größe",
        "INTERNAL",
        1_780_000_000_000_000_001,
        1_780_000_000_000_000_002,
        "ERROR",
        "it broke",
        {"text": "größe 東京", "number": 2**63 - 1, "share": 0.1, "none": None, "list": [1, "a", True]},
        [{"name": "exception", "time_ns": 5, "attributes": {"exception.type": "ValueError"}}],
        [{"trace_id": TRACE, "span_id": "b7ad6b7169203331", "attributes": {}}],
        {"service.name": "shop"},
        "scope",
        "1.0",
        "a=b",
    )
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add([whole])
    client = duckdb.connect(str(tmp_path / "s.duckdb"), read_only=True)  # any DuckDB client reads it
    columns = ", ".join(
        f"{name}::VARCHAR" if name in {"attributes", "events", "links", "resource"} else name
        for name in Span._fields
    )
    (row,) = client.execute(f"SELECT {columns} FROM spans").fetchall()
    client.close()
    texts = {
        "attributes": '{"text":"größe 東京","number":9223372036854775807,"share":0.1,"none":null,'
        '"list":[1,"a",true]}',
        "events": '[{"name":"exception","time_ns":5,"attributes":{"exception.type":"ValueError"}}]',
        "links": f'[{{"trace_id":"{TRACE}","span_id":"b7ad6b7169203331","attributes":{{}}}}]',
        "resource": '{"service.name":"shop"}',
    }
    assert row == whole._replace(**texts)


def test_a_span_delivered_again_is_counted_and_not_kept(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        assert store.add([span(1), span(2), span(1)]) == Added(2, 0, 1)
        assert store.add([span(2), span(3)]) == Added(1, 0, 1)
        assert store.query("SELECT count(*) FROM spans") == [(3,)]


def test_a_log_delivered_again_is_counted_and_not_kept(tmp_path: Path) -> None:
    log = LogRecord(None, None, 5, "spangrade.session", attributes={"gen_ai.conversation.id": "c"})
    with Store.open(tmp_path / "s.duckdb") as store:
        assert store.add([log, log]) == Added(0, 1, 1)
        assert store.add([log, log._replace(time_ns=6), log._replace(body="other")]) == Added(0, 2, 1)


def test_arrival_is_numbered_without_a_gap_in_meaning_over_batches(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(span(i) for i in range(BATCH + 10))
        store.add([span(BATCH + 10)])
        newest = store.query("SELECT span_id FROM spans ORDER BY seq DESC LIMIT 1")
    assert newest == [(f"{BATCH + 10:016x}",)]


def test_text_that_is_no_unicode_and_numbers_that_are_no_json_are_kept_as_text(tmp_path: Path) -> None:
    odd = span(1, attributes={"lone": "a\ud800b", "huge": 2**70, "bytes": object})
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add([odd])
        (row,) = store.query("SELECT attributes->>'lone', attributes->>'huge' FROM spans")
    assert row == ("a�b", str(2**70))


def test_another_process_that_writes_is_named_as_the_reason(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    code = f"from spangrade.tracer.store import Store; Store.open({str(db)!r})"
    with Store.open(db):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    executable = Path(sys.executable).resolve().name
    assert done.stderr.splitlines()[-1] == (
        f"spangrade.tracer.base.errors.StoreLockedError: {db}: another process has this database open "
        f"({executable}, PID {os.getpid()}): close it there, or try again when it is done"
    )


def test_a_database_that_is_let_go_in_time_is_waited_for(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    held = Store.open(db)
    threading.Timer(0.2, held.close).start()
    with Store.open(db, wait_s=30) as store:
        assert store.add([span(1)]) == Added(1, 0, 0)


def test_a_wait_ends_when_it_is_told_to(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with Store.open(tmp_path / "s.duckdb"), pytest.raises(StoreLockedError):
        Store.open(tmp_path / "s.duckdb", wait_s=600, stop=stop)


def test_rows_delivered_twice_in_one_transaction_are_kept_once(tmp_path: Path) -> None:
    log = LogRecord(None, None, 5, "spangrade.session", attributes={"gen_ai.conversation.id": "c"})
    first, again = rows_of([span(1), span(2), log]), rows_of([span(2), span(3), log])
    with Store.open(tmp_path / "s.duckdb") as store:
        parts = {table: [first[table], again[table]] for table in first}
        assert store.add_rows(parts) == Added(3, 1, 2)
        assert store.query("SELECT span_id FROM spans ORDER BY seq") == [(f"{n:016x}",) for n in (1, 2, 3)]


def test_a_file_that_was_replaced_is_not_in_place(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with Store.open(db) as store:
        assert store.in_place()
        db.rename(tmp_path / "moved.duckdb")
        assert not store.in_place()


def test_a_store_open_in_this_process_is_locked_too(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb"), pytest.raises(StoreLockedError):
        Store.open(tmp_path / "s.duckdb")


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    Store.open(db).close()
    with duckdb.connect(str(db)) as connection:
        connection.execute("INSERT INTO schema_version VALUES (99)")
    with pytest.raises(StoreError, match=r"written by a newer spangrade \(schema 99, this one knows \d+\)"):
        Store.open(db)


def test_a_database_of_an_older_version_is_brought_up_to_date(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    columns = "SELECT table_name, column_name, data_type FROM duckdb_columns() ORDER BY ALL"
    versions = "FROM schema_version"
    with Store.open(db) as store:
        new = store.query(columns)
        newest = store.query(versions)
    with duckdb.connect(str(db)) as connection:
        connection.execute("ALTER TABLE runs DROP COLUMN rules")
        connection.execute("DELETE FROM schema_version WHERE version > 11")
    with pytest.raises(StoreError, match="open it once for writing"):
        Store.open(db, read_only=True)
    with Store.open(db) as store:
        assert store.query(columns) == new
        assert store.query(versions) == newest
        assert store.add([span(1)]) == Added(1, 0, 0)


@pytest.mark.parametrize("content", [b"not a database, " * 600, b""])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    db = tmp_path / "s.duckdb"
    db.write_bytes(content)
    with pytest.raises(StoreError, match="not a DuckDB database"):
        Store.open(db)


def test_a_file_that_another_process_is_about_to_make_a_database_is_waited_for(tmp_path: Path) -> None:
    Store.open(tmp_path / "made.duckdb").close()
    db = tmp_path / "s.duckdb"
    db.touch()
    with pytest.raises(StoreLockedError, match="not a DuckDB database"):
        Store.open(db)
    threading.Timer(0.2, (tmp_path / "made.duckdb").replace, [db]).start()
    with Store.open(db, wait_s=30) as store:
        assert store.add([span(1)]) == Added(1, 0, 0)


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    db = tmp_path / "theirs.duckdb"
    with duckdb.connect(str(db)) as theirs:
        theirs.execute("CREATE TABLE customers (id INTEGER)")
    with pytest.raises(StoreError, match="not a spangrade database"):
        Store.open(db)


def test_reading_what_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such database: import spans first"):
        Store.open(tmp_path / "none.duckdb", read_only=True)


def test_a_link_and_its_target_are_one_database(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "s.duckdb", tmp_path / "link.duckdb"
    link.symlink_to(target)  # before there is a file
    write(link, rows_of([span(1)]))
    with Store.open(link) as store:
        assert store.path == target
        assert drain(store) == Added(1, 0, 0)
        store.query("DELETE FROM spans")
        shrink(store.connection, store.path)
    assert folder_of(link) == folder_of(target) == tmp_path / "data" / "s.duckdb.spool"
    assert DuckDBSpanExporter(link).db == target
    assert link.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"data", "link.duckdb"}


def test_links_in_a_circle_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StoreError, match="cannot open"):
        Store.open(tmp_path / "a")


def test_a_path_with_a_quote_in_it_is_a_path(tmp_path: Path) -> None:
    with Store.open(tmp_path / "it's.duckdb") as store:
        assert store.add([span(1)]) == Added(1, 0, 0)


def test_a_memory_limit_that_is_no_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPANGRADE_MEMORY_LIMIT", "plenty")
    with pytest.raises(StoreError, match="SPANGRADE_MEMORY_LIMIT is 'plenty': expected a size such as 1GB"):
        Store.open(tmp_path / "s.duckdb")
