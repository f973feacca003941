"""The metric of state variables, compared with `reference_state_variables`."""

from __future__ import annotations

from typing import Any

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.matching import json_equal, recall
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.session import Session
from spangrade.tracer.canonical_json import dumps

_LONGEST_VALUE = 200  # characters of a value in a reason


@metric(needs="reference_state_variables", threshold=1.0)
def state_management_fidelity(session: Session, question: GoldenQuestion) -> Outcome:
    """The share of the reference's variables whose final value equals the reference's, as JSON.

    A variable that is missing differs from null. 1 if the reference is empty.
    Inconclusive if no state is recorded.

    Source: own definition.
    """
    state = session.state_variables
    if state is None:
        return Inconclusive("no state is recorded; set_state records it, or extracted_data in a CSV or JSONL")
    expected = question.reference_data.reference_state_variables or {}
    differences = [
        f"{name}: expected {_shown(value)}, was {_shown(state[name]) if name in state else 'not set'}"
        for name, value in expected.items()
        if name not in state or not json_equal(value, state[name])
    ]
    value = recall(len(expected) - len(differences), len(expected))
    return Score(value, None, "; ".join(differences) or "as expected")


def _shown(value: Any) -> str:
    text = dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


METRICS = (state_management_fidelity,)
