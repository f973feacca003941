"""Any value as JSON: the same conversion for every writer, and one text for equal values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.tracer.base.canonical_json import canonical, dumps, json_value, plain_text


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Model(pydantic.BaseModel):
    tags: set[int]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, "a", None, True, 2.5), [1, "a", None, True, 2.5]),
        ({1: {2}}, {"1": [2]}),
        (b"\x00\xff", "AP8="),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
        (Point(1), {"x": 1}),
        (Model(tags={3}), {"tags": [3]}),
        ([2**64 - 1, -(2**63), 2**64], [2**64 - 1, -(2**63), str(2**64)]),
        ("\ud83d", "\ufffd"),
    ],
)
def test_a_value_and_its_text_are_converted_alike(value: Any, expected: Any) -> None:
    assert json_value(value) == expected
    assert json.loads(dumps(value)) == expected
    assert json.loads(dumps([value], indent=True)) == [expected]


def test_numbers_that_json_cannot_write_become_text() -> None:
    assert json_value([float("nan"), float("inf"), float("-inf")]) == ["NaN", "Infinity", "-Infinity"]


def test_a_hundred_levels_are_kept() -> None:
    nested: Any = 1
    for _ in range(100):
        nested = [nested]
    assert json_value(nested) == nested
    assert json.dumps(json_value([nested])) == "[" * 100 + '"<list>"' + "]" * 100


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"b": 1.0, "a": [1]}, {"a": (1.0,), "b": 1}),
        ({"é": "é"}, {"e\u0301": "e\u0301"}),
        ([2**70, "\ud800"], [str(2**70), "\ufffd"]),
    ],
)
def test_equal_values_share_one_text(one: Any, other: Any) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(("value", "text"), [("id-1", "id-1"), (5, "5"), ({"a": (1,)}, '{"a":[1]}')])
def test_a_text_stays_as_it_is_and_anything_else_is_its_json(value: Any, text: str) -> None:
    assert plain_text(value) == text


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("not today")


def test_a_value_whose_own_code_fails_becomes_the_name_of_its_type() -> None:
    assert json_value({"h": Hostile(), "x": 1}) == {"h": "<Hostile>", "x": 1}
    assert dumps([Hostile()]) == '["<Hostile>"]'


def test_a_value_that_refers_to_itself_or_to_everything_ends() -> None:
    ring: dict[str, object] = {"a": 1}
    ring["ring"] = [ring]
    assert json_value(ring) == {"a": 1, "ring": ["<dict>"]}
    knot: list[list[object]] = [[] for _ in range(40)]
    for knots in knot:
        knots.extend(knot)
    assert json_value({"knot": knot}) == "<dict>"


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_like)
def test_a_json_value_survives_as_it_is(value: Any) -> None:
    assert json_value(value) == value
    assert json.loads(dumps(value)) == value
