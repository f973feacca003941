"""What the version of 2026-11-23 wrote is opened: a database, doubled sessions, a run's folder, a spool."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from pathlib import Path

import duckdb
import pytest
from command_line import Spangrade
from paths import FIXTURES, ROOT, SAMPLE

import spangrade as sg

EARLIER = FIXTURES / "databases" / "2026-11-23"


def unzipped(name: str, folder: Path) -> Path:
    """Return a copy of a database."""
    copy = folder / name
    copy.write_bytes(gzip.decompress((EARLIER / f"{name}.gz").read_bytes()))
    return copy


def unpacked(name: str, folder: Path) -> Path:
    """Return a copy of a folder."""
    content = gzip.decompress((EARLIER / f"{name}.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def rows(db: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(db, read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_a_database_has_the_same_sessions_runs_and_scores(tmp_path: Path, spangrade: Spangrade) -> None:
    db = unzipped("sample.duckdb", tmp_path)
    queries = (
        "SELECT session_id, turns, tool_calls FROM sessions ORDER BY ALL",
        "SELECT run_id, dataset FROM runs ORDER BY ALL",
        "FROM scores ORDER BY ALL",
    )
    before = [rows(db, query) for query in queries]
    assert all(before)
    assert spangrade("sessions", "--db", db).code == 0
    assert [rows(db, query) for query in queries] == before


@pytest.mark.exhaustive
@pytest.mark.parametrize(("command", "code"), [("sessions", 0), ("derive", 0), ("grade", 4)])
@pytest.mark.short_form("command", 2)
@pytest.mark.short_form("code", 2)
def test_the_first_command_heals_doubled_sessions(
    command: str, code: int, tmp_path: Path, spangrade: Spangrade
) -> None:
    db = unzipped("doubled.duckdb", tmp_path)
    counted = "SELECT session_id, count(*), sum(tool_calls)::INTEGER FROM sessions GROUP BY ALL ORDER BY ALL"
    assert [row[:2] for row in rows(db, counted)] == [(f"session-{number}", 3) for number in range(4)]
    options = ["--metric", "tool_success_rate>=1"] if command == "grade" else []
    done = spangrade(command, "--db", db, *options)
    assert done.code == code, done
    assert rows(db, counted) == [(f"session-{number}", 1, 2) for number in range(4)]


def test_a_runs_folder_is_compared(tmp_path: Path, spangrade: Spangrade) -> None:
    folder = unpacked("run", tmp_path)
    copied = shutil.copytree(folder, tmp_path / "again")
    assert spangrade("compare", folder, copied, "--db", unzipped("sample.duckdb", tmp_path)).code == 0


def test_a_spool_is_loaded(tmp_path: Path) -> None:
    db = sg.open(unpacked("spool", tmp_path) / "s.duckdb")
    assert len(list(db.sessions())) == 4
    assert rows(db.path, "SELECT count(*) FROM spans") == [(44,)]


GOLDEN = str(SAMPLE / "customer_service_golden.json")
FIRST = [  # commands as the first that opens the database
    ("sessions", "--all"),
    ("sql", "SELECT count(*) FROM sessions"),
    ("show", "conversation-1"),
    ("show", "conversation-1", "--why"),
    ("runs",),
    ("compare", "first", "second"),
    ("explain", "second"),
    ("trend", "tool_success_rate"),
    ("regrade", "first"),
    ("grade", GOLDEN),
    ("watch", "--once", "--metric", "token_usage<=1000000"),
    ("label", "conversation-2", "fail", "--by", "ines"),
    ("score", "conversation-2", "thumbs=0"),
    ("lint",),
    ("derive",),
    ("import", str(SAMPLE / "spans.otlp.jsonl")),
    ("view", "--export", "PAGES", "--run", "first"),
    ("judge", "agreement", "--metric", "tool_success_rate", "--threshold", "1"),
    ("convert", "conversation-1", "-o", "GOLDEN"),
    ("delete", "--session", "conversation-4"),
]


@pytest.mark.short_form("words", 20)
@pytest.mark.parametrize("words", FIRST, ids=" ".join)
def test_a_database_opens_under_every_command_and_keeps_what_was_given(
    words: tuple[str, ...], tmp_path: Path, spangrade: Spangrade
) -> None:
    db = unzipped("edd9acc.duckdb", tmp_path)
    given = "SELECT run_id, session_id, metric, value, passed, outcome, source, author, label FROM scores"
    kept = f"{given} WHERE session_id NOT IN ('conversation-2', 'conversation-4') ORDER BY ALL"
    before, spans = (set(rows(db, query)) for query in (kept, "SELECT span_id FROM spans"))
    assert rows(db, "SELECT max(version) FROM schema_version") == [(8,)]
    named = {"PAGES": tmp_path / "pages", "GOLDEN": tmp_path / "golden.json"}
    done = spangrade(*(named.get(word, word) for word in words), "--db", db)
    assert done.code in (0, 1, 4), done  # 4: too few labels to say how often a judge is right
    assert not any("Traceback" in line or "defect" in line for line in done.err)
    assert before <= set(rows(db, kept))
    if words[0] != "delete":
        assert spans <= set(rows(db, "SELECT span_id FROM spans"))
    sg.open(db).label("conversation-1", "fail", by="ann")  # it is written to, in the schema of today
    newest = int(sorted((ROOT / "tracer" / "store" / "migrations").glob("*.sql"))[-1].name[:4])
    assert rows(db, "SELECT max(version) FROM schema_version") == [(newest,)]
