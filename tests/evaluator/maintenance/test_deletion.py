"""Deleting takes whole sessions, all that is known of them, and their room on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
import requests
from command_line import spangrade
from made_once import copy_of, copy_of_sample, made_once, new_store
from paths import SAMPLE
from receiving import receiver, request

import spangrade as spangrade_api
from spangrade import InputError
from spangrade.evaluator.derive import update
from spangrade.evaluator.maintenance.delete import RUN_TABLES, Deleted, delete
from spangrade.tracer.base.quantities import parse_time
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import folder_of, write

DAY_NS = 86_400 * 10**9


def turn(session: str, day: int, **attributes: str) -> Span:
    """A session's turn on a day, in a trace of its own."""
    begin = day * DAY_NS
    given = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session} | attributes
    return Span(
        f"{abs(hash((session, day))):032x}"[-32:],
        f"{day + 1:016x}",
        None,
        "invoke_agent shop",
        "INTERNAL",
        begin,
        begin + 10**9,
        attributes=given,
    )


def state(session: str, day: int) -> LogRecord:
    return LogRecord(
        None, None, day * DAY_NS, "spangrade.session", attributes={"gen_ai.conversation.id": session}
    )


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return copy_of(made_once("to-delete-from", _make), tmp_path / "s.duckdb")


def _make(path: Path) -> None:
    with new_store(path) as store:
        store.add(
            [
                *(turn("old", 10), state("old", 11), turn("long", 10), turn("long", 40)),
                *(turn("new", 40, **{"user.id": "u-1"}), turn("other", 41, **{"user.id": "u-2"})),
                Span("f" * 32, "1" * 16, None, "GET /", "SERVER", 10 * DAY_NS, 10 * DAY_NS),
                LogRecord(None, None, 10 * DAY_NS, "of nothing"),
                LogRecord(None, None, 40 * DAY_NS, "of nothing"),
            ]
        )
        update(store)


def sessions(db: Path) -> list[str]:
    with Store.open(db) as store:
        update(store)
        tables = ("sessions", "turns", "traces", "trajectory")
        named = [
            {name for (name,) in store.query(f"SELECT session_id FROM derived.{table}")} for table in tables
        ]
        assert named[0] >= named[1] | named[3]
        return sorted(named[0])


def test_a_session_is_deleted_whole(db: Path) -> None:
    deleted = delete(db, sessions=["long"])
    assert deleted[:3] == (1, 2, 0)
    assert "long" not in sessions(db)
    assert delete(db, sessions=["old"])[:3] == (1, 1, 1)
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT count(*) FROM spans") == [(3,)]


def test_sessions_go_by_their_last_span_and_what_is_of_no_session_by_its_time(db: Path) -> None:
    assert delete(db, before_ns=30 * DAY_NS)[:3] == (1, 2, 2)
    assert [name for name in sessions(db) if len(name) < 32] == ["long", "new", "other"]
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT event_name, time_ns FROM logs") == [("of nothing", 40 * DAY_NS)]


def test_a_users_sessions_are_deleted(db: Path) -> None:
    assert delete(db, user="u-1")[:3] == (1, 1, 0)
    assert "new" not in sessions(db)
    assert delete(db, user="u-1") == Deleted(0, 0, 0, 0)


def test_what_waits_in_the_spool_is_deleted_too(db: Path) -> None:
    write(db, rows_of([turn("old", 12)]))
    assert delete(db, sessions=["old"])[:3] == (1, 2, 1)


def test_what_the_spool_rejected_is_deleted_too(db: Path) -> None:
    write(db, rows_of([turn("old", 12)]))
    (segment,) = folder_of(db).glob("*.spool")
    rejected = segment.rename(segment.with_suffix(".rejected"))
    os.utime(rejected, (50 * 86_400, 50 * 86_400))
    assert delete(db, before_ns=30 * DAY_NS, dry_run=True) == Deleted(1, 2, 2, 0, rejected_files=0)
    assert delete(db, before_ns=60 * DAY_NS, dry_run=True).rejected_files == 1
    assert delete(db, user="u-1", dry_run=True).rejected_files == 1
    assert rejected.exists()
    assert delete(db, user="nobody") == Deleted(0, 0, 0, 0, rejected_files=1)
    assert not rejected.exists()


