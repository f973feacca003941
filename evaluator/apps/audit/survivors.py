"""Survivors in groups: the change, the number of sessions, and why no gate noticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from spangrade.converters.datasets.forms import word_of
from spangrade.evaluator.apps.audit.audit import NOT_WRONG, Fate, Tried
from spangrade.evaluator.apps.audit.turns import REPLY
from spangrade.evaluator.apps.audit.usage import COST, LATENCY
from spangrade.evaluator.metrics.matching import ANY_TEXT, is_reference
from spangrade.evaluator.metrics.pairing import best_met, pair_calls
from spangrade.evaluator.metrics.references import user_values
from spangrade.evaluator.metrics.shown import path_text

_CALLS = "reference_tool_interactions"
_STATE = "reference_state_variables"
_TRAJECTORY = "reference_trajectory"
_UNREAD = "no gate in force reads what was changed"
_MISSING = object()  # a key that the reference does not have
_FREE_ORDER = ("swap-calls", "repeat-call")


class SurvivorGroup(NamedTuple):
    """Mutants of a kind with the same target that survived for the same reason, of `tried` in all.

    `example` is the change of the first, `fate` is survived or undecided.
    """

    kind: str
    target: str
    why: str
    fate: Fate
    survived: int
    tried: int
    sessions: tuple[str, ...]
    questions: tuple[str, ...]
    example: str


def survivors(mutants: Iterable[Tried]) -> list[SurvivorGroup]:
    """Return the mutants that no gate failed, in groups: the largest first, undecided ones last."""
    found: dict[tuple[Fate, str, str, str], list[Tried]] = {}
    total: dict[tuple[str, str], int] = {}
    for one in mutants:
        key = (one.kind, one.mutant.target)
        total[key] = total.get(key, 0) + (one.fate not in NOT_WRONG)
        if one.fate in (Fate.SURVIVED, Fate.UNDECIDED):
            found.setdefault((one.fate, *key, why(one)), []).append(one)
    groups = [
        SurvivorGroup(
            kind,
            target,
            reason,
            fate,
            len(members),
            total[kind, target],
            tuple(sorted({one.audited.session.session_id for one in members})),
            tuple(sorted({one.audited.question.id for one in members})),
            min(one.mutant.change for one in members),
        )
        for (fate, kind, target, reason), members in found.items()
    ]
    return sorted(groups, key=lambda g: (g.fate is Fate.UNDECIDED, -g.survived, g.kind, g.target, g.why))


def why(one: Tried) -> str:
    """Return why no gate failed a mutant."""
    if one.fate is Fate.UNDECIDED:
        return f"inconclusive: {', '.join(one.gates)}"
    mutant = one.mutant
    target = mutant.target
    if target in (COST, LATENCY):
        return _lacks(one, "max_cost_usd" if target == COST else "max_latency_s") or _UNREAD
    if target == REPLY:
        return _lacks(one, "reference_response") or _UNREAD
    if mutant.call is None and mutant.path:
        return _why_state(one)
    if mutant.call is not None:
        return _why_call(one)
    if target in (one.audited.session.agents or ()):
        return _why_agent(one, target)
    return _UNREAD


def _lacks(one: Tried, reference: str) -> str | None:
    """Return why no gate on a reference can notice a mutant; None if one can."""
    if one.audited.question.reference(reference) is None:
        return f"the question has no {reference}"
    if reference not in one.audited.gates.references:
        return f"the session itself does not meet {reference}, or no gate compares it"
    return None


def _why_agent(one: Tried, agent: str) -> str:
    question, reads = one.audited.question, one.audited.gates.references
    for reference in ("agents_evaluated", _TRAJECTORY):
        if agent in (question.reference(reference) or ()) and reference not in reads:
            return f"the session itself does not meet {reference}, or no gate compares it"
    return f"neither agents_evaluated nor {_TRAJECTORY} asks for {agent}"


def _why_state(one: Tried) -> str:
    name = one.mutant.path[0]
    if lacks := _lacks(one, _STATE):
        return lacks
    return _UNREAD if name in one.audited.question.reference(_STATE) else f"{name} is not in {_STATE}"


def _why_call(one: Tried) -> str:
    question, session, mutant = one.audited.question, one.audited.session, one.mutant
    if one.kind in _FREE_ORDER:
        names = question.reference(_TRAJECTORY)
        if names is not None and _TRAJECTORY not in one.audited.gates.references:
            return f"the session itself does not meet {_TRAJECTORY}, or no gate compares it"
        tools = {call.tool_name for call in session.tool_interactions}
        if names is None or tools.isdisjoint(names):
            return f"the order and number of calls are free: no {_TRAJECTORY} names the tools"
        return "the order and number of calls are free as far as the names of the steps are as expected"
    if lacks := _lacks(one, _CALLS):
        return lacks
    met = best_met(session, question)
    places = list(pair_calls(met, session.tool_interactions, user_values(session, question)))
    if mutant.call not in places:
        tool = session.tool_interactions[mutant.call or 0].tool_name
        return f"this call of {tool} is not in {_CALLS}"
    if mutant.path:
        return _why_argument(mutant.target, met[places.index(mutant.call)].input_arguments, mutant.path)
    return f"another call meets {_CALLS} in its place"


def _why_argument(target: str, expected: Any, path: tuple[str | int, ...]) -> str:
    if expected is None:
        return f"{target.partition('.')[0]} may have any arguments"
    for depth, key in enumerate(path, 1):
        expected = _inside(expected, key)
        if expected is _MISSING:
            return f"{target} is not in the reference"
        if expected is None:
            return f"{path_text(path[:depth])} is null in the reference: it may have any value"
        if expected == ANY_TEXT:
            return f"{target} is matched by `{ANY_TEXT}`"
        if is_reference(expected) or (isinstance(expected, Mapping) and word_of(expected) is not None):
            return f"{target} is another value that its reference accepts"
    return f"another call meets {_CALLS} in its place"


def _inside(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(key, _MISSING)
    has_item = isinstance(value, list) and isinstance(key, int) and key < len(value)
    return value[key] if has_item else _MISSING
