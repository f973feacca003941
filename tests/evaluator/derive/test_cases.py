"""Sessions of spans, each of whose values is absent, unknown, zero, one, two, huge or negative by turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import cases, check

from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import Logged, build_session
from spangrade.evaluator.derive.cost import OwnPrice
from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span


def derived(given: Any) -> Session:
    observations = observe([Span(**one) for one in given["spans"]], {})
    prices = [OwnPrice(*one) for one in given.get("prices", ())]
    logged = Logged(**given.get("logged", {}))
    return build_session("conv-1", "conversation", observations, prices, logged)


@pytest.mark.parametrize(("file", "place"), cases("derive"))
def test_a_session_is_what_its_spans_record(file: Path, place: str | None) -> None:
    check(file, place, derived)
