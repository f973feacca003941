"""The metric of state variables, compared with `reference_state_variables`."""

from __future__ import annotations

from spangrade.converters.datasets.forms import accepts_absent
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.matching import MISSING, STATE, Difference, first_difference, recall
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.shown import difference_text, path_text
from spangrade.evaluator.session import Session


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
    differing: list[str] = []
    undecided: list[str] = []
    for name, value in expected.items():
        if name in state:
            found = first_difference(value, state[name], STATE)
        else:
            found = None if accepts_absent(value) else Difference((), value, MISSING)
        if found is not None:
            texts = undecided if found.undecided else differing
            texts.append(difference_text(path_text((name, *found.path)), found))
    value = recall(len(expected) - len(differing), len(expected))
    if undecided:
        return Inconclusive("; ".join(differing + undecided), value)
    return Score(value, None, "; ".join(differing) or "as expected")


METRICS = (state_management_fidelity,)
