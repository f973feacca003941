"""Every metric of a session and a question, each value of which is unknown, zero, one, two or huge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import cases, check
from grading import run_metric
from pydantic import TypeAdapter

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics import Outcome, load_metrics, parse_metric
from spangrade.evaluator.session import Session

SESSION: TypeAdapter[Session] = TypeAdapter(Session)


def outcomes(given: Any) -> dict[str, tuple[str, Outcome]]:
    made = SESSION.validate_python(given["session"])
    asked = GoldenQuestion.model_validate(given["question"])
    names = [
        name + parameter
        for name in load_metrics()
        if not name.endswith("@judge") and name not in {"final_response_match", "responses_match"}
        for parameter in given["parameters"].get(name, [""])
    ]
    measured = {name: run_metric(parse_metric(name), made, asked) for name in names}
    return {name: (type(outcome).__name__, outcome) for name, outcome in measured.items()}


@pytest.mark.parametrize(("file", "place"), cases("metrics"))
def test_every_metric_measures_what_is_known(
    file: Path, place: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)  # no judge is asked
    check(file, place, outcomes)
