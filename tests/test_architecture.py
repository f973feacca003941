"""What docs/architecture.md says: where each room begins, the floor that it stands on, and the nine steps."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from paths import ROOT, SAMPLE

import spangrade

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WRITER = runpy.run_path(str(ROOT / "docs" / "write_pages.py"))
FLOORS: list[tuple[str, list[str]]] = WRITER["floors"]()
STEPS = re.findall(r"^\| \d \| .* \| `([\w.]+)` \|$", PAGE, re.MULTILINE)
ROOMS = [
    path.parent.relative_to(ROOT)
    for folder in ("tracer", "converters", "evaluator")
    for path in sorted((ROOT / folder).rglob("__init__.py"))
    if "Begin with" in path.read_text(encoding="utf-8")
]


def named(text: str) -> Any:
    """Return what a dotted name is: modules, then an attribute of the last of them."""
    parts = text.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise AssertionError(text)


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_room_begins_where_it_says(room: Path) -> None:
    assert named(f"spangrade.{'.'.join(room.parts)}.{WRITER['begin_of'](ROOT / room)}") is not None


def test_a_room_of_the_evaluator_stands_on_the_floor_below_it() -> None:
    floors = [rooms for folder, rooms in FLOORS if folder]
    for rooms, below in pairwise(floors):
        folders = sorted(room for room in below if (ROOT / "evaluator" / room).is_dir()) or below
        for room in rooms:
            path = ROOT / "evaluator" / room / "__init__.py"
            if path.exists() and room != "apps":
                (said,) = re.findall(r"It stands on (.*) and what is below", path.read_text(encoding="utf-8"))
                assert re.findall(r"`(\w+)`", said) == folders, room


def test_a_span_is_taken_through_the_nine_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {named(name).__code__: name for name in STEPS}
    made: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            made.add(codes[frame.f_code])

    monkeypatch.chdir(tmp_path)
    database = spangrade.open("s.duckdb")
    before: Callable[..., Any] | None = sys.getprofile()
    sys.setprofile(note)
    try:
        database.import_files(SAMPLE / "spans.otlp.jsonl")
        database.grade(SAMPLE / "customer_service_golden.json")
    finally:
        sys.setprofile(before)
    assert len(STEPS) == 9
    assert set(STEPS) - made == set()
