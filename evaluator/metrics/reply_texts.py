"""Texts of replies compared: what differs in spelling alone is folded, and numbers are whole.

`FOLDED` is the table of what is folded, beside Unicode NFC, full and half width, and runs of white space as
one space. It is not NFKC, which makes `10²` to `102`. Numbers are written in one form: without the separators
of thousands, and without zeros that end a decimal part. Arguments, states, ids and results of tools are never
compared so.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final
from unicodedata import category, decomposition, normalize

from spangrade.tracer.base.lookalike_letters import without_width

# What characters are folded to, and which; full and half width come on top of them.
FOLDED: Final = {
    '"': "“”„‟″«»〝〞〟「」『』❝❞״",
    "'": "‘’‚‛′‹›ʻʼˈ´\u1ffd❛❜׳",
    "-": "‐‑‒–—―−⸺⸻⁃\u058a\u05be\u1400\u1806\u2e17\u2e1a\u2e40\u2e5d\u30a0\ufe31\ufe32\ufe58\ufe63",
    "...": "…⋯",
    "..": "‥",
    "'n": "ŉ",
}
_THIN = "\u00a0\u2009\u202f"  # spaces that part thousands; they are spaces where they do not
_BETWEEN = ".,':/_-"  # what stands between two digits of one number, date, time or code
# Scripts that are written without spaces, in which a letter before a minus does not make it a hyphen.
_UNSPACED = (
    range(0x0E00, 0x10A0),
    range(0x1780, 0x1800),
    range(0x3005, 0x3008),
    range(0x3040, 0x3100),
    range(0x3400, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x40000),
)


@cache
def _folds() -> dict[int, str]:
    """Return the form of each character that is folded by itself."""
    table = {one: to for to, all_of_it in FOLDED.items() for one in all_of_it}
    for code in range(0xFF01, 0xFFEF):
        kind, _, plain = decomposition(chr(code)).partition(" ")
        if kind in ("<wide>", "<narrow>"):
            letter = chr(int(plain, 16))
            table[chr(code)] = table.get(letter, letter)
    return str.maketrans({**table, "\u3000": " "})


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_PARTED = re.compile(rf"[.,'{_THIN}](?=\d)")  # found sooner than a number
_NUMBER = re.compile(rf"\d+(?:[.,'{_THIN}]\d+)+")
_GROUPED = re.compile(rf"([1-9]\d{{0,2}}(?:([,'{_THIN}])\d{{3}})(?:\2\d{{3}})*)(?:((?!\2)[.,])(\d+))?")
_DECIMAL = re.compile(r"(\d+)([.,])(\d+)")
_THIN_SPACE = re.compile(f"[{_THIN}]")


def folded(text: str, *, case: bool = False) -> str:
    """Return the form in which a text is compared, without case unless it counts."""
    if text.isascii():
        text = text if case else text.lower()
    else:
        text = text.translate(_folds())
        # The case is folded of what is decomposed: else folding it again would change it.
        text = normalize("NFC", text if case else normalize("NFD", text).casefold())
    if _PARTED.search(text):
        text = _NUMBER.sub(_number, text)
    return " ".join(text.split())


@lru_cache(4096)
def _letter_shown(letter: str) -> str:
    """Return the letter that a reader sees (NFKC), empty for one of no width.

    Numbers that are not digits (`²`, `½`) stay: `10²` is not `102`.
    """
    return letter if category(letter) == "No" else normalize("NFKC", without_width(letter))


def revealed(text: str) -> str:
    """Return the form in which a text is compared that must not be said: look-alike letters hide nothing."""
    form = folded(text)
    return form if form.isascii() else folded(_BEYOND_ASCII.sub(lambda one: _letter_shown(one[0]), form))


@lru_cache(4096)
def wanted_form(text: str, *, hidden: bool = False) -> str:
    """Return the form of a text that is looked for in many replies, `hidden` if it must not be said."""
    return revealed(text) if hidden else folded(text)


def has_text(reply: str, wanted: str) -> bool:
    """Return whether a reply has a text in it, both in the same form.

    The text does not begin or end within a number or a code: `15` is in `15kg`, and not in `150`, `a15`,
    `1.15` or `-15`. Words may go on: `refund` is in `refunded`.
    """
    start = reply.find(wanted)
    if start < 0 or not wanted:
        return start >= 0
    begins, ends = _is_number(wanted[:2]), _is_number(wanted[:-3:-1])
    while start >= 0:
        cut = (begins and _goes_on_before(reply, start)) or (
            ends and _goes_on_after(reply, start + len(wanted))
        )
        if not cut:
            return True
        start = reply.find(wanted, start + 1)
    return False


def contains(reply: str, wanted: str) -> bool:
    """Return whether a reply has a text in it."""
    return has_text(folded(reply), wanted_form(wanted))


def same_text(left: str, right: str) -> bool:
    """Return whether two replies are one text, with its case."""
    return left == right or folded(left, case=True) == folded(right, case=True)


def _number(found: re.Match[str]) -> str:
    """Return a number in its one form; what stands after a letter is a code, and stays."""
    whole, start = found[0], found.start()
    if start and _is_cased(found.string[start - 1]):
        return whole
    if _GROUPED.fullmatch(whole) or not _THIN_SPACE.search(whole):
        return _one_number(whole)
    return " ".join(map(_one_number, _THIN_SPACE.split(whole)))


def _one_number(text: str) -> str:
    """Return a number without the separators of thousands and the zeros that end its decimal part."""
    if grouped := _GROUPED.fullmatch(text):
        number, point, decimals = re.sub(r"\D", "", grouped[1]), grouped[3], grouped[4]
    elif decimal := _DECIMAL.fullmatch(text):
        number, point, decimals = decimal.groups()
    else:
        return text
    short = (decimals or "").rstrip("0")
    if not short:
        return number
    if len(short) == 3 and len(decimals) > 3 and _GROUPED.fullmatch(f"{number}{point}{short}"):
        short += "0"  # 12,3450 is not 12,345
    return f"{number}{point}{short}"


def _is_number(edge: str) -> bool:
    """Return whether the edge of a text, its outermost character first, belongs to a number."""
    beside = edge[1:2]
    return _is_digit(edge[0]) or (
        bool(beside) and _is_digit(beside) and (edge[0] in _BETWEEN or category(edge[0]) == "Sc")
    )


def _goes_on_before(reply: str, start: int) -> bool:
    """Return whether a number that stands at `start` began before it."""
    first, before = reply[start], reply[start - 1 : start] if start else ""
    if not before:
        return False
    if _is_digit(first):
        if _is_digit(before) or _is_cased(before):
            return True
        if before in _BETWEEN and start > 1 and _is_digit(reply[start - 2]):
            return True
        if category(before) == "Sc":
            return _is_minus(reply, start - 2)
        return _is_minus(reply, start - 1)
    if category(first) == "Sc":
        return _is_minus(reply, start - 1)
    return _is_digit(before) or (first == "-" and not _is_minus(reply, start))


def _goes_on_after(reply: str, end: int) -> bool:
    """Return whether a number that stands before `end` goes on there."""
    after = reply[end : end + 2]
    if not after:
        return False
    if _is_digit(after[0]):
        return True
    return len(after) > 1 and _is_digit(reply[end - 1]) and after[0] in _BETWEEN and _is_digit(after[1])


def _is_minus(reply: str, place: int) -> bool:
    """Return whether a "-" stands at a place, and no letter or digit before it."""
    if place < 0 or reply[place] != "-":
        return False
    if place == 0:
        return True
    before = reply[place - 1]
    return category(before)[0] not in "LMN" or any(ord(before) in script for script in _UNSPACED)


def _is_digit(letter: str) -> bool:
    return letter.isdecimal() if letter.isascii() else category(letter) in ("Nd", "No")


def _is_cased(letter: str) -> bool:
    """Return whether a letter is of a script with capitals, which writes words and numbers apart."""
    return letter.isalpha() and letter.lower() != letter.upper()
