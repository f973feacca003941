"""Cases as data: what is given and what comes out, in `tests/cases/ROOM/*.json`, one loader for all rooms.

A file has a sentence `why`, what is `given`, and what is `expected` of it, whole. Its `rows` are the values
that were tried in one place of what is given, each with all that is then different in the outcome: a path
ends in the keys of objects and the numbers of items, and `"<absent>"` stands for what is not there.

`WRITE_CASES=1 pytest TESTS` writes what comes out, to be read in the diff before it is kept.
"""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).with_name("cases")
ABSENT = "<absent>"
Outcome = Callable[[Any], Any]


def cases(room: str) -> list[Any]:
    """Return the parameters of a room's test: a file of cases, and the place whose values it tries."""
    found = []
    for file in sorted((FOLDER / room).glob("*.json")):
        found += [
            pytest.param(file, place, id=f"{file.stem}-{place or 'whole'}")
            for place in (None, *json.loads(file.read_text("utf-8"))["rows"])
        ]
    return found


def check(file: Path, place: str | None, outcome: Outcome) -> None:
    """Compare what comes out of a file's cases with what is expected."""
    case = json.loads(file.read_text("utf-8"))
    given = case["given"]
    if place is None:
        found = as_json(outcome(given))
        if "WRITE_CASES" in os.environ:
            _write(file, {**case, "expected": found})
        different = difference(leaves(case["expected"]), leaves(found))
        assert not different, different
        return
    whole = leaves(case["expected"])
    rows = [
        [value, difference(whole, leaves(as_json(outcome(changed(given, place, value)))))]
        for value, _ in case["rows"][place]
    ]
    if "WRITE_CASES" in os.environ:
        _write(file, {**case, "rows": {**case["rows"], place: rows}})
    different = [pair for pair in zip(case["rows"][place], rows, strict=True) if pair[0] != pair[1]]
    assert not different, different


def changed(given: Any, place: str, value: Any) -> Any:
    """Return what is given with another value in one place."""
    made = copy.deepcopy(given)
    inner = made
    *around, last = [int(key) if key.isdecimal() else key for key in place.split("/")]
    for key in around:
        inner = inner[key]
    if value == ABSENT:
        inner.pop(last, None)
    else:
        inner[last] = value
    return made


def as_json(value: Any) -> Any:
    """Return a value as JSON: records by their fields, without those that are as their defaults."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        defaults = {one.name: one.default for one in fields(value)}
        known = {one.name: getattr(value, one.name) for one in fields(value)}
        return {key: as_json(inner) for key, inner in known.items() if inner != defaults[key]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        items = zip(value._fields, value, strict=True)
        default = value._field_defaults
        return {key: as_json(inner) for key, inner in items if key not in default or inner != default[key]}
    if isinstance(value, dict):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(map(as_json, value))
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    return value


def compare(file: Path, found: dict[str, Any]) -> None:
    """Compare what comes out with what a file has, a value of which is on each line."""
    if "WRITE_CASES" in os.environ:
        file.parent.mkdir(exist_ok=True)
        file.write_text(_by_lines(found), "utf-8")
    different = difference(leaves(json.loads(file.read_text("utf-8"))), leaves(found))
    assert not different, different


def _by_lines(found: dict[str, Any]) -> str:
    """Return JSON in which each value of the first objects has a line of its own."""
    parts = (
        f" {json.dumps(key)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(one)}: {json.dumps(value, ensure_ascii=False)}" for one, value in of.items()
        )
        + "\n }"
        for key, of in found.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def leaves(value: Any) -> dict[str, Any]:
    """Return the values that hold no others, by their paths."""
    return dict(_walk(value, ""))


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    items = dict(enumerate(value)) if isinstance(value, list) else value if isinstance(value, dict) else {}
    if not items:
        yield path, value
    for key, inner in items.items():
        yield from _walk(inner, f"{path}/{key}" if path else str(key))


def difference(whole: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return what is found where it is not as in the whole."""
    paths = dict.fromkeys((*whole, *found))
    return {
        path: found.get(path, ABSENT)
        for path in paths
        if not _are_same(whole.get(path, ABSENT), found.get(path, ABSENT))
    }


def _are_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))  # 1 is neither true nor 1.0


def _write(file: Path, case: Any) -> None:
    """Write cases, each row on a line of its own."""
    rows = ",\n".join(
        f"  {json.dumps(place)}: [\n"
        + ",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in tried)
        + "\n  ]"
        for place, tried in case["rows"].items()
    )
    rest = {key: value for key, value in case.items() if key != "rows"}
    head = json.dumps(rest, indent=1, ensure_ascii=False).removesuffix("\n}")
    file.write_text(f'{head},\n "rows": {{\n{rows}\n }}\n}}\n', "utf-8")
