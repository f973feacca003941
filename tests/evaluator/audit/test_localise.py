"""The evidence of a failed gate is what a mutant changed; `tests/localise.py` measures it on all material."""

from __future__ import annotations

import localise
import pytest
import recordings
from paths import SHARED

import spangrade
from spangrade.evaluator.apps.audit.mutant import load_kinds

NAMES = ("adk", "langgraph_genai", "pydantic_ai")


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", [localise.STRICT, localise.PLAIN])
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


def test_evidence_of_a_drill_is_the_call_that_had_the_fault() -> None:
    found = localise.drills(40)
    assert {kind for _, kind in found} == set(localise.FAULTS)
    every = localise.total(found.values())
    assert every.caught == 32
    assert localise.is_enough(every)


@pytest.mark.exhaustive
@pytest.mark.skipif(not SHARED.is_dir(), reason="the generator is not here")
def test_evidence_of_a_pair_of_versions_is_where_they_part() -> None:
    every = localise.total(localise.pairs(6).values())
    assert every.caught >= 6
    assert localise.is_enough(every)
