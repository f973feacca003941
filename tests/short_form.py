"""Which cases of a table the test suite runs, and which only `-m exhaustive`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def short_form(cases: Iterable[Any], every: int) -> list[Any]:
    """Return the cases of a table for `parametrize`: all but each `every`th are marked exhaustive."""
    return [
        case if n % every == 0 else pytest.param(*_values(case), marks=pytest.mark.exhaustive)
        for n, case in enumerate(cases)
    ]


def short_form_of_commands(commands: Iterable[tuple[str, ...]], every: int) -> list[Any]:
    """Return commands as `short_form` does, each one value with its words as its id."""
    return [
        pytest.param(words, id=" ".join(words), marks=[pytest.mark.exhaustive] if n % every else [])
        for n, words in enumerate(commands)
    ]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
