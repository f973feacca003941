"""Turn a session that went well into a golden question that expects its behaviour, or into a draft of one."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from spangrade.converters.datasets.forms import as_data, is_form
from spangrade.converters.datasets.golden import distinct_name
from spangrade.evaluator.metrics.matching import ANY_TEXT
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError

# What looks generated: another run has other values.
_GENERATED = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # a UUID, bare or behind a prefix
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d"  # a date with a time
    r"|\b(?=[a-z]*\d)(?=\d*[a-z])[0-9a-f]{16,}\b"  # a hexadecimal digest or trace id
    r"|\b(?=[a-z]*\d)[0-9a-hjkmnp-tv-z]{26}\b"  # a ULID
    r"|^1[0-9]{9}([0-9]{3}){0,3}$",  # seconds, milli-, micro- or nanoseconds since 1970
    re.IGNORECASE,
)
_LONGEST = 100  # characters; a longer text is content, whatever it contains
_LONGEST_ID = 40  # characters
SHORT = 80  # characters of a reply that may be expected as a whole


class Converted(NamedTuple):
    """A question, and the places in it whose values look generated."""

    question: dict[str, Any]
    volatile: list[str]


def question_of(session: Session, question_id: str, *, wildcards: bool = False) -> Converted:
    """Return a session as a golden question; with `wildcards` it expects no value that looks generated.

    A text becomes `"*"`, any other argument null, which leaves its key free; a state variable is left out,
    because state is compared as a whole. Raises InputError if the spans lack what a question needs.
    """
    no_input = [str(turn.turn) for turn in session.turns if turn.user_input is None]
    if no_input or not session.turns:
        where = f"turn {', '.join(no_input)}" if no_input else "any turn"
        raise InputError(f"session {session.session_id}: the user's message in {where} is not recorded")
    if not session.agents:
        raise InputError(f"session {session.session_id}: which agents took part is not recorded")
    volatile: list[str] = []
    calls = []
    for position, tool in enumerate(tool for tool in session.tool_interactions if tool.ran):
        call: dict[str, Any] = {"tool_name": tool.tool_name}
        if isinstance(tool.input_arguments, dict):
            at = f"reference_tool_interactions[{position}].input_arguments"
            with_wildcards = _with_wildcards(tool.input_arguments, at, volatile)
            call["input_arguments"] = with_wildcards if wildcards else as_data(tool.input_arguments)
        if tool.ok is False:
            call["status"] = "error"
        calls.append(call)
    steps = groupby(step.name for step in session.trajectory if step.kind == "agent")
    reference: dict[str, Any] = {"reference_tool_interactions": calls} if calls else {}
    reference["reference_trajectory"] = [name for name, _ in steps]
    if session.state_variables is not None:
        kept: dict[str, Any] = {}
        for name, value in session.state_variables.items():
            generated: list[str] = []
            _with_wildcards(value, f"reference_state_variables.{name}", generated)
            volatile += generated
            if not (generated and wildcards):
                kept[name] = as_data(value)
        reference["reference_state_variables"] = kept
    response = session.turns[-1].final_response
    if response is not None:
        reference["reference_response"] = response
    question = {
        "id": question_id,
        "user_inputs": [turn.user_input for turn in session.turns],
        "agents_evaluated": list(session.agents),
        "metadata": {"source_session": session.session_id},
        "reference_data": reference,
    }
    return Converted(question, volatile)


def _with_wildcards(value: Any, where: str, volatile: list[str]) -> Any:
    """Return a value with wildcards in place of generated parts; add the places to `volatile`."""
    if isinstance(value, dict) and is_form(value):
        return as_data(value)
    if isinstance(value, dict):
        return {key: _with_wildcards(item, f"{where}.{key}", volatile) for key, item in value.items()}
    if isinstance(value, list):
        items = [_with_wildcards(item, f"{where}[{index}]", volatile) for index, item in enumerate(value)]
        # Null leaves a key free, not an item of a list.
        return None if items.count(None) > value.count(None) else items
    if not looks_generated(value):
        return value
    volatile.append(where)
    return ANY_TEXT if isinstance(value, str) else None


def looks_generated(value: Any) -> bool:
    """Return whether a text or number looks like an id, a digest or a time: another run has another one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    text = str(int(value) if isinstance(value, float) and abs(value) < 2**63 else value)
    return len(text) <= _LONGEST and _GENERATED.search(text) is not None


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
