"""A golden question for people: what the user says, the expected calls, and what was learned."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from spangrade.converters.datasets.golden import (
    ExpectedReply,
    GoldenQuestion,
    ReferenceData,
    RequiredText,
    Scenario,
    text_of,
)
from spangrade.evaluator.reports.tables import cell
from spangrade.tracer.canonical_json import dumps


def question_text(question: GoldenQuestion) -> Iterator[Text]:
    """Yield the lines of a question: user inputs, accepted calls, other references, and what was learned."""
    for text in question.user_inputs:
        yield cell(f"user: {text}")
    if question.scenario is not None:
        yield from _scenario_text(question.scenario)
    for number, calls in enumerate(question.accepted_calls):
        if number:
            yield cell("or these calls:")
        for call in calls:
            arguments = "" if call.input_arguments is None else dumps(call.input_arguments)
            notes = [f"status {call.status}"] * (call.status is not None) + ["in any order"] * call.unordered
            yield cell(f"  {call.tool_name}{arguments} {', '.join(notes)}".rstrip())
    reference = question.reference_data
    yield from _limits(reference)
    if reference.reference_state_variables:
        yield cell(f"state: {dumps(reference.reference_state_variables)}")
    if reference.reference_state_exact:
        yield cell("state: nothing else")
    if reference.reference_response is not None:
        yield cell(f"reply: {_reply(reference.reference_response)}")
    for one in reference.required_texts or ():
        where = f"the reply of turn {one.turn}" if isinstance(one, RequiredText) and one.turn else "a reply"
        yield cell(f"{where} has: {text_of(one)}")
    if reference.max_cost_usd is not None:
        yield cell(f"costs at most: {reference.max_cost_usd:g} USD")
    if reference.max_latency_s is not None:
        yield cell(f"takes at most: {reference.max_latency_s:g} s")
    learned = question.metadata.get("learned")
    if isinstance(learned, dict):
        yield cell(f"learned from sessions: {learned.get('sessions')}")
        for rule in learned.get("rules", ()):
            yield cell(f"  {rule['where']}: {rule['rule']} ({rule['sessions']})")


def _reply(expected: str | ExpectedReply) -> str:
    match = expected.match if isinstance(expected, ExpectedReply) else None
    return f"({match}) {text_of(expected)}" if match else text_of(expected)


def _scenario_text(scenario: Scenario) -> Iterator[Text]:
    for number, part in enumerate(scenario.filled_plan, 1):
        yield cell(f"plan {number}: {part}")
    if scenario.facts:
        yield cell(f"facts: {dumps(scenario.facts)}")


def _limits(reference: ReferenceData) -> Iterator[Text]:
    if reference.forbidden_tools:
        yield cell(f"forbidden: {', '.join(reference.forbidden_tools.tools)}")
    if (further := reference.no_further_calls) is True:
        yield cell("no further calls")
    elif further:
        yield cell(f"no further calls of {', '.join(further)}")
    for limit in reference.at_most or ():
        yield cell(f"at most: {limit.calls} of {limit.tool}")
    for rule in reference.before or ():
        yield cell(f"order: {rule}")
