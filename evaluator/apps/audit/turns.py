"""Mutants of turns: a turn stops early, is missing, or is one too many."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from spangrade.evaluator.apps.audit.edits import with_model_calls, with_turns, without_calls
from spangrade.evaluator.apps.audit.mutant import Mutant
from spangrade.evaluator.session import Session

REPLY = "reply"


def stop_early(session: Session, random: Random) -> Mutant | None:
    """Stop a turn before one of its calls, with an empty reply."""
    calls = session.tool_interactions
    places = [index for index, call in enumerate(calls) if call.turn is not None and not call.handoff]
    if not places:
        return None
    place = random.choice(places)
    first = calls[place]
    dropped = {
        index
        for index, call in enumerate(calls)
        if call.turn == first.turn and call.start_ns >= first.start_ns and not call.handoff
    }
    made = without_calls(session, dropped)
    turns = tuple(
        turn._replace(final_response="") if turn.turn == first.turn and turn.final_response else turn
        for turn in made.turns
    )
    change = f"turn {first.turn} stopped before call {place + 1}"
    return Mutant(replace(made, turns=turns), first.tool_name, change, place)


def drop_turn(session: Session, random: Random) -> Mutant | None:
    """Leave a turn out, with all that happened in it."""
    if len(session.turns) < 2:
        return None
    number = random.choice(session.turns).turn
    return Mutant(with_turns(session, lambda turn: turn != number), "turns", f"turn {number} is missing")


def add_turn(session: Session, random: Random) -> Mutant | None:  # noqa: ARG001 (there is one way)
    """Go on for one more turn, which says the last reply again."""
    if not session.turns:
        return None
    last = session.turns[-1]
    more = last._replace(turn=last.turn + 1, start_ns=last.end_ns, end_ns=2 * last.end_ns - last.start_ns)
    latency = session.latency
    if latency.total_s is not None and last.latency_s is not None:
        latency = replace(latency, total_s=latency.total_s + last.latency_s)
    made = replace(session, turns=(*session.turns, more), latency=latency)
    calls = [call._replace(turn=more.turn) for call in session.llm_calls if call.turn == last.turn]
    return Mutant(with_model_calls(made, [*session.llm_calls, *calls]), "turns", "one turn too many")
