"""The metric of the words of the last reply, compared with those of `reference_response`."""

from __future__ import annotations

import re
from collections import Counter
from unicodedata import normalize

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.columns import final_response
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.stem import stem
from spangrade.evaluator.session import Session

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


def _words(text: str) -> list[str]:
    """Return the words of a text: runs of letters and digits in NFC and lower case."""
    return _TOKEN.findall(normalize("NFC", text).lower())


def _stem(word: str) -> str:
    """Return an English word's stem; any other word, and a short one, as it is."""
    return stem(word) if len(word) > _LONGEST_UNSTEMMED and word.isascii() else word
