"""The command line, run in the test's own process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from spangrade.evaluator.cli import main


class Done(NamedTuple):
    """What a command came to: its exit code and what it printed, by line."""

    code: int
    out: list[str]
    err: list[str]


Spangrade = Callable[..., Done]


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> Done:
    """Run `spangrade` with arguments."""
    monkeypatch.setattr("sys.argv", ["spangrade", *map(str, arguments)])
    capsys.readouterr()
    umask = os.umask(0o022)  # a command sets it
    try:
        with pytest.raises(SystemExit) as exited:
            main()
    finally:
        os.umask(umask)
    printed = capsys.readouterr()
    code = exited.value.code
    return Done(int(code or 0), printed.out.splitlines(), printed.err.splitlines())
