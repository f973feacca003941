"""Compare recorded with expected values: JSON values, tool arguments, sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeVar
from unicodedata import normalize

import orjson

from spangrade.converters.datasets.forms import (
    ABSENT,
    ANY,
    EACH,
    LITERAL,
    NULL,
    NUMBER,
    PATTERN,
    RESULT,
    TEXT,
    USER,
    WITHIN,
    accepts_absent,
    folded_words,
    word_of,
)
from spangrade.evaluator.metrics.masked import may_be_masked
from spangrade.evaluator.metrics.patterns import matches_pattern

KeyRule = Literal["exact", "subset", "superset"]
ArgumentMatcher = Literal["exact", "subset", "superset", "ignore"]
E = TypeVar("E")
A = TypeVar("A")

_INTEGERS = range(-(2**63), 2**64)  # which what was recorded has as numbers
ANY_TEXT = "*"
Path = tuple[str | int, ...]


class _Missing(Enum):
    """The type of MISSING."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "<absent>"


MISSING = _Missing.MISSING  # the value of a key that is not there


class AnyOf(NamedTuple):
    """The values that a reference accepts; with `text`, a number that is written like one is equal to it."""

    values: tuple[Any, ...]
    text: bool = False

    def accepts(self, actual: Any) -> bool:
        """Return whether a value equals one of these."""
        return any(
            json_equal(value, actual) or (self.text and written_as(actual, value)) for value in self.values
        )


class Keyed(NamedTuple):
    """An expected value with a rule of its own for the keys in it."""

    value: Any
    keys: KeyRule


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
    return left is right or next(_differences(left, right, _LITERAL, ()), None) is None


def _as_recorded(value: Any) -> Any:
    return str(value) if type(value) is int and value not in _INTEGERS else value


def expects_null(expected: Any) -> bool:
    """Return whether an expected value is `{"$null": true}`, which matches null alone."""
    return isinstance(expected, Mapping) and word_of(expected) == NULL


def nulls_in(expected: Any) -> int:
    """Return the number of nulls in an expected value, which match anything."""
    if isinstance(expected, Mapping):
        return sum(map(nulls_in, expected.values()))
    if isinstance(expected, list | tuple):
        return sum(map(nulls_in, expected))
    return expected is None


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
    """Return whether a JSON value is the expected one to the letter, without a key that begins with `$`.

    Such a value matches. Most calls do, and this is found sooner than by `first_difference`.
    """
    if expected != actual:
        return False
    try:
        text = orjson.dumps(expected, option=orjson.OPT_SORT_KEYS)
        return text == orjson.dumps(actual, option=orjson.OPT_SORT_KEYS) and b'"$' not in text  # 1 == True
    except TypeError:  # what orjson cannot write
        return False


class ValueDifference(NamedTuple):
    """A place where a value is not as expected; MISSING is the side that has nothing there.

    `undecided` if that is not known yet: the texts may have the same meaning, or a pattern could not be
    searched. It is then as expected if all differences of one of the `alternatives` are, where it has some.
    """

    path: Path
    expected: Any
    actual: Any
    undecided: bool = False
    alternatives: tuple[tuple[ValueDifference, ...], ...] = ()


class Rules(NamedTuple):
    """How plain values are compared, and which keys may differ.

    `subset` allows keys that are not expected, `superset` that expected ones are missing, `exact` neither, at
    every depth. With `wildcards` an expected null matches any value, as the value of a key and as an element
    of a list, or a key that is not there, unless `keys` is `exact` and texts are compared as written; and
    `"*"` any text; else both are plain values. With `words` the `$` words count. `similar` returns whether a
    text matches an expected text or list of texts: true, or None if their meaning decides; without it they
    are compared.
    """

    keys: KeyRule = "subset"
    wildcards: bool = True
    words: bool = True
    similar: Callable[[Path, Any, str], bool | None] | None = None


SUBSET, STATE = Rules(), Rules("exact", wildcards=False)
_LITERAL = Rules("exact", wildcards=False, words=False)
_RULES = {"subset": SUBSET, "exact": Rules("exact"), "superset": Rules("superset")}


def rules_of(keys: KeyRule) -> Rules:
    """Return the rules by which a call's arguments are compared."""
    return _RULES[keys]


def differences(expected: Any, actual: Any, rules: Rules = SUBSET) -> Iterator[ValueDifference]:
    """Yield where a JSON value differs from the expected one, in the order of the expected value."""
    return _differences(expected, actual, rules, ())


def first_difference(expected: Any, actual: Any, rules: Rules = SUBSET) -> ValueDifference | None:
    """Return the first place where a JSON value differs from the expected one, None if it matches.

    One that is undecided is returned only if no other differs.
    """
    undecided = None
    for one in _differences(expected, actual, rules, ()):
        if not one.undecided:
            return one
        undecided = undecided or one
    return undecided


def _differences(expected: Any, actual: Any, rules: Rules, path: Path) -> Iterator[ValueDifference]:
    if isinstance(expected, dict):
        if rules.words and (len(expected) <= 2) and (word := word_of(expected)) is not None:
            yield from _of_word(word, expected, actual, rules, path)
        elif isinstance(actual, Mapping):
            yield from _of_keys(_normal_keys(expected), _normal_keys(actual), rules, path)
        else:
            yield _different(path, expected, actual)
    elif isinstance(expected, list):
        if rules.similar is not None and isinstance(actual, str) and _are_texts(expected):
            yield from _of_text(expected, actual, rules, path)
        elif isinstance(actual, list | tuple):
            yield from _of_items(expected, actual, rules, path)
        else:
            yield _different(path, expected, actual)
    elif isinstance(expected, str):
        actual = _as_recorded(actual)
        if not isinstance(actual, str):
            yield _different(path, expected, actual)
        elif rules.similar is not None:
            yield from _of_text(expected, actual, rules, path)
        elif not (rules.wildcards and expected == ANY_TEXT) and not text_equal(expected, actual):
            yield _different(path, expected, actual)
    elif isinstance(expected, Mapping | tuple):
        yield from _of_python(expected, actual, rules, path)
    elif not _scalar_equal(expected, actual):
        yield _different(path, expected, actual)


