"""What is read of spans, each value of which is absent, zero, one, two, huge or negative by turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import cases, check

from spangrade.converters.spans.registry import observe
from spangrade.tracer.span import Span


def observed(given: Any) -> Any:
    return observe([Span(**one) for one in given["spans"]], {})


@pytest.mark.parametrize(("file", "place"), cases("spans"))
def test_what_is_read_of_a_span_is_what_it_records(file: Path, place: str | None) -> None:
    check(file, place, observed)
