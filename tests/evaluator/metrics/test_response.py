"""The words of the reply: the values of ADK's `response_match_score`, computed by rouge-score 0.1.2."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import question, session, turn
from grading import run_metric

from spangrade.evaluator.metrics import Inconclusive, Outcome, Score, parse_metric
from spangrade.evaluator.metrics.response import stem


def matched(reply: str | None, reference: str, requested: str = "response_match") -> Outcome:
    made = replace(session([("hi", ())]), turns=(turn(final_response=reply),))
    return run_metric(parse_metric(requested), made, question(reference_response=reference))


@pytest.mark.parametrize(
    ("reply", "reference", "value"),
    [
        ("Your order A-1003 is on its way.", "The order A-1003 is on the way.", 0.75),
        ("Refunds were issued quickly", "A refund was issued", 0.5),
        ("the the the", "the cat", 0.4),
        ("snake_case names", "snake case name", 1.0),
        ("no overlap", "something else", 0.0),
        ("I'm sorry, we can't ship 12.50", "sorry: cannot ship 12,50 I m", 0.75),
    ],
)
def test_a_text_in_ascii_gets_adks_value(reply: str, reference: str, value: float) -> None:
    outcome = matched(reply, reference)
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(value)


def test_words_of_other_scripts_count_in_any_unicode_form() -> None:
    for reply, reference in (
        ("Le caf\u00e9 est l\u00e0", "le CAFE\u0301 est la\u0300"),
        ("注文 到着", "注文 到着"),
    ):
        outcome = matched(reply, reference)
        assert isinstance(outcome, Score)
        assert outcome.value == 1


def test_it_is_a_gate_on_request_and_inconclusive_without_words() -> None:
    reason = "1 words of 2 in the reply and 2 in the reference"
    assert matched("good morning", "good evening", "response_match>=0.7") == Score(0.5, False, reason)
    assert matched("!?", "good") == Inconclusive("the last reply has no words")
    assert matched("good", "…") == Inconclusive("the reference has no words")
    assert matched(None, "good") == Inconclusive("the last reply is not recorded; record the model's output")


def test_stems_are_porters_as_nltk_has_them() -> None:
    stems = {
        "caresses": "caress", "ponies": "poni", "ties": "tie", "cats": "cat", "agreed": "agre",
        "plastered": "plaster", "motoring": "motor", "conflated": "conflat", "hopping": "hop",
        "falling": "fall", "filing": "file", "happy": "happi", "enjoy": "enjoy", "relational": "relat",
        "digitizer": "digit", "hopefulness": "hope", "electrical": "electr", "revival": "reviv",
        "adoption": "adopt", "controlling": "control", "rate": "rate", "cease": "ceas", "dying": "die",
        "news": "news", "logically": "logic", "geology": "geolog", "owed": "owe",
        "waving": "wave", "taxed": "tax",
        "rationally": "ration", "conditionally": "condit", "usually": "usual", "ally": "alli",
        "studied": "studi", "studies": "studi", "tied": "tie", "spied": "spi", "feed": "feed",
        "apologies": "apolog", "logy": "logi", "hissing": "hiss", "fizzed": "fizz", "tanned": "tan",
        "failing": "fail", "troubled": "troubl", "sized": "size", "hesitancy": "hesit",
        "formally": "formal", "differently": "differ", "vilely": "vile", "analogously": "analog",
        "predication": "predic", "operator": "oper", "feudalism": "feudal", "sensitivity": "sensit",
        "sensibility": "sensibl", "formative": "form", "formalize": "formal", "goodness": "good",
        "allowance": "allow", "airliner": "airlin", "adjustable": "adjust", "replacement": "replac",
        "dependent": "depend", "communion": "communion", "communism": "commun", "angularity": "angular",
        "effective": "effect", "roll": "roll", "sky": "sky", "say": "say", "by": "by", "flies": "fli",
        "sing": "sing", "bled": "bled", "skating": "skate", "goes": "goe", "being": "be", "uses": "use",
        "crying": "cri", "bying": "by",
    }  # fmt: skip
    assert {word: stem(word) for word in stems} == stems
