"""Compare an agent's texts and values with the expected ones: by rules first, by the judge for meaning.

Only the expected side may contain patterns: `"*"` matches any string, `"<statement>"` a string that satisfies
the statement, a list of strings any string that matches one of them; a key or an element of a list with None
is not compared. The `$` words of docs/golden_questions.md count, too. The agent's side is never read as a
pattern.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spangrade.converters.datasets.forms import described, problem_of, word_of
from spangrade.evaluator.judge import Judge, Judgement, Question, default_judge, same_meaning, satisfies
from spangrade.evaluator.metrics.matching import MISSING, Path, Rules, ValueDifference, differences
from spangrade.evaluator.metrics.reply_texts import folded
from spangrade.evaluator.metrics.shown import path_text

ABSENT = MISSING
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

    A key or an element of a list with an expected value of None is not compared; the `$` words count, such as
    `{"$null": True}`. A key that is not expected is a mismatch, at every level, unless `extra_keys`.
    """
    if not isinstance(expected, Mapping):
        raise TypeError(f"is_similar_dict: expected must be a dict, found {type(expected).__name__}")
    return is_similar(actual, expected, extra_keys=extra_keys, judge=judge)


def is_similar(
    actual: Any,
    expected: Any,
    *,
    path: str = "value",
    extra_keys: bool = False,
    reply: Path = (),
    judge: Judge | None = None,
) -> Comparing:
    """Compare any two JSON values by the rules of `is_similar_text` and `is_similar_dict`.

    Raises ValueError (when awaited) for a `$` word that is not as it must be.

    Lists are compared element by element, of equal length; 1 equals 1.0, True is not 1. `path` names the
    value in mismatches; `reply` is the path of the text of a reply in it, whose spelling does not count.
    """
    return Comparing(lambda: _similarity(actual, expected, path, extra_keys, reply, judge))


async def _similarity(
    actual: Any, expected: Any, path: str, extra_keys: bool, reply: Path, judge: Judge | None
) -> Similarity:
    """Ask the judge only if the rules find no mismatch."""
    if problem := problem_of(expected):
        raise ValueError(f"{path}: {problem}")
    rules = Rules("subset" if extra_keys else "exact", similar=partial(_is_alike, reply))
    found = list(differences(expected, actual, rules))
    mismatches = [_mismatch(one, path) for one in found if not one.undecided]
    if found and not mismatches:
        outcomes = await asyncio.gather(*(_decide(one, path, judge) for one in found), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                mismatches.append(outcome)
    return Similarity(tuple(mismatches))


async def _decide(one: ValueDifference, path: str, judge: Judge | None) -> Mismatch | None:
    """Return how an undecided difference was decided: a mismatch, or None if the judge says yes."""
    for alternative in one.alternatives:
        if not any([await _decide(each, path, judge) for each in alternative]):
            return None
    if one.alternatives or isinstance(one.expected, Mapping):
        return _mismatch(one, path)
    judge, reasons = judge or default_judge(), []
    for question in _questions(one.expected, one.actual):  # after a yes the rest need not be asked
        verdict: Judgement = await judge.ask(question)
        if verdict.passed is True:
            return None
        reasons.append(verdict.reason)
    return replace(_mismatch(one, path), reason="; ".join(reasons))


def _mismatch(one: ValueDifference, path: str) -> Mismatch:
    inner = path_text(one.path)
    where = f"{path}{inner}" if not inner or inner.startswith("[") else f"{path}.{inner}"
    return Mismatch(where, one.expected, one.actual, _why(one))


def _why(one: ValueDifference) -> str:
    """Return why a value differs."""
    what = "element" if one.path and isinstance(one.path[-1], int) else "key"
    if one.actual is MISSING or one.expected is MISSING:
        return f"{'missing' if one.actual is MISSING else 'unexpected'} {what}"
    if isinstance(one.expected, Mapping):
        if word_of(one.expected) is None:
            return "expected an object"
        late = "; the search took longer than a second" if one.undecided and not one.alternatives else ""
        return f"expected {described(one.expected)}{late}"
    if isinstance(one.expected, str):
        any_text = ": '*' is any string, None is any value" if one.expected == "*" else ""
        return f"expected a string{any_text}"
    is_list = isinstance(one.expected, list | tuple)
    return "expected a list" if is_list else "values that are not strings must be equal"


def _is_alike(reply: Path, path: Path, expected: str | Sequence[str], actual: str) -> bool | None:
    """Return whether a text is an expected one, or one of several; None if its meaning decides."""
    form = reply_form if path == reply else normal_form
    normal = form(actual)
    for one in _alternatives(expected):
        is_text = _STATEMENT.fullmatch(one.strip()) is None
        if is_text and (one in ("*", actual) or form(one) == normal):
            return True
    return None


def _questions(expected: str | Sequence[str], actual: str) -> Iterator[Question]:
    for one in _alternatives(expected):
        if statement := _STATEMENT.fullmatch(one.strip()):
            yield satisfies(actual, statement[1].strip())
        else:
            yield same_meaning(actual, one)


def _alternatives(expected: str | Sequence[str]) -> Sequence[str]:
    return [expected] if isinstance(expected, str) else expected


_STATEMENT = re.compile(r"<(\s*\S.*)>", re.DOTALL)


def is_pattern(text: str) -> bool:
    """Return whether an expected text is `"*"` or a statement, not a text to compare with."""
    return text == "*" or _STATEMENT.fullmatch(text.strip()) is not None


def _is_alternatives(expected: Any) -> bool:
    return isinstance(expected, list | tuple) and bool(expected) and all(isinstance(e, str) for e in expected)


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
    plain = "".join(
        one if unicodedata.decomposition(one).startswith(_MEANINGFUL) else unicodedata.normalize("NFKC", one)
        for one in unicodedata.normalize("NFC", text)
    )
    plain = " ".join(unicodedata.normalize("NFC", plain).translate(_QUOTES).casefold().split())
    return _without_wording(plain) or text


def reply_form(text: str) -> str:
    """Return the text of a reply without differences that never change its meaning.

    These are those of `reply_texts`, and the wording of `normal_form`: fillers, spelled-out numbers, the end.
    """
    form = folded(text)
    return _without_wording(form) or form or text


def _without_wording(text: str) -> str:
    text = _FILLER.sub("", text, count=1) if _FILLER.match(text) else text
    text = _NUMBER.sub(lambda word: _NUMBERS[word[1]], text)
    return text.rstrip(".,!").rstrip()
