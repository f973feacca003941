"""The verdict on a session and a question, each value of which is unknown, zero, one, two or huge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import cases, check
from grading import grade
from pydantic import TypeAdapter, ValidationError

from spangrade import InputError
from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.session import Session

SESSION: TypeAdapter[Session] = TypeAdapter(Session)


def verdict(given: Any) -> Any:
    try:
        dataset = GoldenDataset.model_validate({"golden_questions": [given["question"]]})
        grades = list(grade([SESSION.validate_python(given["session"])], dataset))
    except InputError as error:
        return {"refused": str(error)}
    except ValidationError as error:
        return {"refused": [[".".join(map(str, one["loc"])), one["type"]] for one in error.errors()]}
    return [
        {
            "verdict": one.verdict,
            "of": [one.session_id, one.question_id],
            "reason": one.reason,
            "notes": one.notes,
            "passed": {name: getattr(outcome, "passed", None) for name, outcome in one.outcomes.items()},
        }
        for one in grades
    ]


@pytest.mark.parametrize(("file", "place"), cases("policy"))
def test_a_verdict_follows_from_what_is_known(file: Path, place: str | None) -> None:
    check(file, place, verdict)
