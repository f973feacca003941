"""English word stems, by Porter's algorithm with the changes that NLTK makes to it.

M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980. ADK compares replies by these stems
(ROUGE with `use_stemmer`); NLTK itself would be a large dependency for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

_IRREGULAR = {
    "sky": "sky", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news",
    "innings": "inning", "inning": "inning", "outings": "outing", "outing": "outing",
    "cannings": "canning", "canning": "canning", "howe": "howe", "proceed": "proceed",
    "exceed": "exceed", "succeed": "succeed",
}  # fmt: skip

_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"),
    ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"),
    ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""),
    ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism",
    "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word."""
    if word in _IRREGULAR or len(word) <= 2:
        return _IRREGULAR.get(word, word)
    word = _without_ending(_without_plural(word))
    if word.endswith("y") and len(word) > 2 and _is_consonant(word, len(word) - 2):
        word = f"{word[:-1]}i"
    word = _step_2(word)
    word = _replaced(word, _STEP_3, lambda rest: _measure(rest) > 0)
    word = _step_4(word)
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _without_plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_ending(word: str) -> str:
    """Return a word without `ed` or `ing`."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    rest = next(
        (word[: -len(end)] for end in ("ed", "ing") if word.endswith(end) and _has_vowel(word[: -len(end)])),
        None,
    )
    if rest is None:
        return word
    if rest.endswith(("at", "bl", "iz")):
        return f"{rest}e"
    if len(rest) > 1 and rest[-1] == rest[-2] and _is_consonant(rest, len(rest) - 1):
        return rest if rest[-1] in "lsz" else rest[:-1]
    return f"{rest}e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _step_2(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _step_2(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replaced(word, _STEP_2, lambda rest: _measure(rest) > 0)


def _step_4(word: str) -> str:
    for end in _STEP_4:
        if word.endswith(end):
            rest = word[: -len(end)]
            return rest if _measure(rest) > 1 and (end != "ion" or rest[-1] in "st") else word
    return word


def _replaced(word: str, endings: Iterable[tuple[str, str]], applies: Callable[[str], bool]) -> str:
    """Return a word with its first ending of a list replaced, if the rule applies to the rest."""
    for end, replacement in endings:
        if word.endswith(end):
            rest = word[: -len(end)]
            return rest + replacement if applies(rest) else word
    return word


def _is_consonant(word: str, position: int) -> bool:
    if word[position] == "y":
        return position == 0 or not _is_consonant(word, position - 1)
    return word[position] not in "aeiou"


def _kinds(word: str) -> str:
    """Return a word with each letter as `c` for a consonant or `v` for a vowel."""
    kinds = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and kinds.endswith("c"))
        kinds += "v" if is_vowel else "c"
    return kinds


def _measure(word: str) -> int:
    """Return how often vowels are followed by consonants."""
    return _kinds(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _kinds(word)


def _ends_short(word: str) -> bool:
    """Return whether a word ends with consonant, vowel, consonant (not w, x or y), or is vowel, consonant."""
    kinds = _kinds(word)
    return kinds == "vc" or (kinds.endswith("cvc") and word[-1] not in "wxy")
