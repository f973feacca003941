"""Compare what happened with what is expected: JSON values, tool arguments, sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar
from unicodedata import normalize

import orjson

ArgumentMatcher = Literal["exact", "subset", "ignore"]
E = TypeVar("E")
A = TypeVar("A")

_INTEGERS = range(-(2**63), 2**64)  # which what was recorded has as numbers
ANY_TEXT = "*"
NULL = "$null"
USER, RESULT = "$user", "$result"


class AnyOf(NamedTuple):
    """The values that a reference accepts; with `text`, a number that is written like one is equal to it."""

    values: tuple[Any, ...]
    text: bool = False

    def accepts(self, actual: Any) -> bool:
        """Return whether a value equals one of these."""
        return any(
            json_equal(value, actual) or (self.text and written_as(actual, value)) for value in self.values
        )


def written_as(value: Any, text: str) -> bool:
    """Return whether a value is a number that a text writes, with or without zeros at its end."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float(text) == value
    except ValueError:
        return False


def text_equal(left: str, right: str) -> bool:
    """Return whether two texts are equal in Unicode NFC: é is é, as one code point or two."""
    if left == right:
        return True
    if left.isascii() and right.isascii():
        return False
    return normalize("NFC", left) == normalize("NFC", right)


def normal_text(text: str) -> str:
    """Return a text in Unicode NFC, stripped, with each run of white space as one space."""
    text = " ".join(text.split())
    return text if text.isascii() else normalize("NFC", text)


def json_equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0, true is not 1, text is compared in NFC.

    An integer beyond 64 bits equals its text, which stands for it in what was recorded.
    """
    if isinstance(left, str) or isinstance(right, str):
        left, right = _as_recorded(left), _as_recorded(right)
        return isinstance(left, str) and isinstance(right, str) and text_equal(left, right)
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        left, right = _normal_keys(left), _normal_keys(right)
        return all(key in right and json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(json_equal, left, right))
    return _scalar_equal(left, right)


def _as_recorded(value: Any) -> Any:
    return str(value) if type(value) is int and value not in _INTEGERS else value


def expects_null(expected: Any) -> bool:
    """Return whether an expected value is `{"$null": true}`, which matches null alone."""
    return isinstance(expected, Mapping) and len(expected) == 1 and expected.get(NULL) is True


def is_reference(expected: Any) -> bool:
    """Return whether an expected value refers to another: `{"$user": NAME}`, `{"$result": "TOOL#/PATH"}`."""
    return (
        isinstance(expected, Mapping)
        and len(expected) == 1
        and any(isinstance(expected.get(kind), str) for kind in (USER, RESULT))
    )


def reference_of(expected: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind of a reference, USER or RESULT, and what it refers to."""
    ((kind, name),) = expected.items()
    return kind, name


def is_copy(expected: Any, actual: Any) -> bool:
    """Return whether a JSON value is the expected one to the letter, without a reference or `$null` in it.

    Such a value matches. Most calls do, and this is found sooner than by `arguments_match`.
    """
    if expected != actual:
        return False
    try:
        text = orjson.dumps(expected, option=orjson.OPT_SORT_KEYS)
        return text == orjson.dumps(actual, option=orjson.OPT_SORT_KEYS) and b'"$' not in text  # 1 == True
    except TypeError:  # what orjson cannot write
        return False


def arguments_match(expected: Any, actual: Any, matcher: Literal["exact", "subset"] = "subset") -> bool:
    """Return whether a call's arguments match the expected ones.

    `exact` requires the same keys, `subset` allows keys that the reference does not have (at every depth).
    An expected null matches any value or none, as the value of a key and as an element of a list; `"*"`
    matches any string and `{"$null": true}` null alone. In `actual` all of these are plain values.
    """
    return _matches(expected, actual, matcher == "subset")


def _matches(expected: Any, actual: Any, subset: bool) -> bool:
    if isinstance(expected, AnyOf):
        return expected.accepts(actual)
    expected, actual = _as_recorded(expected), _as_recorded(actual)
    if isinstance(expected, str):
        return isinstance(actual, str) and (expected == ANY_TEXT or text_equal(expected, actual))
    if isinstance(expected, dict):
        if expects_null(expected):
            return actual is None
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
            and all(
                value is None or _matches(value, other, subset)
                for value, other in zip(expected, actual, strict=True)
            )
        )
    return _scalar_equal(expected, actual)


