from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.evaluator.metrics.matching import (
    arranged,
    common_length,
    first_difference,
    is_copy,
    is_subsequence,
    json_equal,
    maximum_matching,
    rules_of,
)
from spangrade.evaluator.metrics.shown import difference_text, path_text

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (0, False, False),
        ([True], [1], False),
        ("caf\u00e9", "cafe\u0301", True),
        ({"caf\u00e9": 1}, {"cafe\u0301": 1}, True),
        ("K", "\u212a", True),  # the Kelvin sign: ASCII in NFC
        ("1", 1, False),
        (2**64, "18446744073709551616", True),  # as which it is recorded
        (2**64 - 1, "18446744073709551615", False),
        (None, False, False),
        ({"a": None}, {}, False),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ("*", "anything", False),
        (2**60, 2.0**60, True),
        (2**70, 2.0**70, True),
        (2**70 + 1, str(2**70 + 1), True),
        ([2**70 + 1], [str(2**70)], False),
        (2**63, str(2**63), False),
        (-(2**70), str(-(2**70)), True),
        (-100, "-100", False),
        (-5, -5.0, True),
        (-(2**63), -(2.0**63), True),
    ],
)
def test_json_equality(left: Any, right: Any, equal: bool) -> None:
    assert json_equal(left, right) is json_equal(right, left) is equal


@given(json_values)
def test_a_json_value_equals_itself_and_matches_itself(value: Any) -> None:
    assert json_equal(value, value)
    assert first_difference(value, value, rules_of("exact")) is None


@pytest.mark.parametrize(
    ("expected", "actual", "exact", "subset"),
    [
        ({"id": "7"}, {"id": "7"}, True, True),
        ({"id": "7"}, {"id": "7", "lang": "en"}, False, True),
        ({"id": "7", "lang": "en"}, {"id": "7"}, False, False),
        ({"id": None}, {"id": "7"}, True, True),
        ({"id": None}, {}, False, True),
        ({"id": None}, {"other": 1}, False, True),
        ({"id": "*"}, {"id": "7"}, True, True),
        ({"id": "*"}, {"id": 7}, False, False),
        ({"id": "*"}, {}, False, False),
        ({"ids": ["*", 2]}, {"ids": ["x", 2]}, True, True),
        ({"ids": ["*"]}, {"ids": ["x", "y"]}, False, False),
        ({"ids": [None]}, {"ids": ["x"]}, True, True),
        ({"ids": [None, "*"]}, {"ids": [{"a": 1}, "x"]}, True, True),
        ({"ids": [None]}, {"ids": []}, False, False),
        ({"id": {"$null": True}}, {"id": None}, True, True),
        ({"id": {"$null": True}}, {"id": 7}, False, False),
        ({"id": {"$null": True}}, {}, False, False),
        ({"ids": [{"$null": True}]}, {"ids": [None]}, True, True),
        ({"ids": [{"$null": True}]}, {"ids": ["x"]}, False, False),
        ({"id": {"$null": True}}, {"id": {"$null": True}}, False, False),
        ({"id": {"$null": False}}, {"id": {"$null": False}}, True, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False, True),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, False, True),
        ({"id": "7"}, {"id": "*"}, False, False),
        ({"id": "7"}, {"id": None}, False, False),
        ({"n": 1}, {"n": True}, False, False),
        ({"n": [0, 2]}, {"n": [False, 2]}, False, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, True),
        ({}, {"id": "7"}, False, True),
        ({}, "7", False, False),
        ({"stra\u00dfe": "caf\u00e9"}, {"stra\u00dfe": "cafe\u0301"}, True, True),
    ],
)
def test_only_the_expected_side_holds_patterns(expected: Any, actual: Any, exact: bool, subset: bool) -> None:
    assert (first_difference(expected, actual, rules_of("exact")) is None) is exact
    assert (first_difference(expected, actual) is None) is subset
    assert (exact and subset) or not is_copy(expected, actual)


