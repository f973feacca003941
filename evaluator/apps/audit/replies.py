"""Mutants of the last reply: empty, cut off, or the contrary."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from spangrade.evaluator.apps.audit.mutant import Mutant
from spangrade.evaluator.apps.audit.turns import REPLY
from spangrade.evaluator.apps.audit.values import number_in, with_other_number
from spangrade.evaluator.session import Session

_SHORTEST = 2  # words that can be cut
_NEGATED = re.compile(
    r"\b(is|are|was|were|can|will|have|has|do|does|did|should|could|would)\b(?! not)(?!n't)"
)
_NOT = re.compile(r"\b(not|never) |n't\b")


def blank_reply(session: Session, random: Random) -> Mutant | None:  # noqa: ARG001 (there is one way)
    """Leave the last reply empty."""
    reply = _reply(session)
    return None if reply is None else _mutant(session, "", "empty")


def truncate_reply(session: Session, random: Random) -> Mutant | None:
    """Cut the last reply off after some of its words."""
    words = (_reply(session) or "").split()
    if len(words) < _SHORTEST:
        return None
    kept = random.randint(max(1, len(words) // 4), max(1, len(words) * 3 // 4))
    return _mutant(session, " ".join(words[:kept]), f"cut after {kept} of {len(words)} words")


def contradict_reply(session: Session, random: Random) -> Mutant | None:
    """Say the contrary: another number, or a negation."""
    reply = _reply(session)
    if reply is None:
        return None
    ways = [way for way in (_other_number(reply), _negated(reply)) if way is not None]
    text, change = random.choice(ways) if ways else (f"It is not true: {reply}", "denied")
    return _mutant(session, text, change)


def _other_number(reply: str) -> tuple[str, str] | None:
    number = number_in(reply)
    return None if number is None else (with_other_number(reply, number), "another number")


def _negated(reply: str) -> tuple[str, str] | None:
    if _NOT.search(reply):
        return _NOT.sub("", reply, count=1), "without its negation"
    if _NEGATED.search(reply):
        return _NEGATED.sub(r"\1 not", reply, count=1), "negated"
    return None


def _reply(session: Session) -> str | None:
    reply = session.turns[-1].final_response if session.turns else None
    return reply if reply and reply.strip() else None


def _mutant(session: Session, reply: str, change: str) -> Mutant:
    last = session.turns[-1]._replace(final_response=reply)
    return Mutant(replace(session, turns=(*session.turns[:-1], last)), REPLY, change)
