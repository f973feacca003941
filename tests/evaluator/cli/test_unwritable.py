"""What a command cannot write is one line that names it, with exit code 2; no planted link is followed."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from tempfile import gettempdir

import pytest
from command_line import run
from full_disks import full_disk
from made_once import copy_of_sample
from paths import RECORDED, SAMPLE

pytestmark = pytest.mark.makes_databases

GOLDEN = SAMPLE / "customer_service_golden.json"
MORE = RECORDED / "adk.otlp.jsonl"
FULL = os.strerror(errno.EFBIG)


MODULE = """
from spangrade import Score, metric

open("ran", "w").close()


@metric()
def mine(session):
    \"\"\"One.\"\"\"
    return Score(1.0)
"""
REPORTS: list[tuple[str | Path, ...]] = [
    ("grade", GOLDEN, "--out", "out"),
    ("audit", GOLDEN, "--out", "out"),
    ("compare", "first", "second", "--out", "out"),
    ("view", "--export", "out"),
]
WRITES: list[tuple[str | Path, ...]] = [
    ("grade", GOLDEN),
    ("import", MORE),
    ("label", "conversation-1", "--score", "thumbs=1"),
    ("label", "conversation-1", "pass", "--by", "ines"),
    ("serve", "--only", "grade", "--once", "--metric", "tool_success_rate>=1"),
    ("delete", "--session", "conversation-1"),
]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = copy_of_sample(tmp_path / "s.duckdb")
    for name in ("first", "second"):
        assert run("grade", GOLDEN, "--db", path, "--run", name).code == 0
    return path


@pytest.mark.exhaustive
@pytest.mark.parametrize("free_bytes", [0, 700])
@pytest.mark.parametrize("command", REPORTS, ids=lambda command: command[0])
@pytest.mark.short_form("command", 6)
@pytest.mark.short_form("free_bytes", 2)
def test_reports_on_a_full_disk_are_one_line_that_names_the_folder(
    command: tuple[str | Path, ...], free_bytes: int, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(db.parent)
    with full_disk(free_bytes):
        done = run(*command, "--db", db)
    assert (done.code, len(done.err)) == (2, 1)
    assert re.fullmatch(rf"spangrade: (out|{gettempdir()}): cannot be written: {FULL}", done.err[0])


@pytest.mark.parametrize("command", WRITES, ids=lambda command: command[0])
@pytest.mark.short_form("command", 6)
def test_a_database_on_a_full_disk_is_one_line_that_names_it(
    command: tuple[str | Path, ...], db: Path
) -> None:
    with full_disk(0):
        done = run(*command, "--db", db)
    assert (done.code, len(done.err)) == (2, 2 if command[0] == "delete" else 1)  # it says what it deletes
    assert done.err[-1].startswith(f"spangrade: {db}: ")


@pytest.mark.parametrize("command", REPORTS, ids=lambda command: command[0])
@pytest.mark.short_form("command", 4)
def test_a_planted_link_is_replaced_and_not_followed(
    command: tuple[str | Path, ...], db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(db.parent)
    assert run(*command, "--db", db).code in (0, 4)
    names = [file.relative_to("out") for file in Path("out").rglob("*") if file.is_file()]
    contents = {name: Path("out", name).stat().st_size for name in names}
    shutil.rmtree("out")
    for name in names if command[0] != "view" else []:
        Path("out", name).parent.mkdir(parents=True, exist_ok=True)
        Path(f"target-{name}").write_text("mine")
        Path("out", name).symlink_to(f"../target-{name}")
    run(*command, "--db", db)
    written = {name: Path("out", name).stat().st_size for name in names}
    assert written.keys() == contents.keys()
    assert [name for name in names if Path("out", name).is_symlink()] == []
    assert all(Path(f"target-{name}").read_text() == "mine" for name in names if command[0] != "view")


def test_a_converted_file_does_not_go_where_a_dangling_link_points(tmp_path: Path) -> None:
    (tmp_path / "golden.json").symlink_to(tmp_path / "elsewhere.json")
    done = run("convert", SAMPLE / "missing.csv", "--output", tmp_path / "golden.json")
    assert done.code == 2
    assert not (tmp_path / "elsewhere.json").exists()


def test_listing_metrics_runs_no_module_that_a_found_settings_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs.py").write_text(MODULE)
    Path("spangrade.toml").write_text('metrics_files = ["theirs.py"]')
    done = run("lint", "--metrics")
    line = f"spangrade: {tmp_path / 'theirs.py'}: not run to list its metrics: name it with --metrics-file"
    assert (done.code, done.err, Path("ran").exists()) == (0, [line], False)
    assert run("lint", "--metrics", "--metrics-file", "theirs.py").code == 0
    assert Path("ran").exists()
    Path("ran").unlink()
    assert run("lint", "--metrics", "--config", "spangrade.toml").code == 0
    assert Path("ran").exists()
