"""The command line, run in the test's own process: to start another costs 0.7 s of CPU."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple
from unittest import mock

import pytest

from spangrade.converters import convert_adk_history_to_dataset, convert_test_to_golden
from spangrade.converters import script as script_door
from spangrade.evaluator.cli import main

SCRIPTS = {
    "convert_test_to_golden.py": convert_test_to_golden.convert,
    "convert_adk_history_to_dataset.py": convert_adk_history_to_dataset.convert,
}


class Done(NamedTuple):
    """The result of a command: its exit code and what it printed, by line."""

    code: int
    out: list[str]
    err: list[str]


Spangrade = Callable[..., Done]


def run(*arguments: str | Path) -> Done:
    """Run `spangrade` with arguments, or a script of the guide, by its file's name."""
    done = spangrade(*arguments)
    return Done(done.returncode, done.stdout.splitlines(), done.stderr.splitlines())


def spangrade(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> CompletedProcess[str]:
    """Run `spangrade` in a folder, with variables besides those of this process.

    Returns what `subprocess.run` would. Its input is `sys.stdin`, its umask 022.
    """
    command = ["spangrade", *map(str, arguments)]
    script = SCRIPTS.get(command[1]) if arguments else None
    if script is not None:
        del command[0]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    root = logging.getLogger()
    ours = logging.getLogger("spangrade")
    level, our_level, umask = root.level, ours.level, os.umask(0o022)  # a command sets these, and variables
    try:
        with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ, environment):
            patch.chdir(cwd or Path.cwd())
            patch.setattr("sys.argv", command)
            patch.setattr("sys.stdout", out)
            patch.setattr("sys.stderr", err)
            patch.setattr(script_door, "open_outputs", lambda: None)
            patch.setattr(root, "handlers", [])  # so that warnings are printed, as in a process of its own
            with pytest.raises(SystemExit) as exited:
                main() if script is None else script_door.run_script(script)
    finally:
        os.umask(umask)
        root.setLevel(level)
        ours.setLevel(our_level)
    printed = []
    for stream in (out, err):
        stream.flush()
        printed.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return CompletedProcess(command, int(exited.value.code or 0), *printed)
