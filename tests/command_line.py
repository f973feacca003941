"""The command line, run in the test's own process: to start another costs 0.7 s of CPU."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple
from unittest import mock

import pytest
from typer.main import get_command

from spangrade.converters import convert_adk_history_to_dataset, convert_test_to_golden
from spangrade.converters import script as script_door
from spangrade.evaluator.cli import main
from spangrade.evaluator.cli.app import app
from spangrade.evaluator.cli.commands import COMMANDS
from spangrade.evaluator.cli.settings import settings_by_flag

SCRIPTS = {
    "convert_test_to_golden.py": convert_test_to_golden.convert,
    "convert_adk_history_to_dataset.py": convert_adk_history_to_dataset.convert,
}


# What is a setting alone, of every command and of `run`: whether it is a yes or no, and its variable.
NOT_OPTIONS = {
    "--redact": (False, "SPANGRADE_REDACT"),
    "--no-reference": (False, "SPANGRADE_NO_REFERENCE"),
    "--require-match": (True, "SPANGRADE_REQUIRE_MATCH"),
    "--root-agent-name": (False, "SPANGRADE_ROOT_AGENT_NAME"),
    "--requested-calls": (False, "SPANGRADE_REQUESTED_CALLS"),
}
NOT_OF_RUN = {
    "--agent": (False, "SPANGRADE_RUN_AGENT_NAME"),
    "--metrics-file": (False, "SPANGRADE_METRICS_FILES"),
}


class Done(NamedTuple):
    """The result of a command: its exit code and what it printed, by line."""

    code: int
    out: list[str]
    err: list[str]


Spangrade = Callable[..., Done]


def with_variables(arguments: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return arguments without those that are settings alone, and these as variables.

    A test gives a setting of a command as if it were an option: `--judge-votes 3` is $SPANGRADE_JUDGE_VOTES.
    """
    given, rest = list(arguments), []
    if not given or given[0] not in COMMANDS:
        return given, {}
    known = _settings_of(given[0])
    variables: dict[str, str] = {}
    words = iter(given)
    for word in words:
        if word not in known:
            rest.append(word)
            continue
        is_flag, name = known[word]
        value = "1" if is_flag else next(words)
        variables[name] = f"{variables[name]},{value}" if name in variables else value
    return rest, variables


@cache
def _settings_of(command: str) -> dict[str, tuple[bool, str]]:
    get_command(app).get_command(None, command)  # its settings are known once it is built
    known = {**settings_by_flag(command), **NOT_OPTIONS}
    if command == "run":
        known |= NOT_OF_RUN
    if command not in ("grade", "audit"):
        known["--no-references"] = (True, "SPANGRADE_NO_REFERENCES")
    return known


def run(*arguments: str | Path) -> Done:
    """Run `spangrade` with arguments, or a script of the guide, by its file's name."""
    done = spangrade(*arguments)
    return Done(done.returncode, done.stdout.splitlines(), done.stderr.splitlines())


def spangrade(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> CompletedProcess[str]:
    """Run `spangrade` in a folder, with variables besides those of this process.

    Returns what `subprocess.run` would. Its input is `sys.stdin`, its umask 022.
    """
    given, variables = with_variables(map(str, arguments))
    command = ["spangrade", *given]
    environment = {**variables, **environment}
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
