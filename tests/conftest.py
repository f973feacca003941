"""Fixtures that several test files share."""

from __future__ import annotations

from functools import partial

import command_line
import pytest


@pytest.fixture
def spangrade(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> command_line.Spangrade:
    """`spangrade` with arguments, run in the test's own process."""
    return partial(command_line.run, capsys, monkeypatch)