def test_what_a_receiver_has_acknowledged_is_deleted_too(db: Path) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    body = request(0, 1, **{"user.id": "u-3"}).SerializeToString()
    with receiver(db) as started:
        assert requests.post(started.http + "/v1/traces", data=body, headers=headers, timeout=20).ok
        assert delete(db, user="u-3", wait_s=30).spans == 1
        assert started.stop() == 0
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT count(*) FROM spans WHERE name = 'chat'") == [(0,)]


@pytest.mark.exhaustive
def test_a_session_that_cannot_be_derived_is_deleted(db: Path) -> None:
    def hostile(session: str, day: int) -> Span:
        span = turn(session, day)
        tokens = {"gen_ai.usage.input_tokens": 10**30, "gen_ai.operation.name": [{"a": []}]}
        return span._replace(attributes={**(span.attributes or {}), **tokens, "user.id": session})

    with Store.open(db) as store:
        store.add([hostile("bad", 20), hostile("worse", 21), hostile("worst", 22)])
    assert delete(db, sessions=["bad"]).spans == 1
    assert delete(db, user="worse").spans == 1
    assert delete(db, before_ns=30 * DAY_NS).spans == 3
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT count(*) FROM spans") == [(4,)]


def test_spans_that_make_no_session_are_deleted_by_their_conversation(db: Path) -> None:
    unreadable = {"gen_ai.operation.name": [{"a": []}], "gen_ai.conversation.id": "bad"}
    with Store.open(db) as store:
        store.add([turn("bad", 20)._replace(name="n", attributes=unreadable)])
    assert delete(db, sessions=["bad"])[:2] == (0, 1)
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT count(*) FROM spans WHERE name = 'n'") == [(0,)]
        assert store.query("SELECT count(*) FROM spans") == [(6,)]


def test_what_a_dead_process_spilled_to_disk_is_removed(db: Path) -> None:
    spilled = db.with_name(f"{db.name}.tmp") / "duckdb_temp_storage_DEFAULT-0.tmp"
    spilled.parent.mkdir()
    spilled.write_bytes(b"SECRET")
    Store.open(db, read_only=True).close()
    assert spilled.exists()
    Store.open(db).close()
    assert not spilled.parent.exists()


def test_a_dry_run_only_counts(db: Path) -> None:
    before = db.read_bytes()
    assert delete(db, before_ns=30 * DAY_NS, dry_run=True) == Deleted(1, 2, 2, 0)
    assert len(before) == db.stat().st_size
    assert "old" in sessions(db)


def test_an_unknown_session_is_refused(db: Path) -> None:
    with pytest.raises(InputError, match="no session 'x'"):
        delete(db, sessions=["old", "x"])
    assert "old" in sessions(db)


def test_scores_go_with_their_session(db: Path) -> None:
    with Store.open(db) as store:
        store.query(
            "INSERT INTO scores (run_id, session_id, metric, outcome) "
            "VALUES ('r', 'old', 'm', 'score'), ('r', 'new', 'm', 'score'), ('r', NULL, 'm', 'score')"
        )
    delete(db, sessions=["old"])
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT session_id FROM scores") == [("new",), (None,)]


