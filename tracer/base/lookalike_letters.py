"""Text with its look-alike characters folded, so that one pattern finds every way to write a value.

Full-width and other compatibility letters become ASCII, digits of every script 0 to 9, and dashes "-".
Characters of no width disappear, and JSON's `\\u0040` becomes the character. Letters of other alphabets that
look like Latin ones stay what they are.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import cache
from itertools import chain
from typing import NamedTuple

_ESCAPE = r"\\u([0-9a-fA-F]{4})"
_PUNCTUATION = frozenset("@.+-_:/=%&?#~() ")
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58"
_SHOWN = re.compile("[!-~]")  # nearly all texts have one of these, which any reader sees
# Besides those of Unicode's category Cf: joiners, fillers and variation selectors.
_NO_WIDTH = frozenset(
    {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0}
    | {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
)


class Folded(NamedTuple):
    """Folded text, and where its parts stand in the original: parallel lists, in order of `starts`.

    A part is either unchanged, or it stands for the original's characters up to the next part.
    """

    text: str
    starts: list[int]
    originals: list[int]
    unchanged: list[bool]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the folded text, of at least one character, stands in the original."""
        if not self.starts:
            return start, end
        first = bisect_right(self.starts, start) - 1
        last = bisect_right(self.starts, end - 1) - 1
        begin = self.originals[first] + (start - self.starts[first] if self.unchanged[first] else 0)
        stop = self.originals[last] + (end - self.starts[last])
        return begin, stop if self.unchanged[last] else self.originals[last + 1]


def plain_form(text: str) -> str:
    """Return text in Unicode NFKC, with each dash as "-" and without characters of no width.

    Texts that look the same to a reader have one plain form, but for letters of other alphabets.
    """
    if text.isascii():
        return text
    return "".join(
        "-" if letter in _DASHES or unicodedata.category(letter) == "Pd" else letter
        for letter in unicodedata.normalize("NFKC", without_width(text))
    )


def without_width(text: str) -> str:
    """Return text without the characters of no width."""
    return "".join(
        letter for letter in text if ord(letter) not in _NO_WIDTH and unicodedata.category(letter) != "Cf"
    )


def is_blank(text: str | None) -> bool:
    """Return whether a text shows nothing to a reader."""
    return text is None or not (_SHOWN.search(text) or plain_form(text).strip())


def fold(text: str) -> Folded:
    """Return text folded; it takes time in proportion to its length."""
    ascii_only = text.isascii()
    if ascii_only and "\\u" not in text:
        return Folded(text, [], [], [])
    letters, pattern = _letters()
    if ascii_only:
        pattern = _escapes()
    parts: list[str] = []
    folded = Folded("", [], [], [])
    length = position = 0

    def add(part: str, original: int, *, unchanged: bool) -> None:
        nonlocal length
        if part:
            parts.append(part)
        folded.starts.append(length)
        folded.originals.append(original)
        folded.unchanged.append(unchanged)
        length += len(part)

    for found in pattern.finditer(text):
        letter = chr(int(found[1], 16)) if found[1] else found[0]
        replacement = letters.get(letter, letter)
        if found[1] and letter not in letters and (not letter.isprintable() or letter in '"\\'):
            continue  # the escape says where a string ends, or is half a surrogate pair
        if found.start() > position:
            add(text[position : found.start()], position, unchanged=True)
        add(replacement, found.start(), unchanged=False)
        position = found.end()
    add(text[position:], position, unchanged=True)
    return folded._replace(text="".join(parts))


@cache
def _escapes() -> re.Pattern[str]:
    return re.compile(_ESCAPE)


@cache
def _letters() -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the letter to which each character is folded, and their pattern. It takes 30 ms, once."""
    letters = dict.fromkeys(_DASHES, "-")
    # All but Han, Hangul, private and unassigned characters.
    for code in chain(
        range(0x80, 0x3400), range(0xA4D0, 0xAC00), range(0xF900, 0x1FC00), range(0xE0000, 0xE01F0)
    ):
        letter = chr(code)
        if code in _NO_WIDTH or unicodedata.category(letter) == "Cf":
            letters[letter] = ""
            continue
        digit = unicodedata.decimal(letter, None)
        plain = unicodedata.normalize("NFKC", letter) if digit is None else str(digit)
        if len(plain) == 1 and plain.isascii() and (plain.isalnum() or plain in _PUNCTUATION):
            letters[letter] = plain
    return letters, re.compile(f"{_ESCAPE}|[{''.join(map(re.escape, letters))}]")
