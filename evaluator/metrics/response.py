"""Metrics of the texts of replies: required and forbidden texts, and similarity with a reference."""

from __future__ import annotations

import re
from collections import Counter
from unicodedata import normalize

from spangrade.converters.datasets.forms import ANY, PATTERN, described
from spangrade.converters.datasets.golden import ExpectedReply, GoldenQuestion, RequiredText, TextForm
from spangrade.evaluator.metrics.causes import Cause, reply_cause
from spangrade.evaluator.metrics.columns import final_response
from spangrade.evaluator.metrics.masked import MASKED, has_mask, may_contain
from spangrade.evaluator.metrics.metric import Inconclusive, NotApplicable, Outcome, Score, metric
from spangrade.evaluator.metrics.patterns import matches_pattern
from spangrade.evaluator.metrics.reply_texts import folded, has_text, wanted_form
from spangrade.evaluator.metrics.stem import stem
from spangrade.evaluator.session import Session
from spangrade.tracer.base.lookalike_letters import is_blank

_TOKEN = re.compile(r"[^\W_]+")
_LONGEST_UNSTEMMED = 3  # letters, as in rouge-score


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
