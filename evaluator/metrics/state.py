"""The metric of state variables, compared with `reference_state_variables`."""

from __future__ import annotations

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.matching import json_equal, recall
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.session import Session


@metric(needs="reference_state_variables", threshold=1.0)
def state_management_fidelity(session: Session, question: GoldenQuestion) -> Outcome:
    """The share of the reference's variables whose final value equals the reference's, as JSON."""
    state = session.state_variables
    if state is None:
        return Inconclusive("no state is recorded")
    expected = question.reference_data.reference_state_variables or {}
    missing = [name for name in expected if name not in state]
    different = [
        name for name, value in expected.items() if name in state and not json_equal(value, state[name])
    ]
    value = recall(len(expected) - len(missing) - len(different), len(expected))
    parts = []
    if missing:
        parts.append(f"missing: {', '.join(missing)}")
    if different:
        parts.append(f"other values: {', '.join(different)}")
    return Score(value, None, "; ".join(parts) or "as expected")


METRICS = (state_management_fidelity,)
