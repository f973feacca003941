"""Metrics of the texts of replies: required and forbidden texts, and similarity with a reference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from unicodedata import normalize

from spangrade.converters.datasets.forms import ANY, PATTERN, described
from spangrade.converters.datasets.golden import ExpectedReply, GoldenQuestion, RequiredText, TextForm
from spangrade.evaluator.metrics.causes import Cause, reply_cause
from spangrade.evaluator.metrics.columns import final_response
from spangrade.evaluator.metrics.masked import MASKED, has_mask, may_contain
from spangrade.evaluator.metrics.metric import Inconclusive, NotApplicable, Outcome, Score, metric
from spangrade.evaluator.metrics.patterns import matches_pattern
from spangrade.evaluator.metrics.reply_texts import folded, has_text, wanted_form
from spangrade.evaluator.session import Session
from spangrade.tracer.base.lookalike_letters import is_blank

_TOKEN = re.compile(r"[^\W_]+")
_LONGEST_UNSTEMMED = 3  # letters, as in rouge-score
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


@metric(needs="reference_response")
def response_match(session: Session, question: GoldenQuestion) -> Outcome:
    """ROUGE-1 F score of the last reply and the reference's: the words that both have.

    2 S / (|A| + |E|), S words that both have, of the words of the reply and of the reference.
    An empty reply is 0. Inconclusive if the reply is not recorded, or if one of the texts has no words.

    Source: ROUGE-1 (Lin 2004) with stems, as in ADK's `response_match_score`.
    """
    reply = final_response(session)
    if reply is None:
        return Inconclusive("the last reply is not recorded; record the model's output")
    reference = question.reference("reference_response")
    if isinstance(reference, ExpectedReply):
        if reference.match in ("contains", "pattern"):
            return NotApplicable(f"the reference is a part of a reply: {reference.match}")
        reference = reference.text
    actual = _words(reply)
    expected = actual if reference == reply else _words(reference)
    if expected and is_blank(reply):
        return Score(0.0, None, "the last reply is empty")
    if not actual or not expected:
        return Inconclusive(f"the {'reference' if actual else 'last reply'} has no words")
    if expected is actual:
        shared = len(actual)
    else:
        shared = (Counter(map(_stem, actual)) & Counter(map(_stem, expected))).total()
    reason = f"{shared} words of {len(actual)} in the reply and {len(expected)} in the reference"
    return Score(2 * shared / (len(actual) + len(expected)), None, reason)


@metric(needs="required_texts", threshold=1.0)
def required_texts(session: Session, question: GoldenQuestion) -> Outcome:
    """The share of the `required_texts` that a reply has, or that of the turn that the text names.

    Texts are compared without case, quotes, hyphens, spaces and width folded, and numbers whole (1,234 is
    1234, and not in 11,234); of `{"$any": […]}` one will do, and `{"$pattern": …}` is searched in the reply
    as it is.
    Inconclusive if a reply that may have the text is not recorded, or a search takes longer than a second.

    Source: own definition.
    """
    wanted = [
        one if isinstance(one, RequiredText) else RequiredText(text=one)
        for one in question.reference("required_texts")
    ]
    replies = [turn.final_response for turn in session.turns]
    said = [None if reply is None else (reply, folded(reply)) for reply in replies]
    missing: list[str] = []
    causes: list[Cause] = []
    unknown: list[str] = []
    for one in wanted:
        possible = said if one.turn is None else said[one.turn - 1 : one.turn]
        found = {None if reply is None else _has(one.text, *reply) for reply in possible}
        text = described(one.text)
        if True in found:
            continue
        if None in possible:
            lacking = "a reply is not recorded; record the model's output"
            unknown.append(f"whether a reply has {text} is not known: {lacking}")
        elif None in found:
            unknown.append(f"whether a reply has {text} is not known: the search took longer than a second")
        elif any(reply is not None and _may_have_had(one.text, reply[0]) for reply in possible):
            unknown.append(f"{MASKED}: it may have been {text}")
        else:
            place = "no reply has" if one.turn is None else f"the reply of turn {one.turn} does not have"
            missing.append(f"{place} {text}")
            causes.append(reply_cause(session, one.turn, f"required_texts {text}"))
    value = 1 - len(missing) / len(wanted)
    if unknown:
        return Inconclusive("; ".join([*missing, *unknown]), value)
    return Score(value, None, "; ".join(missing) or "as expected", tuple(causes))


def _has(wanted: TextForm, reply: str, form: str) -> bool | None:
    """Return whether a reply has a text, or one that a form says; None if a search did not end."""
    if isinstance(wanted, str):
        return has_text(form, wanted_form(wanted))
    if PATTERN in wanted:
        return matches_pattern(wanted[PATTERN], reply)
    found = [_has(one, reply, form) for one in wanted[ANY]]
    return True if True in found else None if None in found else False


def _may_have_had(wanted: TextForm, reply: str) -> bool:
    """Return whether a reply may have had a text before it was masked."""
    if isinstance(wanted, str):
        return may_contain(wanted, reply)
    return has_mask(reply) if PATTERN in wanted else any(_may_have_had(one, reply) for one in wanted[ANY])


def _words(text: str) -> list[str]:
    """Return the words of a text: runs of letters and digits in NFC and lower case."""
    return _TOKEN.findall(normalize("NFC", text).lower())


def _stem(word: str) -> str:
    """Return an English word's stem; any other word, and a short one, as it is."""
    return stem(word) if len(word) > _LONGEST_UNSTEMMED and word.isascii() else word


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word.

    M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980. ADK compares replies by these
    stems (ROUGE with `use_stemmer`); NLTK itself would be a large dependency for them.
    """
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
