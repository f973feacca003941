"""Faults under the receiver, a few seconds of each; the long ones are the scripts in tests/faults."""

from __future__ import annotations

import resource
import shutil
import time
from pathlib import Path

import pytest
import requests
from command_line import spangrade
from faults.kill import kill_repeatedly
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from receiving import Receiver, receiver, request, start

from spangrade.tracer.span import Span
from spangrade.tracer.store import Added, Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import Segment, drain, folder_of, to_frames, waiting

PROTOBUF = {"Content-Type": "application/x-protobuf"}
WHOLE = request(0, 3, text="größe").SerializeToString()


def span(number: int, start_ns: int = 1, end_ns: int = 2) -> Span:
    return Span(
        "0af7651916cd43dd8448eb211c80319c", f"{number:016x}", None, "chat", "CLIENT", start_ns, end_ns
    )


def post(to: Receiver, first: int, count: int) -> requests.Response:
    body = request(first, count, text="x" * 2000).SerializeToString()
    return requests.post(to.http + "/v1/traces", data=body, headers=PROTOBUF, timeout=20)


def numbers(db: Path) -> list[int]:
    with Store.open(db, read_only=True) as store:
        return [int(span_id, 16) - 1 for (span_id,) in store.query("SELECT span_id FROM spans ORDER BY 1")]


def until(true: object) -> None:
    give_up_s = time.monotonic() + 120  # so that a test that is wrong ends
    while not true():
        assert time.monotonic() < give_up_s
        time.sleep(0.05)


@pytest.mark.exhaustive
def test_kills_under_load_lose_nothing_acknowledged_and_double_nothing(tmp_path: Path) -> None:
    outcome = kill_repeatedly(tmp_path / "s.duckdb", kills=2, seed=1)
    assert outcome.acknowledged > 0
    assert (outcome.missing, outcome.max_rows) == (0, 1)


