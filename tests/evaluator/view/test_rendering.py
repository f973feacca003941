"""How values are written on pages: how long ago a time was, and differences with their unit."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from spangrade.evaluator.reports.html.rendering import age, ago, change


def before(**length: float) -> int:
    return time.time_ns() - int(timedelta(**length).total_seconds() * 10**9)


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ({"seconds": 0}, "0 s ago"),
        ({"seconds": 50.5}, "50 s ago"),
        ({"minutes": 59.9}, "59 min ago"),
        ({"hours": 3.1}, "3 h ago"),
        ({"hours": 47.9}, "1 d ago"),
        ({"days": 29.9}, "29 d ago"),
    ],
)
def test_a_time_is_shown_by_how_long_ago_it_was(when: dict[str, float], text: str) -> None:
    assert age(before(**when)) == text


def test_what_is_long_ago_or_to_come_is_shown_as_its_time() -> None:
    assert age(datetime(2020, 5, 28, 14, 3, 59)) == "2020-05-28 14:03"
    assert age(before(hours=-1)) == datetime.fromtimestamp(before(hours=-1) / 10**9, UTC).strftime(
        "%Y-%m-%d %H:%M"
    )
    assert [age(one) for one in (None, 2**63 * 10**9)] == ["–", f"{2**63 * 10**9} ns"]


def test_the_time_itself_is_in_the_title() -> None:
    found = re.fullmatch(
        r'<time datetime="(\S+)Z" title="(\S+ \S+) UTC" data-ago="(\d+)">2 h ago</time>',
        ago(before(hours=2.5)),
    )
    assert found is not None
    assert found[1] == found[2].replace(" ", "T")
    assert int(found[3]) == pytest.approx(9_000, abs=5)
    assert ago(None) == "–"


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (-0.5, "percent", "−50 points"),
        (1 / 3, "percent", "+33.3 points"),
        (0.02, "usd", "+$0.02"),
        (-1.5, "seconds", "−1.5 s"),
        (2, "count", "+2"),
    ],
)
def test_a_difference_of_shares_is_in_points_and_others_in_their_unit(
    number: float, unit: str, text: str
) -> None:
    assert change(number, unit) == text
