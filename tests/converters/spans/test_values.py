"""Values as instrumentations write them."""

from __future__ import annotations

import pytest

from spangrade.converters.spans.values import count


@pytest.mark.parametrize(("value", "number"), [(0, 0), (10**12, 10**12), (10**12 + 1, None), (-1, None)])
def test_a_count_is_a_whole_number_up_to_a_million_millions(value: object, number: int | None) -> None:
    assert count(value) == number
