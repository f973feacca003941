"""An audit of what every framework records: mutants that can be graded, and proposals that hold."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import recordings

import spangrade
from spangrade import InputError, Selection
from spangrade.evaluator.apps.audit.options import Mutants
from spangrade.evaluator.review.session_to_golden import question_of

# One recording of each framework; `.ci/long` audits all of them, which are of other versions and settings.
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
FRAMEWORKS = {re.match(r"[a-z]+", name)[0]: name for name in recordings.NAMES}  # type: ignore[index]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", recordings.NAMES if LONG else FRAMEWORKS.values())
def test_sessions_of_every_framework_can_be_audited(name: str, tmp_path: Path) -> None:
    db = spangrade.open(recordings.database(name), on_problem=lambda problem: None)
    sessions = recordings.recorded_sessions(name)
    questions, answers = [], {}
    for session in sessions:
        try:
            question = question_of(session, session.session_id, wildcards=True).question
        except InputError:  # its user inputs or agents are not recorded
            continue
        calls = question["reference_data"].pop("reference_tool_interactions")
        question["reference_data"] = {
            "reference_tool_interactions": [{"tool_name": c["tool_name"]} for c in calls]
        }
        questions.append(question)
        answers[session.session_id] = session.session_id
    if not questions:
        pytest.skip("its sessions cannot be golden questions")
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps({"golden_questions": questions}, indent=2))
    audit = db.audit(golden, select=Selection(answers=answers), mutants=Mutants(40, failed=True), write=True)
    assert audit.sessions + sum(audit.left_out.values()) == len(sessions)
    assert audit.total.fates.total() >= 5 * audit.sessions
    again = db.audit(golden, select=Selection(answers=answers), mutants=Mutants(40, failed=True))
    assert again.total.fates == audit.after.fates  # what was proposed is what was written
