"""Folding finds every digit, every compatibility letter and every character of no width."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spangrade.tracer.base.lookalike_letters import fold


def characters() -> Iterator[str]:
    return (chr(code) for code in range(0x80, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)


def test_digits_of_every_script_are_digits() -> None:
    for letter in characters():
        if (digit := unicodedata.decimal(letter, None)) is not None:
            assert fold(letter).text == str(digit), f"U+{ord(letter):04X}"


def test_compatibility_letters_are_ascii_letters() -> None:
    for letter in characters():
        plain = unicodedata.normalize("NFKC", letter)
        if plain.isascii() and len(plain) == 1 and (plain.isalnum() or plain in "@.+-_:/="):
            assert fold(letter).text == plain, f"U+{ord(letter):04X}"


def test_characters_of_no_width_disappear() -> None:
    shown = [letter for letter in characters() if unicodedata.category(letter) == "Cf" and fold(letter).text]
    assert [f"U+{ord(letter):04X}" for letter in shown] == []


@given(st.text(st.sampled_from('ab\\u0041é\u200b\uff21\u0661@\u00ad"😀'), max_size=30))
def test_every_character_of_folded_text_leads_back_to_the_original(text: str) -> None:
    folded = fold(text)
    places = [folded.original(at, at + 1) for at in range(len(folded.text))]
    assert "".join(fold(text[start:end]).text for start, end in places) == folded.text
    assert all(start < end for start, end in places)
    assert all(before[1] <= after[0] for before, after in pairwise(places))