@pytest.mark.exhaustive
def test_the_file_becomes_smaller_and_works_as_before(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with Store.open(db) as store:
        store.add(turn(f"s{i % 10}", i, text=os.urandom(8000).hex()) for i in range(2000))
    db.chmod(0o640)
    before = db.stat().st_size
    deleted = delete(db, before_ns=1995 * DAY_NS)
    after = db.stat().st_size
    assert deleted == Deleted(5, 1000, 0, before - after)
    assert after < before * 0.65  # half of the spans, and the tables and the key beside them
    assert db.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.duckdb"]
    with Store.open(db) as store:
        newest = store.query("SELECT max(seq) FROM spans")[0][0]
        store.add([turn("s0", 3000)])
        assert store.query("SELECT max(seq) > $seq FROM spans", {"seq": newest}) == [(True,)]
        kept = store.query(
            "SELECT DISTINCT compression FROM pragma_storage_info('spans') "
            "WHERE column_name = 'attributes' AND segment_type != 'VALIDITY' AND compression = 'ZSTD'"
        )
        assert kept == [("ZSTD",)]


def test_nothing_deleted_is_left_in_the_file(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with Store.open(db) as store:
        store.query("ALTER TABLE spans ALTER attributes SET DATA TYPE VARCHAR USING attributes::VARCHAR")
        store.add([turn("gone", 1)._replace(name="SECRET-NAME"), turn("kept", 2)])
    assert b"SECRET-NAME" in db.read_bytes()
    delete(db, sessions=["gone"])
    assert b"SECRET-NAME" not in db.read_bytes()


@pytest.mark.exhaustive
def test_a_writer_that_opened_the_old_file_opens_the_new_one(db: Path) -> None:
    # A process that waits for the lock through the whole deletion must not write to the file that is gone.
    script = (
        "import sys; from pathlib import Path; from spangrade.evaluator.maintenance.delete import delete\n"
        "print(delete(Path(sys.argv[1]), sessions=['old'], wait_s=30).spans)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(db)], stdout=subprocess.PIPE, text=True
    ) as other:
        for number in range(100, 140):
            with Store.open(db, wait_s=30) as store:
                store.add([turn("steady", number)])
        assert other.communicate(timeout=30)[0] == "1\n"
    client = duckdb.connect(str(db), read_only=True)
    count = client.execute(
        "SELECT count(*) FROM spans WHERE start_ns >= $from", {"from": 100 * DAY_NS}
    ).fetchone()
    client.close()
    assert count == (40,)


def test_the_command_says_what_it_did(db: Path) -> None:
    size = db.stat().st_size / 1e6
    done = spangrade("delete", "--db", db, "--user", "u-2", "--format", "json")
    assert (done.returncode, done.stderr) == (
        0,
        f"spangrade: deleting 1 session: 1 span and 0 logs: all of {db} ({size:.1f} MB) is written again\n",
    )
    assert {**json.loads(done.stdout), "bytes_saved": 0} == Deleted(1, 1, 0, 0)._asdict()
    nothing = spangrade("delete", "--db", db)
    assert (nothing.returncode, nothing.stderr) == (
        2,
        "spangrade: delete which sessions? Expected their ids, a time before which they ended, or a user\n",
    )


def test_many_sessions_are_deleted_at_once_and_counted_before(db: Path) -> None:
    counts: list[tuple[Deleted, int]] = []
    opened = spangrade_api.open(db)
    ids = [session.session_id for session in opened][:2]
    deleted = opened.delete(ids, on_start=lambda found: counts.append((found, db.stat().st_ino)))
    assert counts == [(deleted._replace(bytes_saved=0), counts[0][1])]
    assert deleted.sessions == 2
    assert db.stat().st_ino != counts[0][1]
    opened.delete(before="1970-01-01", on_start=lambda found: counts.append((found, 0)))
    assert len(counts) == 1


def test_times_are_dates_or_ages() -> None:
    assert parse_time("1970-01-02") == DAY_NS
    assert parse_time("1970-01-01T02:00:00+01:00") == 3600 * 10**9
    before = time.time_ns()
    assert before <= parse_time("30d") + 30 * DAY_NS <= time.time_ns()
    with pytest.raises(InputError, match="'soon' is not a time"):
        parse_time("soon")


def arrived_days_ago(db: Path, days: int) -> None:
    """Let what is in a database have arrived some days ago."""
    with Store.open(db) as store:
        store.query(
            "INSERT INTO arrivals "
            "SELECT max(seq) + 1, $then FROM (SELECT seq FROM spans UNION SELECT seq FROM logs)",
            {"then": time.time_ns() - days * DAY_NS},
        )
        store.query("DELETE FROM arrivals WHERE time_ns > $then", {"then": time.time_ns() - DAY_NS})


@pytest.mark.exhaustive
def test_old_recordings_that_arrived_lately_are_kept_by_arrival(db: Path) -> None:
    before_ns = time.time_ns() - 30 * DAY_NS
    kept = delete(db, before_ns=before_ns, by_arrival=True)
    assert (kept.sessions, kept.spans, kept.logs) == (0, 0, 0)
    arrived_days_ago(db, 31)
    with Store.open(db) as store:
        store.add([turn("imported", 12), turn("long", 13)])
    assert delete(db, before_ns=before_ns, by_arrival=True).sessions == 3
    with Store.open(db, read_only=True) as store:
        left = store.query(
            "SELECT DISTINCT attributes->>'$.\"gen_ai.conversation.id\"' FROM spans ORDER BY 1"
        )
    assert left == [("imported",), ("long",)]
    assert delete(db, before_ns=before_ns).sessions == 2


def test_a_database_without_marks_of_arrival_keeps_everything_by_arrival(db: Path) -> None:
    with Store.open(db) as store:
        store.query("DROP TABLE arrivals")
    assert delete(db, before_ns=time.time_ns(), by_arrival=True).sessions == 0


def test_a_clock_that_was_ahead_keeps_nothing_for_years(db: Path) -> None:
    now = time.time_ns()
    marks = [(1, now - 60 * DAY_NS), (5, now + 70_000 * DAY_NS), (9, now - 40 * DAY_NS), (20, now - DAY_NS)]
    with Store.open(db) as store:
        store.query("DELETE FROM arrivals")
        for mark in marks:
            store.query(
                "INSERT INTO arrivals VALUES ($seq, $time)", dict(zip(("seq", "time"), mark, strict=True))
            )
        assert store.first_arrival_after(now - 30 * DAY_NS) == 9
        store.query("DELETE FROM arrivals WHERE first_seq > 5")
        assert store.first_arrival_after(now - 30 * DAY_NS) == 1


def test_a_clock_that_was_set_back_makes_nothing_older(db: Path) -> None:
    with Store.open(db) as store:
        store.query("INSERT INTO arrivals VALUES (1000000, 0)")
        assert store.first_arrival_after(time.time_ns() - DAY_NS) == 0


@pytest.mark.exhaustive
def test_a_receiver_deletes_what_is_older_than_it_keeps(db: Path) -> None:
    arrived_days_ago(db, 31)
    inode = db.stat().st_ino
    fresh = request(0, 1)
    fresh.resource_spans[0].scope_spans[0].spans[0].end_time_unix_nano = time.time_ns()
    with receiver(db, "--retention", "30d") as started:
        headers = {"Content-Type": "application/x-protobuf"}
        body = fresh.SerializeToString()
        assert requests.post(started.http + "/v1/traces", data=body, headers=headers, timeout=20).ok
        give_up_s = time.monotonic() + 120  # so that a test that is wrong ends
        while db.stat().st_ino == inode and time.monotonic() < give_up_s:
            time.sleep(0.1)
        assert started.stop() == 0
        logged = started.process.stderr.read()
    assert "retention of 30d: 4 sessions: " in logged
    assert logged.index(f" would be deleted from {db}") < logged.index(f" deleted from {db}, which is ")
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT name FROM spans") == [("chat",)]


def test_runs_are_deleted_by_age_with_their_rows_unless_they_have_the_latest_verdict_of_a_session(
    tmp_path: Path,
) -> None:
    db = spangrade_api.open(copy_of_sample(tmp_path / "runs.duckdb"))
    first, second = (
        db.grade(SAMPLE / "customer_service_golden.json", gates="token_usage<=1000000").run_id
        for _ in range(2)
    )
    people = db.label("conversation-1", "fail", by="ann")
    soon = datetime.now(UTC) + timedelta(days=1)

    def left() -> dict[str, set[str]]:
        with Store.open(db.path, read_only=True) as store:
            return {
                table: {one for (one,) in store.query(f"SELECT run_id FROM {table}")} for table in RUN_TABLES
            }

    assert db.delete(runs_before="1d") == Deleted(0, 0, 0, 0)
    before = left()
    assert db.delete(runs_before=soon, dry_run=True).runs == len(before["runs"]) - 1
    assert left() == before
    assert {first, second} <= before["runs"]
    deleted = db.delete(runs_before=soon)
    assert (deleted.sessions, deleted.runs) == (0, len(before["runs"]) - 1)
    assert left() == {**{table: {second} for table in RUN_TABLES}, "scores": {None, second}}
    assert [one.author for one in db.external_scores()] == [people.author]
    assert db.delete(before=soon, runs_before=soon).runs == 1
    assert left() == {table: set() for table in RUN_TABLES}
    with Store.open(db.path, read_only=True) as store:
        assert store.query("SELECT count(*) FROM golden_questions") == [(0,)]
