"""A deletion that is killed is finished by the next process that opens the database for writing."""

from __future__ import annotations

import os
import shutil
import sys
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from spangrade import StoreError
from spangrade.evaluator.derive import update
from spangrade.evaluator.maintenance.delete import delete
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store, compact

# They free the space. At each new line of theirs the folder is copied: a SIGKILL would leave it so.
FUNCTIONS = {"mark_pending", "shrink", "_copy_access"}


def left_at_each_line(folder: Path, states: Path) -> list[Path]:
    """Delete a session; return what a kill at each line would leave, each folder that differs once."""
    left: list[Path] = []
    digests = set()
    lines = set()

    def keep() -> None:
        digest = sha256()
        for path in sorted(folder.rglob("*")):
            digest.update(f"{path} {path.lstat().st_mode}".encode())
            digest.update(path.read_bytes() if path.is_file() else b"")
        if digest.digest() not in digests:
            digests.add(digest.digest())
            left.append(states / f"{len(left)}")
            shutil.copytree(folder, left[-1], symlinks=True)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != compact.__file__ or frame.f_code.co_name not in FUNCTIONS:
            return None
        if event == "line" and frame.f_lineno not in lines:
            lines.add(frame.f_lineno)
            keep()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        delete(folder / "s.duckdb", sessions=["gone"])
    finally:
        sys.settrace(before)
    assert len(lines) > 20
    return left


def turn(session: str, number: int, text: str) -> Span:
    return Span(
        f"{number + 1:032x}",
        f"{number + 1:016x}",
        None,
        "invoke_agent shop",
        "INTERNAL",
        number,
        number + 10,
        status_message=text,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": session,
            "blob": os.urandom(3000).hex(),
        },
    )


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A link to a database of two sessions."""
    folder = tmp_path / "before"
    folder.mkdir()
    db = folder / "s.duckdb"
    db.symlink_to("file.duckdb")
    with Store.open(db) as store:
        store.add(turn("gone" if i % 2 else "kept", i, f"SECRET-{i}" if i % 2 else "") for i in range(100))
        update(store)
    db.chmod(0o600)
    return db


def sessions(db: Path) -> list[str]:
    with Store.open(db, read_only=True) as store:
        return [name for (name,) in store.query("SELECT session_id FROM derived.sessions ORDER BY ALL")]


def assert_deleted(db: Path, size: int) -> None:
    assert sorted(path.name for path in db.parent.iterdir()) == ["file.duckdb", "s.duckdb"]
    assert db.is_symlink()
    assert db.stat().st_mode & 0o777 == 0o600
    assert db.stat().st_size < size
    assert b"SECRET" not in db.read_bytes()
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT session_id FROM derived.sessions") == [("kept",)]
        assert store.query("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'unfinished%'") == []


@pytest.mark.exhaustive
def test_a_deletion_killed_at_any_step_is_finished_by_the_next_opening(db: Path, tmp_path: Path) -> None:
    size = db.stat().st_size
    states = []
    for step, folder in enumerate(left_at_each_line(db.parent, tmp_path / "killed")):
        killed = folder / "s.duckdb"
        copy = killed.with_name("file.duckdb.shrinking")
        if not copy.exists():
            states.append("deleted" if sessions(killed) == ["kept"] else "whole")
        else:
            assert copy.stat().st_mode & 0o777 == 0o700
            states.append("replaced" if "copying" in states and not list(copy.iterdir()) else "copying")
        if states[-1] == "whole" or (states[-1] != "replaced" and step % 2):
            assert delete(killed, sessions=["gone"]).spans == (50 if states[-1] == "whole" else 0)
        else:
            Store.open(killed).close()
        assert_deleted(killed, size)
    assert list(dict.fromkeys(states)) == ["whole", "deleted", "copying", "replaced"]
    assert_deleted(db, size)


@pytest.mark.exhaustive
def test_without_space_for_the_copy_the_database_works_and_the_file_shrinks_later(
    db: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    size = db.stat().st_size
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1000))
        with pytest.raises(
            StoreError, match="the sessions are deleted, but their bytes are still in the file"
        ):
            delete(db, sessions=["gone"])
        with Store.open(db) as store:
            store.add([turn("new", 1000, "")])
        assert "0.0 MB are free" in caplog.text
    assert sorted(path.name for path in db.parent.iterdir()) == ["file.duckdb", "s.duckdb"]
    assert delete(db, sessions=["new"]).spans == 1
    assert_deleted(db, size)
