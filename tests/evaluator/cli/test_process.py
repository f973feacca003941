"""How the process of a command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

NO_SUCH_COMMAND = 2
UNWRITTEN = 120  # how Python ends when it cannot write what was printed
FULL = Path("/dev/full")


def ran(before: str, *arguments: str, out: int | None = subprocess.PIPE) -> CompletedProcess[str]:
    """Run a command in a process of its own, after a program."""
    program = f"import atexit, sys, threading; {before}; from spangrade.evaluator.cli import run; run()"
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
def test_a_command_whose_output_cannot_be_written_fails() -> None:
    with FULL.open("w") as full:
        done = ran("print('before')", "no-such-command", out=full.fileno())
    assert done.returncode == UNWRITTEN
    assert "No space left on device" in done.stderr
