"""The filters of the list of sessions in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade import InputError
from spangrade.evaluator.reports.html.filters import NAMES, line_of, parse_line


@pytest.mark.parametrize(
    ("line", "filters"),
    [
        ("", {}),
        ("where is my order", {"text": "where is my order"}),
        ("verdict:failed cost>0.05 agent:shop", {"verdict": "failed", "over_cost": "0.05", "agent": "shop"}),
        ("cost>=1 cost<2 latency<=3", {"min_cost": "1", "under_cost": "2", "max_latency": "3"}),
        ('verdict:"not graded" refund', {"verdict": "not graded", "text": "refund"}),
        ('agent:"say \\"hi\\""', {"agent": 'say "hi"'}),
        (r'agent:"C:\\" run:x', {"agent": "C:\\", "run": "x"}),
        ("failed-tool:any user:ann", {"failed_tool": "any", "user": "ann"}),
        ("thumbs<1 label:pass", {"score": "thumbs<1", "label": "pass"}),
        ("score:thumbs>=-0.5 a<b", {"score": "thumbs>=-0.5", "text": "a<b"}),
        ('"verdict:failed"', {"text": "verdict:failed"}),
        ("https://example.com/?a=b cost>", {"text": "https://example.com/?a=b cost>"}),
    ],
)
def test_a_line_is_read_as_filters_and_text(line: str, filters: dict[str, str]) -> None:
    assert parse_line(line) == filters


def test_a_filter_that_is_given_twice_is_an_error() -> None:
    with pytest.raises(InputError, match="agent:b: the line has this filter twice"):
        parse_line("agent:a agent:b")


@given(st.dictionaries(st.sampled_from(NAMES), st.text(min_size=1).filter(lambda one: one.strip() == one)))
def test_filters_written_as_a_line_are_read_as_the_same(filters: dict[str, str]) -> None:
    bounds = {
        name: value
        for name, value in filters.items()
        if name.partition("_")[0] in {"min", "max", "over", "under"}
    }
    written = {**filters, **dict.fromkeys(bounds, "0.5")}
    assert parse_line(line_of(written)) == written
