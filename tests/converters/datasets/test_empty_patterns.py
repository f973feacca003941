"""A text that a reply must have says something: a pattern that every reply has is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from spangrade.converters.datasets.forms import matches_all
from spangrade.converters.datasets.golden import ReferenceData

PARTS = st.text(st.sampled_from("ab1 "), min_size=1, max_size=4).map(re.escape)
ANYTHING = st.sampled_from(
    ["({})?", "(?:{})*", "{}|", "|{}", "(?i)({}){{0,2}}", "(?!{})", "(?:(?!{}).)*", "(?={}|)"]
)
DOORS = [
    lambda pattern: {"required_texts": [{"$pattern": pattern}]},
    lambda pattern: {"required_texts": ["a", {"$any": ["b", {"$pattern": pattern}]}]},
    lambda pattern: {"required_texts": [{"turn": 1, "text": {"$pattern": pattern}}]},
    lambda pattern: {"reference_response": {"text": pattern, "match": "pattern"}},
    lambda pattern: {"reference_responses": [None, {"text": pattern, "match": "pattern"}]},
]


def asked(references: dict[str, Any]) -> str:
    """Return why references are refused, empty if they are not."""
    try:
        ReferenceData(**references)
    except ValidationError as error:
        return str(error)
    return ""


@given(PARTS, ANYTHING, st.sampled_from(DOORS))
def test_a_pattern_that_every_reply_has_is_refused_at_every_door(part, form, door):
    pattern = form.format(part)
    assert re.search(pattern, f"no {re.sub(r'.', 'z', part)}")
    assert "matches the empty text, and so every reply" in asked(door(pattern))


@given(
    PARTS,
    st.sampled_from(["{}", "^(?!.*{})", r"\A(?!{})", "^(?:(?!{}).)*$", "(?<!{})$", "{}.*", ".", "(?={})"]),
)
def test_a_pattern_that_some_replies_do_not_have_is_read(part, form):
    assert not matches_all(form.format(part))
    for door in DOORS:
        assert not asked(door(form.format(part)))


def test_the_signs_of_a_lookaround_in_a_class_or_an_escape_are_none():
    assert matches_all("[(?!^]*")
    assert matches_all(r"(\(?!?\^?)?")


@pytest.mark.parametrize("pattern", [".*", "", "x*"])
def test_in_arguments_and_states_such_a_pattern_says_that_there_is_a_text(pattern):
    call = {
        "tool_name": "t",
        "input_arguments": {"a": {"$pattern": pattern}},
        "output": {"$pattern": pattern},
    }
    assert not asked(
        {"reference_tool_interactions": [call], "reference_state_variables": {"a": {"$pattern": pattern}}}
    )
