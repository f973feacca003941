"""The report files of a run of two sessions, each value of which is unknown, zero, one, two or huge."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from cases import cases, check
from grading import grade
from pydantic import TypeAdapter
from rich.console import Console

from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.reports.facts import SessionFacts
from spangrade.evaluator.reports.files import write_reports
from spangrade.evaluator.reports.headline import head_of_run, shown
from spangrade.evaluator.reports.json import written
from spangrade.evaluator.reports.session_text import session_text
from spangrade.evaluator.reports.tables import run_tables
from spangrade.evaluator.session import Session

SESSIONS: TypeAdapter[list[Session]] = TypeAdapter(list[Session])
AT = datetime(2026, 11, 21, 12, 30, 15, 999, UTC)


def reports(given: Any) -> dict[str, Any]:
    """Return what the report files have: JSON as its values, other text as its lines."""
    sessions = SESSIONS.validate_python(given["sessions"])
    questions = GoldenDataset.model_validate({"golden_questions": given["questions"]})
    run = Run("r1", "golden.json")
    with tempfile.TemporaryDirectory() as made, SessionFacts() as facts:
        folder = Path(made)
        for one in written(grade(facts.noted(sessions), questions), folder):
            run.add(one)
        write_reports(run, folder, questions, facts, AT)
        files = {file.name: _content(file) for file in sorted(folder.iterdir())}
    head = shown(head_of_run(run, again="spangrade run shop:agent", more=" --db s.duckdb"))
    tables = [] if (found := run_tables(run, every=True)) is None else [found]
    return {
        **files,
        "head": head.plain.splitlines(),
        "tables": printed(tables),
        "show": [session_lines(json.dumps(one)) for one in given["sessions"]],
    }


@cache  # of two sessions, a row changes one
def session_lines(given: str) -> list[str]:
    """Return what `show` prints of a session."""
    (session,) = SESSIONS.validate_python([json.loads(given)])
    return printed(session_text(session, None))


def printed(parts: Iterable[Any]) -> list[str]:
    """Return what a terminal of 120 columns shows, without lines that only frame."""
    console = Console(file=io.StringIO(), width=120, color_system=None)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip(" ┏━┓└─┘┡╇┩┴┳")]


def _content(file: Path) -> Any:
    lines = file.read_text("utf-8").splitlines()
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in lines]
    if file.suffix == ".csv":
        return list(csv.DictReader(file.read_text("utf-8").splitlines(keepends=True)))
    if file.suffix == ".xml":
        return [{"tag": one.tag, **one.attrib, "text": one.text} for one in ET.parse(file).iter()]  # noqa: S314 (ours)
    return json.loads("\n".join(lines)) if file.suffix == ".json" else lines


@pytest.mark.parametrize(("file", "place"), cases("reports"))
def test_a_report_prints_what_is_known(file: Path, place: str | None) -> None:
    check(file, place, reports)
