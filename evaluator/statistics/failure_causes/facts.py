"""Facts that may distinguish failed sessions from passing ones, counted and located by SQL.

A fact is a short text of one of the kinds below: `refund(currency) is given`. That a tool is not called, or
that none of its calls gives an argument, is a fact too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

PASSING = -1  # the part of the sessions that pass
KINDS = ("error", "argument", "step", "tool", "version", "model", "question", "input")  # what says most first
_QUERIES = ("errors", "arguments", "steps", "calls", "sessions", "words")
_PACKAGE = "spangrade.evaluator.statistics.failure_causes"
_CALLS, _NOT_CALLED = "calls ", "does not call "
_GIVEN, _NOT_GIVEN = " is given", " is not given"


class Fact(NamedTuple):
    """A fact: its kind and its text; `opposite` is the text that is absent if something is missing."""

    kind: str
    text: str
    opposite: str | None = None


def count_facts(
    store: Store, sessions: Sequence[tuple[str, int, str | None]], least: int
) -> dict[Fact, dict[int, int]]:
    """Return the number of sessions of each part that have each fact, if `least` sessions have it in all.

    The `sessions` are their ids, each with its part, a number or `PASSING`, and its question, if it has one.
    """
    found: dict[Fact, dict[int, int]] = {}
    ids, parts_of_sessions = [one[0] for one in sessions], [one[1] for one in sessions]
    values = {"session_ids": ids, "parts": parts_of_sessions, "least": least}
    for name in _QUERIES:
        for kind, text, parts, numbers in store.query(_query("count", name), values):
            found[Fact(kind, text)] = dict(zip(parts, numbers, strict=True))
    sizes: dict[int, int] = defaultdict(int)
    questions: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for _, part, question in sessions:
        sizes[part] += 1
        if question is not None:
            questions[question][part] += 1
    for question, by_part in questions.items():
        if sum(by_part.values()) >= least:
            found[Fact("question", f"question {question}")] = by_part
    found |= dict(_missing(found, sizes, least))
    return found


def _missing(
    found: Mapping[Fact, Mapping[int, int]], sizes: Mapping[int, int], least: int
) -> Iterator[tuple[Fact, dict[int, int]]]:
    """Yield what is not called, and the arguments that are given in none of a tool's calls."""
    for fact, by_part in found.items():
        if fact.kind == "tool" and not fact.text.endswith(" again"):
            text, among = fact.text.replace(_CALLS, _NOT_CALLED, 1), sizes
        elif fact.kind == "argument" and fact.text.endswith(_GIVEN):
            tool = fact.text.partition("(")[0]
            text = fact.text.removesuffix(_GIVEN) + _NOT_GIVEN
            among = found.get(Fact("tool", _CALLS + tool), {})
        else:
            continue
        without = {part: number - by_part.get(part, 0) for part, number in among.items()}
        if sum(without.values()) >= least:
            yield Fact(fact.kind, text, fact.text), without


def fact_of(kind: str, text: str) -> Fact:
    """Return the fact of a kind with a text, with its opposite if it says that something is missing."""
    if kind == "tool" and text.startswith(_NOT_CALLED):
        return Fact(kind, text, _CALLS + text.removeprefix(_NOT_CALLED))
    if kind == "argument" and text.endswith(_NOT_GIVEN):
        return Fact(kind, text, text.removesuffix(_NOT_GIVEN) + _GIVEN)
    return Fact(kind, text)


def find_facts(
    store: Store, facts: Collection[Fact], session_ids: Sequence[str], questions: Mapping[str, str | None]
) -> dict[Fact, dict[str, str | None]]:
    """Return the sessions that have each fact, each with the first span that shows it, None if none does."""
    wanted = {one.opposite or one.text for one in facts}
    wanted |= {_CALLS + one.text.partition("(")[0] for one in facts if one.opposite is not None}
    found: dict[str, dict[str, str | None]] = {}
    values = {"session_ids": list(session_ids), "wanted": sorted(wanted)}
    for name in _QUERIES if wanted else ():
        for text, ids, spans in store.query(_query("places", name), values):
            found[text] = dict(zip(ids, spans, strict=True))
    made: dict[Fact, dict[str, str | None]] = {}
    for fact in facts:
        if fact.kind == "question":
            having = (one for one in session_ids if f"question {questions[one]}" == fact.text)
            made[fact] = dict.fromkeys(having)
        elif fact.opposite is None:
            made[fact] = found.get(fact.text, {})
        else:
            present = found.get(fact.opposite, {})
            calls = found.get(_CALLS + fact.text.partition("(")[0], {}) if fact.kind == "argument" else None
            among = dict.fromkeys(session_ids) if calls is None else calls
            made[fact] = {one: span for one, span in among.items() if one not in present}
    return made


def _query(name: str, facts: str) -> str:
    return statement(name, _PACKAGE).format(facts=statement(facts, _PACKAGE))
