"""The spool keeps what was acknowledged, in spite of damage, crashes and a removed folder."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
from pathlib import Path

import pytest

from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Added, Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import (
    Damage,
    Frame,
    Segment,
    drain,
    folder_of,
    read_frames,
    to_frames,
    waiting,
    write,
)


def span(number: int) -> Span:
    attributes = {"text": f"{number} größe " * 20}
    return Span("1" * 32, f"{number + 1:016x}", None, "chat", "CLIENT", 1, 2, attributes=attributes)


def frame(number: int) -> bytes:
    return to_frames(rows_of([span(number)]))


def sealed(db: Path, content: bytes) -> Path:
    folder_of(db).mkdir(exist_ok=True)
    path = folder_of(db) / "00000000000000000001-1-000000.spool"
    path.write_bytes(content)
    return path


def loaded(db: Path) -> list[int]:
    """Load the spool; return the numbers of all spans that are stored."""
    with Store.open(db) as store:
        drain(store)
        return [int(span_id, 16) - 1 for (span_id,) in store.query("SELECT span_id FROM spans ORDER BY 1")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.short_form("seed", 3)
def test_bits_flipped_in_100_places_cost_only_the_frames_they_hit(tmp_path, caplog, seed):
    db = tmp_path / "s.duckdb"
    frames = [frame(number) for number in range(1000)]
    ends = [sum(map(len, frames[: number + 1])) for number in range(1000)]
    content = bytearray(b"".join(frames))
    places = random.Random(seed).sample(range(len(content)), 100)
    for place in places:
        content[place] ^= 1 << place % 8
    hit = {next(number for number, end in enumerate(ends) if place < end) for place in places}
    segment = sealed(db, bytes(content))
    with caplog.at_level(logging.ERROR, "spangrade"):
        assert loaded(db) == [number for number in range(1000) if number not in hit]
    kept = segment.with_suffix(".rejected")
    lost = b"".join(
        bytes(content[end - len(made_frame) : end])
        for number, (made_frame, end) in enumerate(zip(frames, ends, strict=True))
        if number in hit
    )
    assert kept.read_bytes() == lost
    assert list(folder_of(db).iterdir()) == [kept]
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"{segment}: {len(lost)} bytes in ")


@pytest.mark.parametrize("place", range(20))
def test_every_byte_of_a_header_may_be_damaged(tmp_path, place):
    content = bytearray(frame(0) + frame(1) + frame(2))
    content[len(frame(0)) + place] ^= 0xFF
    parts = list(read_frames(sealed(tmp_path / "s.duckdb", bytes(content))))
    damaged = bytes(content[len(frame(0)) : len(frame(0) + frame(1))])
    assert [part if isinstance(part, Damage) else part.table for part in parts] == [
        "spans",
        Damage(len(frame(0)), damaged, cut_short=False),
        "spans",
    ]


@pytest.mark.parametrize("lost", [frame(1)[:7], frame(1)[:-1], b"SGS2" * 9, b"\0" * 100], ids=range(4))
def test_what_is_not_a_frame_at_the_end_is_set_aside(tmp_path, lost):
    db = tmp_path / "s.duckdb"
    segment = sealed(db, frame(0) + lost)
    assert loaded(db) == [0]
    assert segment.with_suffix(".rejected").read_bytes() == lost


def test_rows_that_the_database_refuses_cost_their_frame_alone(tmp_path):
    db = tmp_path / "s.duckdb"
    refused = to_frames(rows_of([span(1)._replace(kind=None)]))
    segment = sealed(db, frame(0) + refused + frame(2))
    assert loaded(db) == [0, 2]
    assert segment.with_suffix(".rejected").read_bytes() == refused


WRITE_AND_DIE = """
import os, sys
from pathlib import Path
from spangrade.tracer.store.spool import Segment, folder_of
segment = Segment(folder_of(Path(sys.argv[1])), sys.argv[2])
segment.append([bytes.fromhex(sys.argv[3])])
print("written", flush=True)
sys.stdin.read()
os._exit(1)
"""


@pytest.mark.parametrize("suffix", [".open", ".part"])
def test_what_a_dead_process_left_open_is_loaded_and_what_a_living_one_holds_is_not(tmp_path, suffix):
    db = tmp_path / "s.duckdb"
    command = [sys.executable, "-c", WRITE_AND_DIE, str(db), suffix, (frame(0) + frame(1)[:-1]).hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "written\n"
        assert waiting(db) == []
        writer.kill()
        writer.wait()
        assert [path.suffix for path in waiting(db)] == [".spool"]
    assert loaded(db) == [0]
    assert list(folder_of(db).iterdir()) == []  # a frame that was cut short was never acknowledged


def test_a_command_that_reads_shows_what_a_dead_process_left(tmp_path):
    db = tmp_path / "s.duckdb"
    Store.open(db).close()
    write(db, rows_of([span(0)]))
    (segment,) = waiting(db)
    segment.rename(segment.with_suffix(".part"))
    command = [sys.executable, "-m", "spangrade", "sql", "--db", str(db), "SELECT count(*) AS n FROM spans"]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)) == (0, [{"n": 1}]), done
    assert list(folder_of(db).iterdir()) == []


def test_a_frame_damaged_before_a_crash_is_kept(tmp_path):
    db = tmp_path / "s.duckdb"
    damaged = bytearray(frame(1))
    damaged[-5] ^= 1
    segment = sealed(db, frame(0) + bytes(damaged))
    segment.rename(segment.with_suffix(".open"))
    assert loaded(db) == [0]
    assert segment.with_suffix(".rejected").read_bytes() == damaged


def test_a_segment_whose_folder_is_removed_is_written_again(tmp_path):
    db = tmp_path / "s.duckdb"
    segment = Segment(folder_of(db))
    segment.append([frame(0)])
    remove(folder_of(db))
    segment.append([frame(1)])
    remove(folder_of(db))
    segment.close()
    assert loaded(db) == [0, 1]


def remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_segment_that_cannot_be_read_stays_and_does_not_block_the_others(tmp_path, caplog):
    db = tmp_path / "s.duckdb"
    write(db, rows_of([span(0)]))
    unreadable = folder_of(db) / "0.spool"
    unreadable.mkdir()
    with Store.open(db) as store:
        assert drain(store) == Added(1, 0, 0)
    assert waiting(db) == [unreadable]
    assert [record.getMessage() for record in caplog.records] == [
        f"{unreadable}: cannot be read, and stays in the spool: Is a directory"
    ]


def test_frames_come_back_as_they_were_written(tmp_path):
    log = LogRecord(None, None, 5, "e")
    path = sealed(tmp_path / "s.duckdb", to_frames(rows_of([span(0), span(1), log])))
    assert [(part.table, len(part.rows)) for part in read_frames(path) if isinstance(part, Frame)] == [
        ("spans", 2),
        ("logs", 1),
    ]
