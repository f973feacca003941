"""Forms of an expected value: objects whose only key is a `$` word.

`$any`, `$text`, `$number` (with `within` beside it), `$pattern`, `$each`, `$null`, `$absent`, `$literal`.
Every other object is data, whatever its keys. docs/golden_questions.md says what each of them matches.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any
from unicodedata import category, normalize

import orjson

ANY, TEXT, NUMBER, PATTERN = "$any", "$text", "$number", "$pattern"
EACH, NULL, ABSENT, LITERAL = "$each", "$null", "$absent", "$literal"
WITHIN = "within"  # beside $number
USER, RESULT = "$user", "$result"  # references, which only arguments of calls have
_WORDS = frozenset({ANY, TEXT, NUMBER, PATTERN, EACH, NULL, ABSENT, LITERAL})
_TRUE = frozenset({NULL, ABSENT})  # words whose value is true
_COMMA = re.compile(r"(?<=\d),(?=\d)")
_SIGN = re.compile(r"(?<!\S)-(?=\d)")
_ESCAPED = re.compile(r"\\(?:([AZ])|.)", re.DOTALL)  # \A and \Z are anchors
_CLASS = re.compile(r"\[\^?\]?[^]]*\]")
_NOT_BESIDE = re.compile(r"\(\?<?!")
_ANCHOR = re.compile(r"[\^$]")
_SPACE = re.compile(r"(?<!\d) | (?!\d)")  # not between two digits


def word_of(expected: Mapping[str, Any]) -> str | None:
    """Return the `$` word of an expected object; None if it is data."""
    if len(expected) == 1:
        (word,) = expected
        if word in _WORDS and (word not in _TRUE or expected[word] is True):
            return word
    elif len(expected) == 2 and NUMBER in expected and WITHIN in expected:
        return NUMBER
    return None


def is_form(value: Mapping[str, Any]) -> bool:
    """Return whether the keys of an object are those of a form or of a reference, well written or not."""
    if len(value) == 1:
        return not (_WORDS | {USER, RESULT}).isdisjoint(value)
    return len(value) == 2 and value.keys() == {NUMBER, WITHIN}


def accepts_absent(expected: Any) -> bool:
    """Return whether the key of an expected value may be missing."""
    if not isinstance(expected, Mapping):
        return False
    word = word_of(expected)
    return word == ABSENT or (word == ANY and any(map(accepts_absent, expected[ANY])))


def mentions(expected: Any, word: str) -> bool:
    """Return whether a `$` word is a key anywhere in an expected value."""
    if isinstance(expected, Mapping):
        return word in expected or any(mentions(item, word) for item in expected.values())
    return isinstance(expected, list | tuple) and any(mentions(item, word) for item in expected)


def problem_of(expected: Any) -> str | None:
    """Return the first mistake in the `$` words of an expected value, with its path; None without one."""
    try:
        if b'"$' not in orjson.dumps(expected):  # most values have none, and this is found soonest
            return None
    except TypeError:  # a value that orjson cannot write, such as an integer beyond 64 bits
        pass
    return next(_problems(expected, "", is_value_of_key=False), None)


def _problems(value: Any, where: str, *, is_value_of_key: bool) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _problems(item, f"{where}[{index}]", is_value_of_key=False)
        return
    if not isinstance(value, Mapping):
        return
    if _WORDS.isdisjoint(value) or not is_form(value):
        for key, item in value.items():
            yield from _problems(item, f"{where}.{key}" if where else str(key), is_value_of_key=True)
        return
    word = next(key for key in value if key != WITHIN)
    if expected := _wanted(word, value, is_value_of_key=is_value_of_key):
        prefix = f"{where}: " if where else ""
        yield (
            f"{prefix}expected {expected}, found {json.dumps(value, default=repr)[:200]} "
            f'(an object that is data: {{"{LITERAL}": …}})'
        )
    elif word == ANY:
        for item in value[ANY]:
            yield from _problems(item, where, is_value_of_key=is_value_of_key)
    elif word == EACH:
        yield from _problems(value[EACH], f"{where}[]", is_value_of_key=False)


def _wanted(word: str, value: Mapping[str, Any], *, is_value_of_key: bool) -> str | None:
    """Return the expected form for one that is not valid, None if it is valid."""
    operand = value[word]
    if word == ANY:
        fits = isinstance(operand, list | tuple) and operand and None not in operand
        wanted = f'"{ANY}": a list of one value or more, null as {{"{NULL}": true}}'
    elif word == TEXT:
        fits, wanted = (
            isinstance(operand, str) and bool(folded_words(operand)),
            f'"{TEXT}": a text with a word',
        )
    elif word == NUMBER:
        within = value.get(WITHIN, 0)
        fits = _is_number(operand) and _is_number(within) and within >= 0
        wanted = f'"{NUMBER}": a number, and "{WITHIN}": a number from 0 on'
    elif word == PATTERN:
        fits, wanted = is_pattern(operand), f'"{PATTERN}": a regular expression of Python'
    elif word == NULL:
        fits, wanted = operand is True, f'"{NULL}": true'
    elif word == ABSENT:
        fits = operand is True and is_value_of_key
        wanted = f'"{ABSENT}": true, as the value of a key'
    else:
        return None
    return None if fits else wanted


def is_pattern(value: Any) -> bool:
    """Return whether a value is the text of a regular expression."""
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except (re.error, RecursionError, OverflowError):
        return False


def matches_all(pattern: str) -> bool:
    """Return whether every text has a match of a pattern: the empty text has one, and so does every place.

    A pattern that says what must not be there (`^(?!.*sorry)`) matches the empty text, too, and not every
    one, if it is anchored.
    """
    if re.search(pattern, "") is None:
        return False
    plain = _CLASS.sub("x", _ESCAPED.sub(lambda one: "^" if one[1] else "x", pattern))
    return not (_NOT_BESIDE.search(plain) and _ANCHOR.search(plain))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def folded_words(text: str) -> str:
    """Return the words of a text as `$text` compares them: without case, spaces and punctuation.

    What stands between two digits keeps them apart (`1.5` is not `15`), except a comma, and a minus sign
    before a number stays.
    """
    plain = normalize("NFC", normalize("NFC", text).casefold())
    signed = _SIGN.sub("\u2212", _COMMA.sub("", " ".join(plain.split())))
    if not signed.isascii() or not signed.isalnum():
        signed = "".join(" " if category(one).startswith("P") else one for one in signed)
    return _SPACE.sub("", " ".join(signed.split()))


def as_data(value: Any) -> Any:
    """Return a recorded JSON value as one to expect: an object that would be a form is a `$literal`."""
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if is_form(value):
        return {LITERAL: value}
    return {key: as_data(item) for key, item in value.items()}


def described(expected: Any) -> str:
    """Return an expected value as a reader is told it: JSON, and the `$` words as words."""
    if isinstance(expected, Mapping) and (word := word_of(expected)) is not None:
        operand = expected[word]
        if word == ANY:
            return " or ".join(described(item) for item in operand)
        if word == NUMBER:
            within = expected.get(WITHIN, 0)
            return f"{_json(operand)} ± {_json(within)}" if within else _json(operand)
        if word in (NULL, ABSENT):
            return "null" if word == NULL else "nothing"
        prefix = {TEXT: "the words ", PATTERN: "the pattern ", EACH: "each "}.get(word, "")
        return prefix + (described(operand) if word == EACH else _json(operand))
    return _json(expected)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except RecursionError:
        return "{…}"
