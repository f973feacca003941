"""Metrics of the texts of replies: what they must have, must not have, and share with a reference."""

from __future__ import annotations

import re
from collections import Counter
from unicodedata import normalize

from spangrade.converters.datasets.forms import folded_text
from spangrade.converters.datasets.golden import ExpectedReply, GoldenQuestion, RequiredText
from spangrade.evaluator.metrics.columns import final_response
from spangrade.evaluator.metrics.masked import MASKED, may_contain
from spangrade.evaluator.metrics.metric import Inconclusive, NotApplicable, Outcome, Score, metric
from spangrade.evaluator.metrics.stem import stem
from spangrade.evaluator.session import Session
from spangrade.tracer.canonical_json import dumps

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
    if expected and not reply.strip():
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

    Texts are compared without case, white space as one space, commas between digits aside (1,234 is 1234).
    Inconclusive if a reply that may have the text is not recorded.

    Source: own definition.
    """
    wanted = [
        one if isinstance(one, RequiredText) else RequiredText(text=one)
        for one in question.reference("required_texts")
    ]
    replies = [turn.final_response for turn in session.turns]
    said = [None if reply is None else folded_text(reply) for reply in replies]
    missing: list[tuple[str, str]] = []
    unknown: list[tuple[str, str]] = []
    for one in wanted:
        possible = said if one.turn is None else said[one.turn - 1 : one.turn]
        text = folded_text(one.text)
        if not any(reply is not None and text in reply for reply in possible):
            place = "no reply has" if one.turn is None else f"the reply of turn {one.turn} does not have"
            (unknown if None in possible else missing).append((place, one.text))
    hidden = [one for one in missing if any(may_contain(one[1], reply or "") for reply in replies)]
    missing = [one for one in missing if one not in hidden]
    parts = [f"{place} {dumps(text)}" for place, text in missing]
    value = 1 - len(missing) / len(wanted)
    if unknown:
        texts = ", ".join(dumps(text) for _, text in unknown)
        lacking = (
            f"whether a reply has {texts} is not known: a reply is not recorded; record the model's output"
        )
        return Inconclusive("; ".join([*parts, lacking]), value)
    if hidden:
        texts = ", ".join(dumps(text) for _, text in hidden)
        return Inconclusive("; ".join([*parts, f"{MASKED}: it may have been {texts}"]), value)
    return Score(value, None, "; ".join(parts) or "as expected")


def _words(text: str) -> list[str]:
    """Return the words of a text: runs of letters and digits in NFC and lower case."""
    return _TOKEN.findall(normalize("NFC", text).lower())


def _stem(word: str) -> str:
    """Return an English word's stem; any other word, and a short one, as it is."""
    return stem(word) if len(word) > _LONGEST_UNSTEMMED and word.isascii() else word
