"""The report files of a run beside its results.json and sessions.jsonl."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from spangrade.evaluator.reports.junit import write_junit
from spangrade.evaluator.reports.markdown import markdown
from spangrade.evaluator.run import Run
from spangrade.tracer.errors import InputError


def write_reports(run: Run, folder: Path, at: datetime) -> None:
    """Write junit.xml and summary.md to a folder that has the run's sessions.jsonl; `at` is the run's time.

    The lines of sessions.jsonl are read one by one, so that a large run is never held whole. Raises
    InputError if a file cannot be written.
    """
    try:
        write_junit(run, _lines(folder / "sessions.jsonl"), folder / "junit.xml", at)
        (folder / "summary.md").write_text(markdown(run), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)