def _different(path: Path, expected: Any, actual: Any) -> ValueDifference:
    return ValueDifference(path, expected, actual, undecided=may_be_masked(expected, actual))


def _of_python(expected: Any, actual: Any, rules: Rules, path: Path) -> Iterator[ValueDifference]:
    """Yield how a value differs from one that no JSON text has: ours, or one of a test in Python."""
    if isinstance(expected, AnyOf):
        if not expected.accepts(actual):
            yield _different(path, expected, actual)
    elif isinstance(expected, Keyed):
        yield from _differences(expected.value, actual, rules._replace(keys=expected.keys), path)
    else:
        plain = dict(expected) if isinstance(expected, Mapping) else list(expected)
        yield from _differences(plain, actual, rules, path)


def _of_keys(
    expected: Mapping[str, Any], actual: Mapping[str, Any], rules: Rules, path: Path
) -> Iterator[ValueDifference]:
    for key, value in expected.items():
        if value is None and rules.wildcards:
            if rules.keys == "exact" and rules.similar is None and key not in actual:
                yield ValueDifference((*path, key), value, MISSING)
            continue
        if key in actual:
            other = actual[key]
            if value == other and type(value) is type(other) is str and rules.similar is None:
                continue
            yield from _differences(value, other, rules, (*path, key))
        elif rules.keys != "superset" and not (rules.words and accepts_absent(value)):
            yield ValueDifference((*path, key), value, MISSING)
    if rules.keys != "subset":
        for key, other in actual.items():
            if key not in expected:
                yield ValueDifference((*path, key), MISSING, other)


def _of_items(
    expected: Sequence[Any], actual: Sequence[Any], rules: Rules, path: Path
) -> Iterator[ValueDifference]:
    for index, (value, other) in enumerate(zip(expected, actual, strict=False)):
        if value is not None or not rules.wildcards:
            yield from _differences(value, other, rules, (*path, index))
    shorter = min(len(expected), len(actual))
    for index, value in enumerate(expected[shorter:], shorter):
        yield ValueDifference((*path, index), value, MISSING)
    for index, other in enumerate(actual[shorter:], shorter):
        yield ValueDifference((*path, index), MISSING, other)


def _of_text(expected: Any, actual: str, rules: Rules, path: Path) -> Iterator[ValueDifference]:
    if rules.similar is None or not rules.similar(path, expected, actual):
        yield ValueDifference(path, expected, actual, undecided=True)


def _of_word(
    word: str, expected: Mapping[str, Any], actual: Any, rules: Rules, path: Path
) -> Iterator[ValueDifference]:
    if may_be_masked(None, actual):  # all of it is masked
        yield _different(path, expected, actual)
        return
    operand = expected[word]
    if word == ANY:
        yield from _of_alternatives(expected, operand, actual, rules, path)
    elif word == EACH and isinstance(actual, list | tuple):
        yield from _of_items([operand] * len(actual), actual, rules, path)
    elif word == PATTERN and isinstance(actual, str):
        found = matches_pattern(operand, actual)
        if not found:
            yield ValueDifference(path, expected, actual, undecided=found is None)
    elif word not in _MATCHES or not _MATCHES[word](expected, actual):
        yield ValueDifference(path, MISSING if word == ABSENT else expected, actual)


def _of_alternatives(
    expected: Mapping[str, Any], alternatives: Iterable[Any], actual: Any, rules: Rules, path: Path
) -> Iterator[ValueDifference]:
    """Yield how a value differs from the alternative that is nearest to it, nothing if one matches."""
    found: list[tuple[ValueDifference, ...]] = []
    for alternative in alternatives:
        found.append(tuple(_differences(alternative, actual, rules, path)))
        if not found[-1]:
            return
    if possible := tuple(each for each in found if all(one.undecided for one in each)):
        yield ValueDifference(path, expected, actual, undecided=True, alternatives=possible)
        return
    nearest = min(found, key=len)
    if all(one.path != path for one in nearest):
        yield from nearest
    else:
        yield ValueDifference(path, expected, actual)


def _is_near(expected: Mapping[str, Any], actual: Any) -> bool:
    """Return whether a number is as far from another as `within` allows at most, in decimal digits."""
    if isinstance(actual, bool) or not isinstance(actual, int | float):
        return False
    number, within = expected[NUMBER], expected.get(WITHIN, 0)
    if actual == number:
        return True
    return abs(Decimal(str(actual)) - Decimal(str(number))) <= Decimal(str(within))


def _has_words(expected: Mapping[str, Any], actual: Any) -> bool:
    return isinstance(actual, str) and folded_words(expected[TEXT]) == folded_words(actual)


_MATCHES: Mapping[str, Callable[[Mapping[str, Any], Any], bool]] = {
    NULL: lambda _, actual: actual is None,
    LITERAL: lambda expected, actual: json_equal(expected[LITERAL], actual),
    TEXT: _has_words,
    NUMBER: _is_near,
}


def _are_texts(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def _scalar_equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(right, str):
        return False if type(left) is not int else _as_recorded(left) == right
    return bool(left == right)


def _normal_keys(value: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        if "".join(value).isascii():
            return value
    except TypeError:  # of a test in Python: keys that are not texts
        return value
    return {normalize("NFC", key): item for key, item in value.items()}


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
    """Return the expected names in one list, those of each nested list in the order nearest to the steps.

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
