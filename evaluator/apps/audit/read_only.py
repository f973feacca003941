"""Which tools only read, as sessions of one question show, and which mutants of their calls do no harm."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from spangrade.evaluator.apps.audit.audit import Fate, Tried
from spangrade.evaluator.session import Session, ToolInteraction
from spangrade.tracer.base.canonical_json import dumps

# A golden question with one of these says which calls, or which state, matter.
_MATTERS = frozenset(
    {"reference_tool_interactions", "reference_state_variables", "no_further_calls", "forbidden_tools"}
)

Call = tuple[str, str, bool]  # its tool, its arguments, whether it failed


class Ended(NamedTuple):
    """How a session that answers golden questions ended: its state as JSON, and its calls in order."""

    question_ids: tuple[str, ...]
    state: str
    calls: tuple[Call, ...]


def ended(session: Session, question_ids: tuple[str, ...]) -> Ended | None:
    """Return how a session ended; None if its state is not recorded."""
    if session.state_variables is None:
        return None
    return Ended(question_ids, dumps(session.state_variables), tuple(map(_call, session.tool_interactions)))


def read_only(sessions: Iterable[Ended]) -> frozenset[str]:
    """Return the tools that only read.

    For such a tool, two sessions of a question ended in the same state although only one called it
    successfully, and no two sessions of a question that differ in its calls alone ended in different states.
    """
    by_question: dict[tuple[str, ...], list[Ended]] = defaultdict(list)
    for one in sessions:
        by_question[one.question_ids].append(one)
    reading = {tool for found in by_question.values() for tool in _without_effect(found)}
    return frozenset(
        tool for tool in reading if not any(_has_effect(tool, found) for found in by_question.values())
    )


def _without_effect(sessions: Iterable[Ended]) -> Iterator[str]:
    """Yield the tools without which a session of a question ended as another one that called them."""
    by_state: dict[str, list[Ended]] = defaultdict(list)
    for one in sessions:
        by_state[one.state].append(one)
    for alike in by_state.values():
        by_all = frozenset.intersection(*(frozenset(tool for tool, _, _ in one.calls) for one in alike))
        yield from {tool for one in alike for tool, _, failed in one.calls if not failed} - by_all


def _has_effect(tool: str, sessions: Iterable[Ended]) -> bool:
    """Return whether two sessions of a question differ in the calls of a tool alone, and in their states."""
    states: dict[tuple[Call, ...], dict[tuple[Call, ...], str]] = defaultdict(dict)
    for one in sessions:
        others = tuple(sorted(call for call in one.calls if call[0] != tool))
        own = tuple(call for call in one.calls if call[0] == tool)
        alike = states[others]
        if any(state != one.state for calls, state in alike.items() if calls != own):
            return True
        alike.setdefault(own, one.state)
    return False


def with_harmless(mutants: Iterable[Tried], tools: Collection[str]) -> list[Tried]:
    """Return mutants, those that survived and only change calls of tools that read as harmless."""
    return [one._replace(fate=Fate.HARMLESS) if _is_harmless(one, tools) else one for one in mutants]


def _is_harmless(one: Tried, tools: Collection[str]) -> bool:
    """Return whether a mutant differs in calls of reading tools alone, which its question does not expect."""
    if one.fate is not Fate.SURVIVED or one.mutant.call is None:
        return False
    if _MATTERS.isdisjoint(one.audited.gates.references):
        return False
    expected = {call.tool_name for calls in one.audited.question.accepted_calls for call in calls}
    changed = _changed(one.audited.session.tool_interactions, one.mutant.session.tool_interactions)
    return bool(changed) and changed <= set(tools) - expected


def _changed(before: Sequence[ToolInteraction], after: Sequence[ToolInteraction]) -> set[str]:
    """Return the tools whose calls differ, or stand in another place."""
    then, now = list(map(_call, before)), list(map(_call, after))
    if len(then) == len(now):
        return {call[0] for pair in zip(then, now, strict=True) if pair[0] != pair[1] for call in pair}
    counted: Mapping[Call, int] = (Counter(then) - Counter(now)) + (Counter(now) - Counter(then))
    return {tool for tool, _, _ in counted}


def _call(call: ToolInteraction) -> Call:
    return call.tool_name, dumps(call.input_arguments), call.ok is False
