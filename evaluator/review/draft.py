"""The first golden questions of an agent: its behaviour today, as a draft for a person to review."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from spangrade.converters.datasets.golden import distinct_name
from spangrade.evaluator.review.session_to_golden import question_of
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError

_LONGEST_ID = 40  # characters
SHORT = 80  # characters of a reply that may be expected as a whole


def id_of(text: str, known: Collection[str]) -> str:
    """Return an id for the question that a text asks: its first words, with a number if another has it."""
    words = re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")[:_LONGEST_ID].strip("-") or "question"
    return distinct_name(words, known)


def draft_of(session: Session, question_id: str, required_text: str) -> dict[str, Any]:
    """Return a question that expects the calls and agents of a session and, if given, a text in its reply.

    A reply as a whole is not expected: another run words it in another way. Raises InputError if the session
    lacks what a question needs.
    """
    named = session if session.agents else replace(session, agents=("agent",))
    question = question_of(named, question_id).question
    reference = question["reference_data"]
    if not session.agents:  # a plain function: which agent took part is not recorded
        del question["agents_evaluated"], reference["reference_trajectory"]
    reference.pop("reference_response", None)
    del question["metadata"]  # the session is of no database that stays
    if required_text:
        reference["required_texts"] = [required_text]
    return {**question, "reviewed": False}


def is_steady(asked: Sequence[Session], question_id: str) -> bool:
    """Return whether sessions of one question expect the same: calls, agents, state and a short reply."""
    try:
        drafts = [draft_of(one, question_id, short_reply(one)) for one in asked]
    except InputError:  # one has no turn, or an assembly error
        return False
    return all(draft == drafts[0] for draft in drafts)


def short_reply(session: Session) -> str:
    """Return the last reply of a session if it is short enough to be expected as it is, else nothing."""
    reply = session.turns[-1].final_response if session.turns else None
    return reply if reply is not None and 0 < len(reply) <= SHORT and "\n" not in reply else ""
