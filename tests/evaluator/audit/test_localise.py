"""The evidence of a failed gate is what a mutant changed; `tests/localise.py` measures it on all material."""

from __future__ import annotations

import localise
import pytest
import recordings
from paths import SHARED

import spangrade
from spangrade.evaluator.audit.mutant import load_kinds

NAMES = ("adk", "langgraph_genai", "pydantic_ai")


@pytest.mark.parametrize("form", [localise.STRICT, localise.PLAIN])
@pytest.mark.short_form("form", 2)
def test_evidence_names_what_was_changed(form: str) -> None:
    sessions = [
        (localise.RECORDINGS, one) for name in NAMES for one in spangrade.sessions(recordings.paths(name))
    ]
    if SHARED.is_dir():
        sessions += [(localise.GENERATED, one) for one in localise.generated(3)]
    found = localise.located(sessions, 2 * len(load_kinds()), form)
    every = localise.total(found.values())
    assert every.caught >= 60
    assert every.none == 0
    assert every.first >= localise.FIRST * every.caught
    assert every.among >= localise.AMONG * every.caught
