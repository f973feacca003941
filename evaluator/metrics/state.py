"""Metrics of state variables, compared with `reference_state_variables`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from spangrade.converters.datasets.forms import accepts_absent
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.causes import Cause, due_in_turn
from spangrade.evaluator.metrics.matching import (
    MISSING,
    STATE,
    Path,
    ValueDifference,
    first_difference,
    recall,
)
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.shown import difference_text, path_text
from spangrade.evaluator.session import Session

_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_NOT_RECORDED = Inconclusive(
    "no state is recorded; set_state records it, or extracted_data in a CSV or JSONL"
)
_MOST_SHOWN = 5  # values that were not expected, in a reason


@metric(needs="reference_state_variables", threshold=1.0)
def state_management_fidelity(session: Session, question: GoldenQuestion) -> Outcome:
    """The share of the reference's variables whose final value equals the reference's, as JSON.

    A name such as `cart.items[0].sku` is a path, unless a variable has exactly this name. A variable that is
    missing differs from null. 1 if the reference is empty. Inconclusive if no state is recorded.

    Source: own definition.
    """
    state = session.state_variables
    if state is None:
        return _NOT_RECORDED
    expected = question.reference_data.reference_state_variables or {}
    differing: list[str] = []
    undecided: list[str] = []
    causes: list[Cause] = []
    for name, value in expected.items():
        actual = value_at(state, path_in(state, name))
        if actual is not MISSING:
            found = first_difference(value, actual, STATE)
        else:
            found = None if accepts_absent(value) else ValueDifference((), value, MISSING)
        if found is not None:
            texts = undecided if found.undecided else differing
            path = path_text((name, *found.path))
            texts.append(difference_text(path, found))
            causes.append(_cause(session, path_in(state, name), path))
    share = recall(len(expected) - len(differing), len(expected))
    if undecided:
        return Inconclusive("; ".join(differing + undecided), share)
    return Score(share, None, "; ".join(differing) or "as expected", tuple(causes))


@metric(needs="reference_state_exact", threshold=0.0, unit="values", higher_is_better=False)
def reference_state_exact(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of values of the final state that `reference_state_variables` do not name.

    A variable that they do not name is one value; of one in which they name paths, what is beside these.
    Inconclusive if no state is recorded.

    Source: own definition.
    """
    state = session.state_variables
    if state is None:
        return _NOT_RECORDED
    named = {path_in(state, name) for name in question.reference_data.reference_state_variables or {}}
    further = list(_beside(state, (), named))
    shown = [difference_text(path_text(path), ValueDifference((), MISSING, value)) for path, value in further]
    if (more := len(shown) - _MOST_SHOWN) > 0:
        shown[_MOST_SHOWN:] = [f"{more} more"]
    causes = tuple(_cause(session, path, path_text(path)) for path, _ in further)
    return Score(float(len(further)), None, "; ".join(shown) or "as expected", causes)


def _cause(session: Session, variable: Path, path: str) -> Cause:
    """Return the span that set a variable or, if none is known to have set it, the session's end."""
    span = (session.state_spans or {}).get(str(variable[0]))
    if span is not None:
        return Cause(span, path)
    last = session.turns[-1].turn if session.turns else 1
    return due_in_turn(session, last, path)


def path_in(state: Mapping[str, Any], name: str) -> Path:
    """Return the path that a name of a reference stands for in a state."""
    if name in state:
        return (name,)
    parts = list(_PART.finditer(name))
    if "".join(part[0] for part in parts) != name or name.startswith((".", "[")):
        return (name,)
    return tuple(part[1] if part[2] is None else int(part[2]) for part in parts)


def value_at(state: Any, path: Path) -> Any:
    """Return the value at a path, MISSING without one."""
    for part in path:
        if isinstance(part, int):
            has = isinstance(state, list) and part < len(state)
        else:
            has = isinstance(state, dict) and part in state
        if not has:
            return MISSING
        state = state[part]
    return state


def _beside(value: Any, path: Path, named: Collection[Path]) -> Iterator[tuple[Path, Any]]:
    """Yield the values in a value that are neither at a named path, nor within one, nor hold one."""
    if path in named:
        return
    if path and not any(one[: len(path)] == path for one in named):
        yield path, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _beside(item, (*path, key), named)


METRICS = (state_management_fidelity, reference_state_exact)
