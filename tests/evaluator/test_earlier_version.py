"""What the version of 2026-11-23 wrote is opened: a database, doubled sessions, a run's folder, a spool."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import duckdb
import pytest
from command_line import Spangrade
from paths import FIXTURES

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


@pytest.mark.parametrize(("command", "code"), [("sessions", 0), ("derive", 0), ("grade", 4)])
@pytest.mark.short_form("command", 2)
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
    assert spangrade("compare", folder, folder, "--db", unzipped("sample.duckdb", tmp_path)).code == 0


def test_a_spool_is_loaded(tmp_path: Path) -> None:
    db = sg.open(unpacked("spool", tmp_path) / "s.duckdb")
    assert len(list(db.sessions())) == 4
    assert rows(db.path, "SELECT count(*) FROM spans") == [(44,)]