def _scalar_equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _normal_keys(value: dict[str, Any]) -> dict[str, Any]:
    return value if "".join(value).isascii() else {normalize("NFC", key): item for key, item in value.items()}


def maximum_matching(candidates: Sequence[Sequence[int]]) -> list[int | None]:
    """Return a largest one-to-one matching: for each row, one of its candidate columns, or None.

    A row gives up its column for another if that lets one more row match (augmenting paths, breadth first);
    keeping the first free column would not find the largest matching.
    """
    chosen: list[int | None] = [None] * len(candidates)
    owner: dict[int, int] = {}
    for row, columns in enumerate(candidates):
        row_before: dict[int, int] = {}
        free = next((column for column in columns if column not in owner), None)
        if free is not None:
            row_before[free] = row
        else:
            free = _search(row, candidates, owner, row_before)
        while free is not None:
            next_row = row_before[free]
            owner[free] = next_row
            chosen[next_row], free = free, chosen[next_row]
    return chosen


def _search(
    start: int, candidates: Sequence[Sequence[int]], owner: dict[int, int], row_before: dict[int, int]
) -> int | None:
    """Return the nearest free column on an alternating path from `start`; `row_before` gets the path back."""
    rows = [start]
    for row in rows:
        for column in candidates[row]:
            if column in row_before:
                continue
            row_before[column] = row
            if column not in owner:
                return column
            rows.append(owner[column])
    return None


def is_subsequence(expected: Iterable[E], actual: Iterable[A], match: Callable[[E, A], bool]) -> bool:
    """Return whether `expected` occurs in `actual` in order, with anything in between.

    Each expected item takes the first actual one that matches after the last one taken. An earlier choice
    leaves at least as many items for the rest, so this holds for partial matches too.
    """
    rest = iter(actual)
    return all(any(match(item, other) for other in rest) for item in expected)


def arranged(expected: Sequence[str | Sequence[str]], actual: Sequence[str]) -> list[str]:
    """Return the expected names in one list, those of each nested list in the order nearest to what happened.

    That is the order with the longest subsequence in common with `actual`: for each number of names that
    match, the one that needs the fewest actual names is continued.
    """
    if not any(isinstance(block, tuple | list) for block in expected):
        return [name for name in expected if isinstance(name, str)]
    best: dict[int, tuple[int, list[str]]] = {0: (0, [])}
    for block in expected:
        longer: dict[int, tuple[int, list[str]]] = {}
        for matched, (start, before) in best.items():
            for more, (end, order) in enumerate(
                _orders([block] if isinstance(block, str) else block, actual, start)
            ):
                if matched + more not in longer or end < longer[matched + more][0]:
                    longer[matched + more] = (end, before + order)
        best = longer
    return best[max(best)][1]


def _orders(names: Sequence[str], actual: Sequence[str], start: int) -> Iterator[tuple[int, list[str]]]:
    """Yield, for 0, 1, … names that match from `start` on, where the last one does, and their order."""
    found: list[str] = []
    rest = list(names)
    yield start, rest[:]
    for place in range(start, len(actual)):
        if actual[place] in rest:
            rest.remove(actual[place])
            found.append(actual[place])
            yield place + 1, found + rest


def common_length(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    One bit of an integer per position of `left` (Hyyrö 2004, "Bit-parallel LCS-length computation
    revisited"), so that thousands of steps take milliseconds.
    """
    positions: dict[str, int] = {}
    for position, name in enumerate(left):
        positions[name] = positions.get(name, 0) | 1 << position
    all_bits = (1 << len(left)) - 1
    unmatched = all_bits
    for name in right:
        hits = unmatched & positions.get(name, 0)
        unmatched = (unmatched + hits | unmatched - hits) & all_bits
    return len(left) - unmatched.bit_count()


def precision(matched: int, actual: int, expected: int) -> float:
    """Return `matched / actual`; without actual items, 1 if nothing was expected, else 0."""
    return matched / actual if actual else float(not expected)


def recall(matched: int, expected: int) -> float:
    """Return `matched / expected`; 1 if nothing was expected."""
    return matched / expected if expected else 1.0
