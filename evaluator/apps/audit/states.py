"""Mutants of state variables: left out, or with another value."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from spangrade.evaluator.apps.audit.calls import shown
from spangrade.evaluator.apps.audit.mutant import Mutant
from spangrade.evaluator.apps.audit.values import changed, leaves, with_leaf
from spangrade.evaluator.session import Session


def drop_state(session: Session, random: Random) -> Mutant | None:
    """Leave a state variable out."""
    state = session.state_variables
    if not state:
        return None
    name = random.choice(list(state))
    rest = {key: value for key, value in state.items() if key != name}
    spans = {key: span for key, span in (session.state_spans or {}).items() if key != name}
    return Mutant(
        replace(session, state_variables=rest, state_spans=spans), f"state {name}", "not set", None, (name,)
    )


def change_state(session: Session, random: Random) -> Mutant | None:
    """Give a state variable another value."""
    names = [(name, list(leaves(value))) for name, value in (session.state_variables or {}).items()]
    names = [(name, places) for name, places in names if places]
    if not names:
        return None
    name, places = random.choice(names)
    path, value = random.choice(places)
    other = changed(value, random)
    state = dict(session.state_variables or {})
    state[name] = with_leaf(state[name], path, other)
    change = f"{shown(other)} instead of {shown(value)}"
    return Mutant(replace(session, state_variables=state), f"state {name}", change, None, (name, *path))
