"""Compare an agent's texts and values with the expected ones: by rules first, by the judge for meaning.

Only the expected side may contain patterns: `"*"` matches any string, `"<statement>"` a string that satisfies
the statement, a list of strings any string that matches one of them; a key or an element of a list with None
is not compared, and `{"$null": True}` matches None. The agent's side is never read as a pattern.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spangrade.evaluator.judge import Judge, Judgement, Question, default_judge, same_meaning, satisfies
from spangrade.evaluator.metrics.matching import expects_null


class _Absent:
    def __repr__(self) -> str:
        return "<absent>"


ABSENT = _Absent()
"""The value in a mismatch for a value that is missing."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where the actual value differs from the expected; `path` is like `result.temperatures[0]`."""

    path: str
    expected: Any
    actual: Any
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}\n  expected: {self.expected!r}\n  actual:   {self.actual!r}"


@dataclass(frozen=True, slots=True)
class Similarity:
    """The result of a comparison: true if nothing differs, else it holds the mismatches."""

    mismatches: tuple[Mismatch, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether nothing differs."""
        return not self.mismatches

    @property
    def error(self) -> str | None:
        """The mismatches as text; None if nothing differs."""
        return str(self) if self.mismatches else None

    def __bool__(self) -> bool:
        return self.is_success

    def __str__(self) -> str:
        return "\n".join(map(str, self.mismatches)) or "similar"

    def __repr__(self) -> str:
        """Return how many mismatches there are: a failed `assert` shows them below, one per line."""
        count = len(self.mismatches)
        return f"<Similarity: {count} mismatch{'' if count == 1 else 'es'}>"


class Comparing(Awaitable[Similarity]):
    """A comparison that runs when it is awaited or, outside of an event loop, converted to a bool.

    A plain coroutine is always true: an `assert` without its `await` would always pass.
    """

    def __init__(self, compare: Callable[[], Coroutine[Any, Any, Similarity]]) -> None:
        self._compare = compare
        self._similarity: Similarity | None = None

    def __await__(self) -> Generator[Any, None, Similarity]:
        if self._similarity is None:
            self._similarity = yield from self._compare().__await__()
        return self._similarity

    def result(self) -> Similarity:
        """Return the similarity, outside of an event loop.

        Raises:
            RuntimeError: an event loop is running here, so the comparison must be awaited.
        """
        if self._similarity is None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                self._similarity = asyncio.run(self._compare())
            else:
                raise RuntimeError("an event loop is running: write `await` before the comparison")
        return self._similarity

    @property
    def is_success(self) -> bool:
        """Whether nothing differs, outside of an event loop."""
        return self.result().is_success

    @property
    def error(self) -> str | None:
        """The mismatches as text, None if nothing differs; outside of an event loop."""
        return self.result().error

    def __bool__(self) -> bool:
        return self.is_success

    def __repr__(self) -> str:
        return "<Comparison, not awaited>" if self._similarity is None else repr(self._similarity)


def is_similar_str(actual: str, expected: str, *, judge: Judge | None = None) -> Comparing:
    """Compare a string with an expected one, which may be `"*"` or `"<statement>"`.

    Awaiting it returns a `Similarity`. Without `judge`, the judge of the environment is asked, and only if
    the texts differ in more than case, spaces, final punctuation, filler words and spelled-out numbers.

    Raises (when awaited):
        JudgeUnavailable: a judge is needed, and there is no key.
        JudgeError: the judge broke.
    """
    if not isinstance(expected, str):
        raise TypeError(f"is_similar_str: expected must be a str, found {type(expected).__name__}")
    return is_similar(actual, expected, judge=judge)


def is_similar_text(actual: str, expected: str | Sequence[str], *, judge: Judge | None = None) -> Comparing:
    """Compare a text with an expected one, or with a list of alternatives, as `is_similar_str` does."""
    if not isinstance(expected, str) and not _is_alternatives(expected):
        raise TypeError("is_similar_text: expected must be a str or a list of one str or more")
    return is_similar(actual, expected, judge=judge)


def is_similar_dict(
    actual: Mapping[str, Any],
    expected: Mapping[str, Any],
    *,
    extra_keys: bool = False,
    judge: Judge | None = None,
) -> Comparing:
    """Compare dictionaries recursively: strings as `is_similar_text` does, other values exactly.

    A key or an element of a list with an expected value of None is not compared; `{"$null": True}` expects
    None. A key that is not expected is a mismatch, at every level, unless `extra_keys`.
    """
    if not isinstance(expected, Mapping):
        raise TypeError(f"is_similar_dict: expected must be a dict, found {type(expected).__name__}")
    return is_similar(actual, expected, extra_keys=extra_keys, judge=judge)


def is_similar(
    actual: Any, expected: Any, *, path: str = "value", extra_keys: bool = False, judge: Judge | None = None
) -> Comparing:
    """Compare any two JSON values by the rules of `is_similar_text` and `is_similar_dict`.

    Lists are compared element by element, of equal length; 1 equals 1.0, True is not 1. `path` names the
    value in mismatches.
    """
    return Comparing(lambda: _similarity(actual, expected, path, extra_keys, judge))


async def _similarity(
    actual: Any, expected: Any, path: str, extra_keys: bool, judge: Judge | None
) -> Similarity:
    """Ask the judge only if the rules find no mismatch."""
    results = list(_compare(actual, expected, path, extra_keys))
    mismatches = [result for result in results if isinstance(result, Mismatch)]
    undecided = [result for result in results if isinstance(result, _Undecided)]
    if undecided and not mismatches:
        judge = judge or default_judge()
        outcomes = await asyncio.gather(*(_decide(one, judge) for one in undecided), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                mismatches.append(outcome)
    return Similarity(tuple(mismatches))


@dataclass(frozen=True, slots=True)
class _Undecided:
    """A string that matches if the judge answers one of the questions with yes."""

    path: str
    expected: Any
    actual: str
    questions: tuple[Question, ...]


async def _decide(one: _Undecided, judge: Judge) -> Mismatch | None:
    reasons = []
    for question in one.questions:  # one after another: after a yes the rest need not be asked
        verdict: Judgement = await judge.ask(question)
        if verdict.passed is True:
            return None
        reasons.append(verdict.reason)
    return Mismatch(one.path, one.expected, one.actual, "; ".join(reasons))


def _compare(actual: Any, expected: Any, path: str, extra_keys: bool) -> Iterator[Mismatch | _Undecided]:
    if expects_null(expected):
        if actual is not None:
            yield Mismatch(path, expected, actual, "expected null")
    elif isinstance(expected, Mapping):
        if isinstance(actual, Mapping):
            yield from _compare_keys(actual, expected, path, extra_keys)
        else:
            yield Mismatch(path, expected, actual, "expected an object")
    elif isinstance(actual, str) and (isinstance(expected, str) or _is_alternatives(expected)):
        yield from _compare_text(actual, expected, path)
    elif isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple):
            yield Mismatch(path, expected, actual, "expected a list")
        elif len(actual) != len(expected):
            reason = f"expected {len(expected)} elements, found {len(actual)}"
            yield Mismatch(path, expected, actual, reason)
        else:
            for index, (element, value) in enumerate(zip(actual, expected, strict=True)):
                if value is not None:
                    yield from _compare(element, value, f"{path}[{index}]", extra_keys)
    elif isinstance(expected, str):
        any_text = ": '*' is any string, None is any value" if expected == "*" else ""
        yield Mismatch(path, expected, actual, f"expected a string{any_text}")
    elif not _is_equal(actual, expected):
        yield Mismatch(path, expected, actual, "values that are not strings must be equal")


def _compare_keys(
    actual: Mapping[str, Any], expected: Mapping[str, Any], path: str, extra_keys: bool
) -> Iterator[Mismatch | _Undecided]:
    for key, value in expected.items():
        if value is None:
            continue
        if key in actual:
            yield from _compare(actual[key], value, f"{path}.{key}", extra_keys)
        else:
            yield Mismatch(f"{path}.{key}", value, ABSENT, "missing key")
    if not extra_keys:
        for key in actual:
            if key not in expected:
                yield Mismatch(f"{path}.{key}", ABSENT, actual[key], "unexpected key")


def _compare_text(actual: str, expected: str | Sequence[str], path: str) -> Iterator[Mismatch | _Undecided]:
    questions: list[Question] = []
    normal = normal_form(actual)
    for alternative in [expected] if isinstance(expected, str) else expected:
        if alternative == "*":
            return
        if statement := _STATEMENT.fullmatch(alternative.strip()):
            questions.append(satisfies(actual, statement[1].strip()))
        elif alternative == actual or normal_form(alternative) == normal:
            return
        else:
            questions.append(same_meaning(actual, alternative))
    yield _Undecided(path, expected, actual, tuple(questions))


_STATEMENT = re.compile(r"<(\s*\S.*)>", re.DOTALL)


def is_pattern(text: str) -> bool:
    """Return whether an expected text is `"*"` or a statement, not a text to compare with."""
    return text == "*" or _STATEMENT.fullmatch(text.strip()) is not None


def _is_alternatives(expected: Any) -> bool:
    return isinstance(expected, list | tuple) and bool(expected) and all(isinstance(e, str) for e in expected)


def _is_equal(actual: Any, expected: Any) -> bool:
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, int | float) and isinstance(expected, int | float):
        return actual == expected
    return type(actual) is type(expected) and bool(actual == expected)


_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
    "twenty",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS = {word: str(value) for value, word in enumerate(_UNITS)}
_NUMBERS |= {tens: str(10 * value) for value, tens in enumerate(_TENS, 2)}
_NUMBERS |= {
    f"{tens}-{_UNITS[unit]}": str(10 * value + unit)
    for value, tens in enumerate(_TENS, 2)
    for unit in range(1, 10)
}

# A number must be a word of its own: "one-way", "item_one" and "/one" are names, "no one" is a pronoun.
_NUMBER = re.compile(
    rf"(?<!\S)(?<!\bno )({'|'.join(sorted(_NUMBERS, key=len, reverse=True))})(?=[.,!?;:]*(?:\s|$))"
)
# A comma or the like must follow: "Well water is safe" does not begin with a filler.
_FILLER = re.compile(
    r"(?:(?:well|sure|okay|ok|oh|ah|um|uh|er|hmm|so|alright|of course|certainly)[,.!]+\s+)+(?=\S)"
)
_QUOTES = str.maketrans("‘’“”", "''\"\"")
# NFKC would change the meaning of these: 10² would become 102, and 2½ would become 21/2.
_MEANINGFUL = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")


def normal_form(text: str) -> str:
    """Return the text without differences that never change its meaning; the text itself if nothing remains.

    Normalized are case, white space, compatibility characters (Unicode NFKC, except powers, fractions and the
    like), curly quotes, a filler at the start ("Well, "), a final full stop, comma or exclamation mark, and
    spelled-out numbers up to ninety-nine. Question marks, "not" and digits within names are kept.
    """
    folded = "".join(
        one if unicodedata.decomposition(one).startswith(_MEANINGFUL) else unicodedata.normalize("NFKC", one)
        for one in unicodedata.normalize("NFC", text)
    )
    folded = " ".join(unicodedata.normalize("NFC", folded).translate(_QUOTES).casefold().split())
    folded = _FILLER.sub("", folded, count=1) if _FILLER.match(folded) else folded
    folded = _NUMBER.sub(lambda word: _NUMBERS[word[1]], folded)
    return folded.rstrip(".,!").rstrip() or text
