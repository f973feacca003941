"""Answers of genai-prices, kept in the user's cache folder.

To import the library takes a sixth of a small command. What it answered once holds for this release of it, so
the answer is kept: a line of JSON each, in a file of the release.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.file_modes import cache_folder, file_mode, folder_mode

_MAX_BYTES = 1 << 20  # some 10,000 answers; what comes after them is asked of the library each time

T = TypeVar("T")

Answer = str | int | list[str | bool | list[str]] | None  # as JSON has it: what `cost` asks and reads


class KeptAnswers:
    """The answers in one file: read when the first is needed, each new one appended. Without a file, none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._answers = _read(file)

    def get(self, question: list[str | int | None], ask: Callable[[], Answer], read: Callable[[Any], T]) -> T:
        """Return the kept answer to a question, as `read` reads it; without one, ask, and keep the answer.

        `read` raises ValueError for a value that is not an answer.
        """
        if _has_other_prices():
            return read(ask())
        key = json.dumps(question)
        if key in self._answers:
            with suppress(ValueError):
                return read(self._answers[key])
        self._answers[key] = answer = ask()
        self._append(json.dumps([question, answer]).encode() + b"\n")
        return read(answer)

    def _append(self, line: bytes) -> None:
        if self._file is None:
            return
        with suppress(OSError):  # the cache is a convenience
            self._file.parent.mkdir(mode=folder_mode(), parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, file_mode())
            try:
                if os.fstat(descriptor).st_size + len(line) <= _MAX_BYTES:
                    os.write(descriptor, line)  # in one piece: processes do not mix their lines
            finally:
                os.close(descriptor)


def _read(file: Path | None) -> dict[str, Any]:
    answers = {}
    with suppress(OSError):
        for line in file.read_bytes()[:_MAX_BYTES].splitlines() if file else ():
            with suppress(ValueError, TypeError):  # a line that was cut
                question, answer = json.loads(line)
                answers[json.dumps(question)] = answer
    return answers


def _has_other_prices() -> bool:
    """Return whether this process has given the library prices other than those of its release."""
    module = sys.modules.get("genai_prices.data_snapshot")
    return module is not None and getattr(module, "_custom_snapshot", module) is not None


@cache
def kept_answers() -> KeptAnswers:
    """Return what the installed release of genai-prices has answered to this user."""
    try:
        return KeptAnswers(cache_folder() / f"prices-{version('genai-prices')}.jsonl")
    except InputError:  # there is no folder
        return KeptAnswers(None)
