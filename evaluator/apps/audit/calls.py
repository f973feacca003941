"""Mutants of tool calls: dropped, repeated, swapped, with another argument, of another tool, failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

from spangrade.evaluator.apps.audit.edits import (
    numbered_calls,
    numbered_steps,
    step_of,
    with_time,
    without_calls,
)
from spangrade.evaluator.apps.audit.mutant import Mutant
from spangrade.evaluator.apps.audit.values import changed, leaves, with_leaf
from spangrade.evaluator.metrics.shown import path_text
from spangrade.evaluator.session import Error, Session, ToolInteraction

_OTHER_TOOL = "another_tool"
_FAILED = {"status": "error", "message": "service unavailable"}
_LONGEST = 60  # characters of a value in a description


def drop_call(session: Session, random: Random) -> Mutant | None:
    """Leave a call out."""
    return _of_call(session, random, lambda call: not call.handoff, _drop)


def repeat_call(session: Session, random: Random) -> Mutant | None:
    """Make a call twice."""
    return _of_call(session, random, lambda call: not call.handoff, _repeat)


def other_tool(session: Session, random: Random) -> Mutant | None:
    """Call another tool with the same arguments."""
    names = sorted({call.tool_name for call in session.tool_interactions if not call.handoff})

    def rename(session: Session, index: int) -> Mutant:
        call = session.tool_interactions[index]
        others = [name for name in names if name != call.tool_name] or [_OTHER_TOOL]
        name = random.choice(others)
        place = step_of(session, index)
        steps = session.trajectory
        return Mutant(
            replace(
                with_call(session, index, call._replace(tool_name=name)),
                trajectory=tuple(s._replace(name=name) if i == place else s for i, s in enumerate(steps)),
            ),
            call.tool_name,
            f"{name} was called instead of {call.tool_name}",
            index,
        )

    return _of_call(session, random, lambda call: not call.handoff, rename)


def fail_call(session: Session, random: Random) -> Mutant | None:
    """Let a call fail that succeeded."""
    return _of_call(session, random, lambda call: not call.handoff and call.ok is not False, _fail)


def change_argument(session: Session, random: Random) -> Mutant | None:
    """Change an argument a little: a number, a date, an id, a unit."""
    places = [
        (index, path, value)
        for index, call in enumerate(session.tool_interactions)
        if call.arguments_known and not call.handoff and isinstance(call.input_arguments, dict)
        for path, value in leaves(call.input_arguments)
    ]
    if not places:
        return None
    index, path, value = random.choice(places)
    call = session.tool_interactions[index]
    other = changed(value, random)
    arguments = with_leaf(call.input_arguments, path, other)
    return Mutant(
        with_call(session, index, call._replace(input_arguments=arguments)),
        f"{call.tool_name}.{path_text(path)}",
        f"{shown(other)} instead of {shown(value)}",
        index,
        path,
    )


def swap_calls(session: Session, random: Random) -> Mutant | None:
    """Swap two successive calls, of which the second began after the first had ended."""
    calls = session.tool_interactions
    places = [
        index
        for index, (first, second) in enumerate(pairwise(calls))
        if not first.handoff
        and not second.handoff
        and first.end_ns <= second.start_ns
        and (first.tool_name, first.input_arguments) != (second.tool_name, second.input_arguments)
    ]
    if not places:
        return None
    index = random.choice(places)
    first, second = calls[index], calls[index + 1]
    swapped = list(calls)
    swapped[index : index + 2] = [_at(second, first), _at(first, second)]
    steps = list(session.trajectory)
    left, right = step_of(session, index), step_of(session, index + 1)
    if left is not None and right is not None:
        one, other = steps[left], steps[right]
        steps[left] = one._replace(name=other.name, kind=other.kind, span_id=other.span_id)
        steps[right] = other._replace(name=one.name, kind=one.kind, span_id=one.span_id)
    return Mutant(
        replace(session, tool_interactions=numbered_calls(swapped), trajectory=tuple(steps)),
        f"{first.tool_name}, {second.tool_name}",
        f"{second.tool_name} was called before {first.tool_name}",
        index,
    )


def with_call(session: Session, index: int, call: ToolInteraction) -> Session:
    """Return a session with another call at an index."""
    calls = session.tool_interactions
    return replace(session, tool_interactions=(*calls[:index], call, *calls[index + 1 :]))


def shown(value: Any) -> str:
    """Return a value as short JSON text."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _of_call(
    session: Session,
    random: Random,
    fits: Callable[[ToolInteraction], bool],
    make: Callable[[Session, int], Mutant],
) -> Mutant | None:
    places = [index for index, call in enumerate(session.tool_interactions) if fits(call)]
    return make(session, random.choice(places)) if places else None


def _at(call: ToolInteraction, place: ToolInteraction) -> ToolInteraction:
    """Return a call at the time and in the turn of another."""
    return call._replace(turn=place.turn, start_ns=place.start_ns, end_ns=place.end_ns)


def _drop(session: Session, index: int) -> Mutant:
    call = session.tool_interactions[index]
    name = call.tool_name
    return Mutant(without_calls(session, {index}), name, f"call {index + 1} was left out", index)


def _repeat(session: Session, index: int) -> Mutant:
    calls, steps = session.tool_interactions, session.trajectory
    call = calls[index]
    length = call.end_ns - call.start_ns
    again = call._replace(start_ns=call.end_ns, end_ns=call.end_ns + length)
    place = step_of(session, index)
    if place is not None:
        again_step = steps[place]._replace(start_ns=again.start_ns)
        steps = numbered_steps((*steps[: place + 1], again_step, *steps[place + 1 :]))
    made = replace(
        session,
        tool_interactions=numbered_calls((*calls[: index + 1], again, *calls[index + 1 :])),
        trajectory=steps,
    )
    return Mutant(with_time(made, [call], 1), call.tool_name, f"call {index + 1} was made twice", index)


def _fail(session: Session, index: int) -> Mutant:
    call = session.tool_interactions[index]
    failed = call._replace(ok=False, error=_FAILED["message"], output=_FAILED, output_known=True)
    error = Error(f"tool {call.tool_name}", failed.error, call.trace_id, call.span_id)
    made = replace(with_call(session, index, failed), errors=(*session.errors, error))
    return Mutant(made, call.tool_name, f"call {index + 1} failed", index)
