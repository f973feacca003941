"""When what happened counts as what was expected: JSON values, tool arguments, sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar
from unicodedata import normalize

ArgumentMatcher = Literal["exact", "subset", "ignore"]
E = TypeVar("E")
A = TypeVar("A")

ANY_TEXT = "*"


def text_equal(left: str, right: str) -> bool:
    """Whether two texts are the same in Unicode NFC: é is é, whether it is one code point or two."""
    if left == right:
        return True
    if left.isascii() and right.isascii():
        return False
    return normalize("NFC", left) == normalize("NFC", right)


def json_equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, true is not 1, text is compared in Unicode NFC."""
    if isinstance(left, str):
        return isinstance(right, str) and text_equal(left, right)
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        left, right = _normal_keys(left), _normal_keys(right)
        return all(key in right and json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(json_equal, left, right))
    return _scalar_equal(left, right)


def arguments_match(expected: Any, actual: Any, matcher: ArgumentMatcher = "subset") -> bool:
    """Whether a call's arguments are the expected ones.

    `exact` wants the same keys, `subset` leaves keys that the reference does not name free (at every
    depth), `ignore` takes any arguments. A null under an expected key leaves that key free, and an
    expected `"*"` takes any string; in `actual` both are plain values.
    """
    return matcher == "ignore" or _matches(expected, actual, matcher == "subset")


def _matches(expected: Any, actual: Any, subset: bool) -> bool:
    if isinstance(expected, str):
        return isinstance(actual, str) and (expected == ANY_TEXT or text_equal(expected, actual))
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return False
        expected, actual = _normal_keys(expected), _normal_keys(actual)
        return (subset or expected.keys() >= actual.keys()) and all(
            value is None or (key in actual and _matches(value, actual[key], subset))
            for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(_matches(*pair, subset) for pair in zip(expected, actual, strict=True))
        )
    return _scalar_equal(expected, actual)


def _scalar_equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _normal_keys(value: dict[str, Any]) -> dict[str, Any]:
    return value if "".join(value).isascii() else {normalize("NFC", key): item for key, item in value.items()}


def maximum_matching(candidates: Sequence[Sequence[int]]) -> list[int | None]:
    """A largest one-to-one matching: for each row, the column it gets out of its candidates, or None.

    Rows give up a column for another one where that lets a further row in (augmenting paths, breadth
    first); taking the first free column for good would be wrong.
    """
    chosen: list[int | None] = [None] * len(candidates)
    owner: dict[int, int] = {}
    for row, columns in enumerate(candidates):
        reached_from: dict[int, int] = {}
        free = next((column for column in columns if column not in owner), None)
        if free is not None:
            reached_from[free] = row
        else:
            free = _search(row, candidates, owner, reached_from)
        while free is not None:
            taker = reached_from[free]
            owner[free] = taker
            chosen[taker], free = free, chosen[taker]
    return chosen


def _search(
    start: int, candidates: Sequence[Sequence[int]], owner: dict[int, int], reached_from: dict[int, int]
) -> int | None:
    """The nearest free column on an alternating path from `start`, with the way back in `reached_from`."""
    rows = [start]
    for row in rows:
        for column in candidates[row]:
            if column in reached_from:
                continue
            reached_from[column] = row
            if column not in owner:
                return column
            rows.append(owner[column])
    return None


def is_subsequence(expected: Iterable[E], actual: Iterable[A], match: Callable[[E, A], bool]) -> bool:
    """Whether `expected` occurs in `actual` in order, with anything in between.

    Each expected item takes the first actual one that matches after the last taken: what a later choice
    could still take, the earliest one can too, so this is right for partial matches as well.
    """
    rest = iter(actual)
    return all(any(match(item, other) for other in rest) for item in expected)


def common_length(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    One bit a place of `left` in a whole number (Hyyrö 2004, "Bit-parallel LCS-length computation
    revisited"), so that thousands of steps cost milliseconds.
    """
    places: dict[str, int] = {}
    for place, name in enumerate(left):
        places[name] = places.get(name, 0) | 1 << place
    everywhere = (1 << len(left)) - 1
    unmatched = everywhere
    for name in right:
        hits = unmatched & places.get(name, 0)
        unmatched = (unmatched + hits | unmatched - hits) & everywhere
    return len(left) - unmatched.bit_count()


def precision(matched: int, actual: int, expected: int) -> float:
    """`matched / actual`; of nothing, 1 if nothing was expected, else 0."""
    return matched / actual if actual else float(not expected)


def recall(matched: int, expected: int) -> float:
    """`matched / expected`; 1 if nothing was expected."""
    return matched / expected if expected else 1.0
