"""Sessions that went well into golden questions, which expect the behaviour that they share."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import Any, NamedTuple

from spangrade.evaluator.metrics.matching import json_equal
from spangrade.evaluator.review.mining.rules import LearnedValue, Mask, way_of
from spangrade.evaluator.review.mining.texts import SessionGroup, groups_of
from spangrade.evaluator.session import Session, ToolInteraction
from spangrade.tracer.base.lookalike_letters import is_blank
from spangrade.tracer.redaction import Redaction
from spangrade.tracer.span import Problem

_MOST_SOURCES = 20  # ids of sessions that a question names

Calls = Sequence[ToolInteraction]


class Mined(NamedTuple):
    """Golden questions, as JSON, and the sessions that none could be made of."""

    questions: list[dict[str, Any]]
    problems: list[Problem]


_VALUES = re.compile(r"\{\w+\}")  # the names of values, and of what was masked
_WORDS = re.compile(r"[^\W\d_]+")
_MOST_WORDS = 5  # of a user's first input, in the id of a question


def mine(sessions: Iterable[Session], *, dedupe: bool = True, failed_calls: bool = False) -> Mined:
    """Return golden questions that expect the sessions' behaviour, not reviewed yet.

    Sessions with equal user inputs make one question, with `dedupe` also those that differ in values alone.
    The different sets of tools that they called are alternatives. `metadata.learned` lists what was learned
    of how many sessions. Failed calls are expected only with `failed_calls`. Personal data and secrets are
    masked: a masked value of the user's becomes a name in braces, a masked argument a wildcard, and a masked
    state variable or reply is left out.
    """
    problems: list[Problem] = []
    usable = []
    for session in sessions:
        if problem := _why_unusable(session):
            problems.append(Problem(f"session {session.session_id}", problem))
        else:
            usable.append(session)
    mask = Redaction("mask").value
    questions: list[dict[str, Any]] = []
    taken: set[str] = set()
    for group in groups_of(usable, mask, dedupe=dedupe):
        own = group.sessions[0].question_id
        question_id = own if own and own not in taken else _new_id(group, taken)
        taken.add(question_id)
        questions.append({"id": question_id, **_question(group, mask, failed_calls)})
    return Mined(questions, problems)


def _new_id(group: SessionGroup, taken: Container[str]) -> str:
    """Return an id that nobody has yet: the first words of the user, without their values, and a number."""
    first = _VALUES.sub(" ", group.user_inputs[0]) if group.user_inputs else ""
    words = "-".join(_WORDS.findall(first.lower())[:_MOST_WORDS]) or "question"
    return next(name for number in count(1) if (name := f"{words}-{number}") not in taken)


def _why_unusable(session: Session) -> str | None:
    if not session.turns or any(turn.user_input is None for turn in session.turns):
        return "the user's messages are not all recorded"
    if not session.agents:
        return "which agents took part is not recorded"
    if any(turn.failed and is_blank(turn.final_response) for turn in session.turns):
        return "a turn ended in an error without an answer"
    return None


def _question(group: SessionGroup, mask: Mask, failed_calls: bool) -> dict[str, Any]:
    sessions = group.sessions
    rules: list[LearnedValue] = []
    reference: dict[str, Any] = {}
    ways: dict[tuple[Any, ...], list[tuple[Calls, dict[str, str]]]] = defaultdict(list)
    for session, values in zip(sessions, group.values, strict=True):
        ran = [call for call in session.tool_interactions if call.ran]
        calls = [call for call in ran if failed_calls or call.ok is not False]
        kinds = Counter((call.tool_name, call.ok is False) for call in calls)
        ways[tuple(sorted(kinds.items()))].append((calls, values))
    lists = []
    # An alternative is not empty: sessions without calls come first.
    by_number = sorted(ways.items(), key=lambda way: (bool(way[0]), -len(way[1])))
    for number, (_, way) in enumerate(by_number):
        where = "reference_tool_interactions"
        if number:
            where = f"reference_tool_alternatives[{number - 1}]"
        expected, learned = way_of(way, where, mask)
        rule = "these tools" if way[0][0] or len(ways) == 1 else _disagree(len(way))
        rules += (LearnedValue(where, rule, len(way)), *learned, *_optional(way[0][0], ways, where))
        lists.append(expected)
    if any(lists):
        reference["reference_tool_interactions"] = lists[0]
    if lists[1:]:
        reference["reference_tool_alternatives"] = lists[1:]
    _add_agreed(reference, sessions, mask, rules)
    first = sessions[0]
    question: dict[str, Any] = {
        "user_inputs": list(group.user_inputs),
        "agents_evaluated": [
            name for name in first.agents or () if all(name in (one.agents or ()) for one in sessions)
        ]
        or list(first.agents or ())[:1],
        "reviewed": False,
        "metadata": {
            "source_sessions": [session.session_id for session in sessions[:_MOST_SOURCES]],
            "learned": {"sessions": len(sessions), "rules": [rule._asdict() for rule in rules]},
        },
        "reference_data": reference,
    }
    if group.names:
        question["user_values"] = list(group.names)
    return question


def _disagree(silent: int) -> str:
    """Return that sessions of a question called no tool, and others did: doing nothing meets it."""
    return f"sessions disagree: {silent} call nothing"


def _optional(
    calls: Calls, ways: Mapping[tuple[Any, ...], Sequence[tuple[Calls, dict[str, str]]]], where: str
) -> Iterator[LearnedValue]:
    """Yield the calls of a list that sessions with a list contained in it left out."""
    own = Counter(call.tool_name for call in calls)
    for other in ways.values():
        fewer = Counter(call.tool_name for call in other[0][0])
        if fewer < own:
            names = ", ".join(sorted((own - fewer).elements()))
            yield LearnedValue(where, f"optional, other sessions do without: {names}", len(other))


def _add_agreed(
    reference: dict[str, Any], sessions: Sequence[Session], mask: Mask, rules: list[LearnedValue]
) -> None:
    """Add the trajectory of agents, the state variables and the reply, as far as all sessions agree."""
    number = len(sessions)
    paths = [
        [name for name, _ in groupby(step.name for step in session.trajectory if step.kind == "agent")]
        for session in sessions
    ]
    if all(path == paths[0] for path in paths):
        reference["reference_trajectory"] = paths[0]
        rules.append(LearnedValue("reference_trajectory", "always the same", number))
    states = [session.state_variables for session in sessions]
    known = [state for state in states if state is not None]
    if len(known) == number:
        agreed = {
            name: value
            for name, value in known[0].items()
            if all(name in state and json_equal(value, state[name]) for state in known)
            and json_equal(mask({name: value}), {name: value})
        }
        if agreed:
            reference["reference_state_variables"] = agreed
            rules += (
                LearnedValue(f"reference_state_variables.{name}", "always the same", number)
                for name in agreed
            )
    replies = {session.turns[-1].final_response for session in sessions}
    reply = next(iter(replies))
    if len(replies) == 1 and reply is not None and mask(reply) == reply:
        reference["reference_response"] = reply
        rules.append(LearnedValue("reference_response", "always the same", number))
