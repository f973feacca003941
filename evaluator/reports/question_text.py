"""A golden question for people: the user's messages, when a session passes, what was learned."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from spangrade.converters.datasets.golden import GoldenQuestion, Scenario
from spangrade.evaluator.reports.question_sentence import passes_if
from spangrade.evaluator.reports.tables import cell
from spangrade.tracer.base.canonical_json import dumps


def question_text(question: GoldenQuestion) -> Iterator[Text]:
    """Yield the lines of a question: its user inputs or scenario, when a session passes, what was learned."""
    for text in question.user_inputs:
        yield cell(f"user: {text}")
    if question.scenario is not None:
        yield from _scenario_text(question.scenario)
    yield cell(passes_if(question))
    learned = question.metadata.get("learned")
    if isinstance(learned, dict):
        yield cell(f"learned from sessions: {learned.get('sessions')}")
        for rule in learned.get("rules", ()):
            yield cell(f"  {rule['where']}: {rule['rule']} ({rule['sessions']})")


def _scenario_text(scenario: Scenario) -> Iterator[Text]:
    for number, part in enumerate(scenario.filled_plan, 1):
        yield cell(f"plan {number}: {part}")
    if scenario.facts:
        yield cell(f"facts: {dumps(scenario.facts)}")
