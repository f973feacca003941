"""The cells of tables that pandas wrote."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import dateutil.tz
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.converters.recordings.plain import cell

NAMES = st.text(string.ascii_letters + string.punctuation + " \nß", max_size=12)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | NAMES
OBJECTS = st.recursive(
    st.dictionaries(NAMES, SCALARS, max_size=3),
    lambda inner: st.dictionaries(NAMES, inner | st.lists(inner, max_size=3), max_size=3),
    max_leaves=8,
)


def as_arrays(value: Any) -> Any:
    """Return a value with arrays in the place of lists, as a frame that was read from Parquet has them."""
    if isinstance(value, dict):
        return {key: as_arrays(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    import numpy

    array = numpy.empty(len(value), dtype=object)
    array[:] = [as_arrays(item) for item in value]
    return array


@given(st.lists(OBJECTS, min_size=1, max_size=3))
def test_objects_are_the_same_however_pandas_wrote_them(value: list[Any]) -> None:
    assert cell(str(value)) == value
    assert cell(str(as_arrays(value))) == value


def test_what_libraries_call_a_value_is_that_value() -> None:
    import numpy
    import pandas

    at = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    written = {"at": at, "pandas": pandas.Timestamp(at), "gap": float("nan"), "count": numpy.int64(3)}
    assert cell(str([written | {"done": numpy.bool_(True)}])) == [
        {
            "at": at.isoformat(),
            "pandas": "2026-01-02 03:04:05.000006+0000",
            "gap": None,
            "count": 3,
            "done": True,
        }
    ]


@pytest.mark.parametrize(
    "zone",
    [
        *(
            UTC,
            timezone(timedelta(hours=2)),
            timezone(-timedelta(hours=3, minutes=30), "NST"),
            dateutil.tz.UTC,
        ),
        *(dateutil.tz.tzoffset("CEST", 7200), ZoneInfo("UTC"), None),
    ],
    ids=repr,
)
def test_a_time_has_the_zone_that_its_text_names(zone: tzinfo | None) -> None:
    at = datetime(2026, 7, 2, 3, 4, 5, 6, tzinfo=zone)
    assert cell(str([{"at": at}])) == [{"at": (at if zone else at.replace(tzinfo=UTC)).isoformat()}]


@pytest.mark.parametrize(
    "zone", [ZoneInfo("Europe/Paris"), dateutil.tz.gettz("Europe/Paris"), dateutil.tz.tzlocal()], ids=repr
)
def test_a_time_of_a_zone_whose_offset_the_text_does_not_say_stays_a_text(zone: tzinfo) -> None:
    text = str([{"at": datetime(2026, 7, 2, 3, 4, tzinfo=zone)}])
    assert cell(text) == text


@pytest.mark.parametrize(
    "text",
    ["[SYSTEM] Hello (you)", "{customer}", "[__import__('os').getcwd()]", "[open('x')]", "[" * 5000, "{1: 2"],
)
def test_another_text_stays_as_it_is(text: str) -> None:
    assert cell(text) == text
