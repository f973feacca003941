"""Whether a mutant is right by the reference's own rules, so that nothing should have noticed it.

The reference is completed with what the session did: wildcards and what the reference leaves free get the
session's values, calls that it does not name are added in their place. What it says itself is kept: calls in
any order, alternatives, references to the user's texts and to earlier results, limits. A mutant that meets
the completed reference, compared exactly, is right.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from spangrade.converters.datasets.forms import EACH, LITERAL, NULL, is_form, word_of
from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceToolInteraction
from spangrade.evaluator.metrics import Score
from spangrade.evaluator.metrics.matching import (
    ANY_TEXT,
    is_reference,
    json_equal,
)
from spangrade.evaluator.metrics.pairing import best_met, pair_calls
from spangrade.evaluator.metrics.references import user_values
from spangrade.evaluator.metrics.reply_texts import folded
from spangrade.evaluator.metrics.tools import tools
from spangrade.evaluator.session import Session

_DEEPEST = 50  # levels of an argument that are completed


class Completed(NamedTuple):
    """A session as a reference: its calls, and the other lists of calls that are as good."""

    session: Session
    calls: GoldenQuestion
    alternatives: GoldenQuestion | None
    max_cost_usd: float | None
    max_latency_s: float | None


def completed(session: Session, question: GoldenQuestion, gates: Collection[str]) -> Completed:
    """Return the reference of a question, completed from a session.

    `gates` are the names of those that the session meets: a limit of cost or time among them accepts what
    is within it.
    """
    met = best_met(session, question)
    others = tuple(calls for calls in question.accepted_calls if calls != met)
    return Completed(
        session,
        _with_calls(question, (_calls(session, question, met),)),
        _with_calls(question, others) if others else None,
        _limit(session.cost_usd, question.reference("max_cost_usd"), "cost" in gates),
        _limit(session.latency.total_s, question.reference("max_latency_s"), "latency_metrics" in gates),
    )


def is_right(mutant: Session, reference: Completed) -> bool:
    """Return whether a mutant meets the completed reference, as the session does."""
    session = reference.session
    return (
        [_form(turn.final_response) for turn in mutant.turns]
        == [_form(turn.final_response) for turn in session.turns]
        and _agents(mutant) == _agents(session)
        and json_equal(mutant.state_variables, session.state_variables)
        and _within(mutant.cost_usd, reference.max_cost_usd)
        and _within(mutant.latency.total_s, reference.max_latency_s)
        and _makes_the_calls(mutant, reference)
    )


def _limit(own: float | None, expected: float | None, is_gated: bool) -> float | None:
    """Return the limit: None if any value passes, the reference's limit, or the session's own value."""
    return None if is_gated else own if expected is None else expected


def _within(value: float | None, limit: float | None) -> bool:
    return value is None or limit is None or value <= limit


def _form(text: str | None) -> str | None:
    return None if text is None else folded(text, case=True)


def _agents(session: Session) -> list[str]:
    steps = (step.name for step in session.trajectory if step.kind == "agent")
    return [name for name, _ in groupby(steps)]


def _makes_the_calls(mutant: Session, reference: Completed) -> bool:
    if mutant.tool_interactions == reference.session.tool_interactions:
        return True
    if _is_met(tools(mutant, reference.calls, by="exact", matcher="exact")):
        return True
    others = reference.alternatives
    return others is not None and _is_met(tools(mutant, others, by="exact"))


def _is_met(outcome: object) -> bool:
    return isinstance(outcome, Score) and outcome.value == 1


def _with_calls(
    question: GoldenQuestion, lists: tuple[tuple[ReferenceToolInteraction, ...], ...]
) -> GoldenQuestion:
    """Return a question that accepts these lists of calls alone."""
    changes = {"reference_tool_interactions": lists[0], "reference_tool_alternatives": lists[1:] or None}
    reference = question.reference_data.model_copy(update=changes)
    return question.model_copy(update={"reference_data": reference})


def _calls(
    session: Session, question: GoldenQuestion, met: tuple[ReferenceToolInteraction, ...]
) -> tuple[ReferenceToolInteraction, ...]:
    """Return the session's calls as expected calls, in the reference's words where it names them."""
    calls = session.tool_interactions
    chosen = pair_calls(met, calls, user_values(session, question))
    expected = {place: wanted for wanted, place in zip(met, chosen, strict=True) if place is not None}
    made = []
    for place, call in enumerate(calls):
        wanted = expected.get(place)
        arguments = None if wanted is None else wanted.input_arguments
        if call.arguments_known and isinstance(call.input_arguments, dict):
            arguments = complete(arguments, call.input_arguments)
        status = "error" if call.ok is False else None
        made.append(
            ReferenceToolInteraction.model_construct(
                tool_name=call.tool_name,
                input_arguments=arguments,
                status=status if wanted is None else wanted.status or status,
                output=None if wanted is None else wanted.output,
                unordered=wanted is not None and wanted.unordered,
            )
        )
    return tuple(made)


def complete(expected: Any, actual: Any, depth: int = _DEEPEST) -> Any:
    """Return an expected value with actual values in place of its wildcards."""
    if not depth or is_reference(expected):
        return expected
    word = word_of(expected) if isinstance(expected, Mapping) else None
    if word == EACH and isinstance(actual, list):
        return [complete(expected[EACH], item, depth - 1) for item in actual]
    if word is not None:
        return expected
    if isinstance(actual, Mapping) and is_form(actual):
        return {LITERAL: actual}
    if isinstance(actual, Mapping):
        known = expected if isinstance(expected, Mapping) else {}
        return {key: complete(known.get(key), value, depth - 1) for key, value in actual.items()}
    if isinstance(actual, list):
        items = (
            expected if isinstance(expected, list) and len(expected) == len(actual) else [None] * len(actual)
        )
        return [complete(item, value, depth - 1) for item, value in zip(items, actual, strict=True)]
    if expected is None or expected == ANY_TEXT:
        return {NULL: True} if actual is None else actual
    return expected
