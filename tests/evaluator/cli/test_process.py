"""How the process of a command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import command_line
import pytest
from paths import SAMPLE

NO_SUCH_COMMAND = 2
FULL = Path("/dev/full")


def ran(before: str, *arguments: str, out: int | None = subprocess.PIPE) -> CompletedProcess[str]:
    """Run a command in a process of its own, after a program."""
    program = f"import atexit, sys, threading\n{before}\nfrom spangrade.evaluator.cli import run; run()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        check=False,
    )


def test_a_command_ends_with_its_code_after_what_is_registered_with_atexit() -> None:
    done = ran("atexit.register(print, 'at exit')", "no-such-command")
    assert (done.returncode, done.stdout) == (NO_SUCH_COMMAND, "at exit\n")
    assert "No such command 'no-such-command'." in done.stderr


def test_a_command_ends_when_other_threads_have() -> None:
    thread = "threading.Thread(target=lambda: (threading.main_thread().join(), print('thread'))).start()"
    done = ran(thread, "no-such-command")
    assert (done.returncode, done.stdout) == (NO_SUCH_COMMAND, "thread\n")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
def test_a_command_whose_output_cannot_be_written_fails_with_2() -> None:
    with FULL.open("w") as full:
        done = ran("", "--version", out=full.fileno())
    assert (done.returncode, done.stderr) == (2, "spangrade: standard output: No space left on device\n")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("stored") / "s.duckdb")
    assert command_line.run("import", SAMPLE / "spans.otlp.jsonl", "--db", path).code == 0
    return path


@pytest.mark.exhaustive
def test_a_command_ends_quietly_with_its_own_code_if_nobody_reads_what_it_prints(db: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    listed = ran("", "sql", "FROM range(100_000)", "--db", db, out=writer)
    graded = ran("", "grade", "--db", db, "--metric", "tool_success_rate>=1", out=writer)
    os.close(writer)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert (graded.returncode, graded.stderr) == (1, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.short_form("closed", 3)
def test_a_command_works_with_outputs_that_are_closed_from_the_beginning(db: str, closed: str) -> None:
    arguments = [sys.executable, "-m", "spangrade", "sessions", "--db", db]
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *arguments], check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "module",
    [
        "spangrade.tracer.configure",
        "spangrade.tracer.base.command_exit",
        "typer",
        "spangrade.evaluator.cli.sessions",
        "spangrade.tracer.store.untrusted",
    ],
)
@pytest.mark.short_form("module", 2)
def test_ctrl_c_at_any_moment_of_the_start_is_one_line_and_130(db: str, module: str) -> None:
    interrupt = f"""
def interrupt():
    while {module!r} not in sys.modules:
        pass
    os.kill(os.getpid(), signal.SIGINT)
import os, signal
threading.Thread(target=interrupt, daemon=True).start()
"""
    done = ran(f"exec({interrupt!r})", "sessions", "--db", db)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "spangrade: interrupted\n")


def test_ctrl_c_during_a_statement_of_duckdb_is_one_line_and_130(db: str) -> None:
    statement = "SELECT count(*) FROM range(1_000_000_000_000) a(x) WHERE hash(x) % 7 = 3"
    interrupt = "import os, signal; threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()"
    done = ran(interrupt, "sql", statement, "--db", db)
    assert (done.returncode, done.stderr) == (130, "spangrade: interrupted\n")


def test_a_defect_is_one_line_with_70_and_a_file_without_recorded_content(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # Put together, because Python 3.13 shows the lines of a program that stands on the command line.
    defect = "import spangrade; spangrade.open = lambda *_, **__: {}['what was ' + 'recorded']"
    done = ran(defect, "sessions")
    (file,) = tmp_path.iterdir()
    line = "spangrade: a defect of spangrade (KeyError); please report it: its traceback, without what was"
    assert (done.returncode, done.stdout, done.stderr) == (70, "", f"{line} recorded, is in {file}\n")
    text = file.read_text()
    assert "builtins.KeyError" in text
    assert "in sessions" in text
    assert "what was recorded" not in text
    assert file.stat().st_mode & 0o777 == 0o600


def test_help_imports_neither_duckdb_nor_pydantic() -> None:
    loaded = "atexit.register(lambda: print(sorted({'duckdb', 'pydantic', 'nanoarrow'} & set(sys.modules))))"
    done = ran(loaded, "--help")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]")