def test_a_disk_that_takes_no_more_is_answered_with_503_and_loses_nothing(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started:
        limit = 1_000_000  # bytes a file: a segment of the spool fits, the next request does not
        resource.prlimit(started.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        answers = [post(started, first, 100) for first in range(0, 2000, 100)]
        kept = [n for i, answer in enumerate(answers) if answer.ok for n in range(i * 100, i * 100 + 100)]
        refused = [answer for answer in answers if not answer.ok]
        assert {(answer.status_code, answer.headers["Retry-After"]) for answer in refused} == {(503, "5")}
        resource.prlimit(started.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert started.stop() == 0
    assert numbers(db) == kept


@pytest.mark.exhaustive
def test_a_file_deleted_underneath_costs_only_what_was_in_it(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started:
        post(started, 0, 10)
        until(lambda: not waiting(db) and "} 10.0" in counted(started, "stored_records_total"))
        db.unlink()
        post(started, 10, 10)
        assert started.stop() == 0
    assert numbers(db) == list(range(10, 20))


def counted(started: Receiver, name: str) -> str:
    text = requests.get(started.http + "/metrics", timeout=20).text
    return "\n".join(line for line in text.splitlines() if line.startswith(f"spangrade_{name}"))


def test_a_database_that_cannot_be_used_is_told_and_waited_for(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started:
        db.write_text("no database" * 1000)
        post(started, 0, 10)
        until(lambda: requests.get(started.http + "/healthz", timeout=20).json()["last_error"])
        assert (
            "not a DuckDB database"
            in requests.get(started.http + "/healthz", timeout=20).json()["last_error"]
        )
        db.unlink()
        assert started.stop() == 0
    assert numbers(db) == list(range(10))


@pytest.mark.exhaustive
def test_a_loader_without_file_descriptors_loads_when_there_are_some_again(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started, requests.Session() as session:

        def last_error() -> str | None:  # over a connection that is open already
            error: str | None = session.get(started.http + "/healthz", timeout=20).json()["last_error"]
            return error

        assert last_error() is None
        with Store.open(db, wait_s=60):  # until there are no descriptors, the loader must not load everything
            assert post(started, 0, 10).ok
            _, most = resource.prlimit(started.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(started.process.pid, resource.RLIMIT_NOFILE, (1, most))
        until(lambda: "Too many open files" in (last_error() or ""))
        assert "spangrade_failed_writes_total 0.0" not in session.get(started.http + "/metrics").text
        resource.prlimit(started.process.pid, resource.RLIMIT_NOFILE, (most, most))
        until(lambda: last_error() is None)
        assert post(started, 10, 10).ok
        until(lambda: "} 20.0" in counted(started, "stored_records_total"))
        assert started.stop() == 0
    assert numbers(db) == list(range(20))


@pytest.mark.exhaustive
def test_a_receiver_makes_its_spool_again_and_stays_the_only_one(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started:
        assert post(started, 0, 10).ok
        shutil.rmtree(folder_of(db))
        with pytest.raises(AssertionError, match="another receiver is writing"):
            start(db)
        lock = db.with_name(f"{db.name}.spool.lock")
        lock.unlink()
        until(lock.exists)
        with pytest.raises(AssertionError, match="another receiver is writing"):
            start(db)
        assert post(started, 10, 10).ok
        assert requests.get(started.http + "/healthz", timeout=20).json()["status"] == "ok"
        assert started.stop() == 0
    assert numbers(db)[-10:] == list(range(10, 20))


def test_a_flipped_bit_is_counted_and_reported_by_the_receiver(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started:
        content = bytearray(to_frames(rows_of([span(1)])) + to_frames(rows_of([span(2)])))
        content[100] ^= 1
        (folder_of(db) / "1.new").write_bytes(content)
        (folder_of(db) / "1.new").rename(folder_of(db) / "1.spool")
        until(lambda: requests.get(started.http + "/healthz", timeout=20).json()["last_damage"])
        assert f"damaged_bytes_total {len(content) / 2}" in counted(started, "damaged_bytes_total")
        assert started.stop() == 0
    assert numbers(db) == [1]


@pytest.mark.exhaustive
def test_a_thousand_malformed_bodies_are_answered_and_cost_nothing_else(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    place = st.integers(0, len(WHOLE) - 1)
    changed = st.builds(
        lambda at, length, new: WHOLE[:at] + new + WHOLE[at + length :],
        place,
        st.integers(0, 9),
        st.binary(max_size=9),
    )
    bodies = st.one_of(st.binary(max_size=200), changed, place.map(lambda at: WHOLE[:at]))
    kinds = st.sampled_from(["application/x-protobuf", "application/json", "text/plain"])
    codings = st.sampled_from([{}, {}, {}, {"Content-Encoding": "gzip"}])
    paths = st.sampled_from(["/v1/traces", "/v1/logs"])
    with receiver(db) as started, requests.Session() as session:

        @settings(max_examples=1000, suppress_health_check=list(HealthCheck), database=None)
        @given(bodies, kinds, codings, paths)
        def answered(body: bytes, kind: str, coding: dict[str, str], path: str) -> None:
            headers = {"Content-Type": kind} | coding
            answer = session.post(started.http + path, data=body, headers=headers, timeout=20)
            assert answer.status_code in (200, 400, 413, 415)

        answered()
        assert post(started, 100, 10).ok
        assert started.stop() == 0
    assert set(numbers(db)) >= set(range(100, 110))


def test_a_frame_cut_short_by_a_crash_is_left_out_and_the_rest_is_loaded(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    folder_of(db).mkdir()
    content = to_frames(rows_of([span(1)])) + to_frames(rows_of([span(2)]))
    (folder_of(db) / "1.open").write_bytes(content[:-1])
    with Store.open(db) as store:
        assert drain(store) == Added(1, 0, 0)
    assert list(folder_of(db).iterdir()) == []


def test_a_segment_that_was_altered_is_set_aside_and_kept(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    for number in (1, 2):
        segment = Segment(folder_of(db))
        segment.append([to_frames(rows_of([span(number)]))])
        segment.close()
    first = waiting(db)[0]
    content = bytearray(first.read_bytes())
    content[100] ^= 1
    first.write_bytes(content)
    with Store.open(db) as store:
        assert drain(store) == Added(1, 0, 0)
        assert store.query("SELECT span_id FROM spans") == [(f"{2:016x}",)]
    assert [path.suffix for path in folder_of(db).iterdir()] == [".rejected"]


def test_spans_from_before_those_that_are_stored_are_kept_and_counted_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:  # a clock that went backwards
        late, early = span(1, start_ns=2_000, end_ns=1_000), span(2, start_ns=1_000, end_ns=900)
        assert store.add([late]) == Added(1, 0, 0)
        assert store.add([early, late]) == Added(1, 0, 1)


def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    done = spangrade("serve", "--only", "receive", "--db", tmp_path / "s.duckdb", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert done.stderr == (
        "spangrade: host 0.0.0.0 is open to other machines: set a token ($SPANGRADE_TOKEN), "
        "or give --allow-anonymous\n"
    )
