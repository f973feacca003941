"""What is made of a session, each value of which is unknown, zero, one, two or huge by turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cases import cases, check
from functions import plain
from pydantic import TypeAdapter

from spangrade import InputError
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.maintenance.gaps import session_gaps
from spangrade.evaluator.metrics import columns, trajectory
from spangrade.evaluator.metrics.causes import reply_evidence, span_places
from spangrade.evaluator.metrics.pairing import compared_calls, met_calls
from spangrade.evaluator.reports.html.alignment import alignment
from spangrade.evaluator.reports.html.conversation import conversation
from spangrade.evaluator.review.session_to_golden import question_of
from spangrade.evaluator.session import Session

SESSION: TypeAdapter[Session] = TypeAdapter(Session)
MADE: Mapping[str, Callable[[Session, GoldenQuestion], Any]] = {
    "alignment": alignment,
    "columns": lambda *of: {name: columns.column(name, *of) for name in columns.COLUMNS},
    "calls_of_steps": lambda session, _: trajectory.calls_of_steps(session),
    "compared_calls": lambda *of: [one.position for one in compared_calls(*of)],
    "compared_steps": lambda *of: [one.position for one in trajectory.compared_steps(*of)],
    "conversation": lambda session, _: conversation(session),
    "doubt_of_end": lambda session, _: trajectory.doubt_of_end(session),
    "gaps": lambda session, _: list(session_gaps(session)),
    "history": lambda session, _: columns.conversation_history(session),
    "major_steps": lambda *of: [one.position for one in trajectory.major_steps(*of)],
    "met_calls": lambda *of: met_calls(*of),
    "question": lambda session, _: question_of(session, "q"),
    "reply_evidence": lambda session, _: reply_evidence(session),
    "span_places": lambda session, _: {str(key): one for key, one in span_places(session).items()},
    "summary": lambda session, _: columns.numbered_summary(session),
    "trace": lambda session, _: columns.session_trace(session),
    "wildcards": lambda session, _: question_of(session, "q", wildcards=True),
}


def made(given: Any) -> dict[str, Any]:
    session = SESSION.validate_python(given["session"])
    question = GoldenQuestion.model_validate(given["question"])
    found = {}
    for name, make in MADE.items():
        try:
            found[name] = plain(make(session, question))
        except InputError as error:
            found[name] = {"refused": str(error)}
    return found


@pytest.mark.parametrize(("file", "place"), cases("sessions"))
def test_what_is_made_of_a_session_follows_from_what_is_known(file: Path, place: str | None) -> None:
    check(file, place, made)
