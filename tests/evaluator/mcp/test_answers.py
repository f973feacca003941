"""Answers fit, are JSON whatever they hold, and what they leave out can be had."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from short_form import examples

from spangrade.evaluator.apps.mcp.answers import NOTE, OURS, Asked, answer, shorten, tokens, whole
from spangrade.tracer.base.canonical_json import dumps

ABOUT = {"rows": 3}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3000),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(max_size=200), inner, max_size=60),
    max_leaves=300,
)


@settings(max_examples=examples(150))
@given(st.lists(JSON, max_size=30), st.integers(1000, 6000), st.integers(0, 40))
def test_every_answer_is_json_that_fits(items, most, offset):
    given_ = answer(ABOUT, items, Asked(most, offset), rest="elsewhere", then=["docs"])
    assert tokens(given_) <= most
    read = json.loads(given_)
    if items[offset:]:
        assert read["recorded"]
        assert read["note"] == NOTE
    one = whole(items, Asked(most, offset))
    assert tokens(one) <= most
    json.loads(one)


@settings(max_examples=examples(50))
@given(JSON, st.integers(1000, 3000))
def test_a_value_can_be_read_whole_in_parts(value, most):
    read = json.loads(whole(value, Asked(most)))
    if "left_out" not in read:
        assert read == {"about": {}, "note": NOTE, "recorded": json.loads(dumps(value))}
        return
    parts, offset = [], 0
    while True:
        read = json.loads(whole(value, Asked(most, offset)))
        parts.append(read["recorded"])
        rest = [one for one in read.get("left_out", ()) if one.startswith("the rest: ")]
        if not rest:
            break
        offset = int(rest[0].partition("offset=")[2])
    assert json.loads("".join(parts)) == json.loads(dumps(value))


def test_items_are_left_out_and_texts_cut_and_both_are_said():
    rows = [{"text": "x" * 1000, "number": number} for number in range(30)]
    first = json.loads(answer(ABOUT, rows, Asked(1500), text=100, rest="session"))
    assert first["recorded"][0] == {"text": f"{'x' * 100}… 900 more", "number": 0}
    shown = len(first["recorded"])
    assert first["left_out"] == [
        f"{30 - shown} of 30: the same call with offset={shown}",
        "parts of texts, lists and objects, marked with …: session",
    ]
    second = json.loads(answer(ABOUT, rows, Asked(1500, shown), text=100, rest="session"))
    assert second["recorded"][0]["number"] == shown
    assert second["left_out"][0] == f"the first {shown}: the same call with offset=0"


def test_our_own_words_have_no_note():
    assert json.loads(answer({}, ["metrics"], Asked(), key=OURS)) == {"about": {}, "content": ["metrics"]}
    assert json.loads(answer({}, [], Asked())) == {"about": {}, "note": NOTE, "recorded": []}


@pytest.mark.parametrize(
    ("value", "short"),
    [
        ("abcdef", "abc… 3 more"),
        ([1, 2, 3], [1, 2, "… 1 more"]),
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "…": "1 more"}),
        ({"a": [{"b": "long text"}]}, {"a": [{"b": "lon… 6 more"}]}),
    ],
)
def test_values_are_shortened(value, short):
    assert shorten(value, 3, 2) == (short, True)
    assert shorten(value, 100, 100) == (value, False)


def test_a_token_is_no_less_than_two_ascii_characters_or_a_byte_of_others():
    assert tokens("order 8471") == 6
    assert tokens("日本") == 7