def test_a_copy_is_the_same_value_without_a_reference_in_it() -> None:
    assert is_copy({"a": 1, "b": [None, "*"]}, {"b": [None, "*"], "a": 1})
    assert not is_copy({"a": 1}, {"a": 1.0})
    assert not is_copy({"a": {"$user": "name"}}, {"a": {"$user": "name"}})
    assert not is_copy({"a": 2**70}, {"a": 2**70})


def test_a_matching_that_takes_the_first_free_column_would_miss_one() -> None:
    assert maximum_matching([[0, 1], [0]]) == [1, 0]


@given(st.lists(st.lists(st.integers(0, 4), unique=True, max_size=5), max_size=5))
def test_the_matching_is_one_to_one_within_the_candidates_and_as_large_as_any(rows: list[list[int]]) -> None:
    chosen = maximum_matching(rows)
    taken = [column for column in chosen if column is not None]
    assert len(taken) == len(set(taken))
    assert all(column is None or column in row for column, row in zip(chosen, rows, strict=True))
    assert len(taken) == max(
        sum(column in row for column, row in zip(columns, rows, strict=True))
        for columns in permutations(range(5), len(rows))
    )


def test_a_long_chain_of_changes_of_mind_needs_no_recursion() -> None:
    n = 3000
    rows = [[0], *([i - 1, i] for i in range(1, n))]
    assert maximum_matching(list(reversed(rows))) == list(reversed(range(n)))


# An expected item is the set of actual items that it takes: any partial matcher.
partial_items = st.lists(st.frozensets(st.integers(0, 3)), max_size=4)


@given(partial_items, st.lists(st.integers(0, 3), max_size=7))
def test_the_leftmost_subsequence_is_found_whenever_any_is(
    expected: list[frozenset[int]], actual: list[int]
) -> None:
    assert is_subsequence(expected, actual, lambda wanted, got: got in wanted) == any(
        all(got in wanted for wanted, got in zip(expected, chosen, strict=True))
        for chosen in combinations(actual, len(expected))
    )


@given(st.text("abc", max_size=8), st.text("abcd", max_size=8))
def test_the_common_length_is_that_of_the_longest_common_subsequence(left: str, right: str) -> None:
    subsequences = {chosen for n in range(len(left) + 1) for chosen in combinations(left, n)}
    longest = max(
        len(chosen)
        for chosen in subsequences
        if is_subsequence(chosen, right, lambda wanted, got: wanted == got)
    )
    assert common_length(left, right) == common_length(right, left) == longest


_LONG, _MANY = "x" * 300, [f"key {number}" for number in range(99)]


@pytest.mark.parametrize(
    ("expected", "actual", "exact", "text"),
    [
        ({"id": "A1"}, {"id": "A2"}, False, 'id: expected "A1", was "A2"'),
        ({"id": "A1"}, {}, False, 'id: expected "A1", was not set'),
        ({}, {"id": "A1"}, True, 'id: expected nothing, was "A1"'),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": True}]}, False, "a[1].b: expected 2, was true"),
        ({"a": [1, 2]}, {"a": [1]}, False, "a[1]: expected 2, was not set"),
        ({"a": [1]}, {"a": [1, None]}, False, "a[1]: expected nothing, was null"),
        ({"a": {"b": 1}}, {"a": list(range(99))}, False, 'a: expected {"b":1}, was a list of 99'),
        ({"a": "x"}, {"a": dict.fromkeys(_MANY, 1)}, False, 'a: expected "x", was an object of 99 keys'),
        ({"a": _LONG + "1"}, {"a": _LONG + "2"}, False, f'a: expected "…{"x" * 20}1", was "…{"x" * 20}2"'),
        ({"a": _LONG}, {"a": "y"}, False, f'a: expected "{"x" * 99}…", was "y"'),
    ],
)  # fmt: skip
def test_what_differs_first_is_told_with_both_values(
    expected: Any, actual: Any, exact: bool, text: str
) -> None:
    found = first_difference(expected, actual, rules_of("exact" if exact else "subset"))
    assert found is not None
    assert difference_text(path_text(found.path), found) == text


def test_a_step_counts_for_one_nested_list() -> None:
    assert arranged([["c"], ["c"], ["c", "a"]], ["a", "c"]) == ["c", "c", "a", "c"]
