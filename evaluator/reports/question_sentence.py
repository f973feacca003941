"""A golden question for people: its messages, what makes a session pass in a sentence, what was learned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from spangrade.converters.datasets.call_rules import Rule
from spangrade.converters.datasets.forms import described
from spangrade.converters.datasets.golden import (
    GoldenQuestion,
    ReferenceData,
    ReferenceToolInteraction,
    Scenario,
)
from spangrade.evaluator.metrics.matching import ANY_TEXT
from spangrade.evaluator.reports.tables import cell
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.terminal import counted


def passes_if(question: GoldenQuestion) -> str:
    """Return the conditions of a question as `passes if: look_up was called with order_id "A1", and …`."""
    conditions = [*_calls(question), *_limits(question), *_replies(question), *_rest(question)]
    if not conditions:
        return "has nothing to compare with: it is inconclusive unless a gate is requested"
    if agents := question.reference("agents_evaluated"):
        conditions.append(f"{', '.join(agents)} took part")
    return f"passes if: {', and '.join(conditions)}"


def _calls(question: GoldenQuestion) -> Iterator[str]:
    if question.reference("reference_tool_interactions") is not None:
        lists = [" and ".join(map(_call, calls)) or "no tool was called" for calls in question.accepted_calls]
        requested = question.reference("requested_calls") is not None
        yield ", or ".join(lists) + (", be it only requested" if requested else "")
    if (steps := question.reference("reference_trajectory")) is not None:
        names = [step if isinstance(step, str) else f"({', '.join(step)} in any order)" for step in steps]
        free = ", other steps aside" if question.reference("trajectory") is not None else ""
        yield f"the steps were {', '.join(names) or 'none of a tool'}{free}"


def _call(call: ReferenceToolInteraction) -> str:
    given = {key: value for key, value in (call.input_arguments or {}).items() if value is not None}
    arguments = ", ".join(
        f"{key} {'any text' if value == ANY_TEXT else described(value)}" for key, value in given.items()
    )
    how = {"exact": " with exactly ", "superset": " with nothing but ", "ignore": None}.get(
        call.match or "", " with "
    )
    if call.input_arguments == {} and call.match in ("exact", "superset"):
        arguments = "no arguments"
    result = "" if call.output is None else f", which returned {described(call.output)}"
    failed = ", which failed" if call.status == "error" else ""
    return f"{call.tool_name} was called{how + arguments if how and arguments else ''}{result}{failed}"


def _limits(question: GoldenQuestion) -> Iterator[str]:
    aside = _ASIDE if question.reference("failed_calls") == "ignore" else ""
    if (further := question.reference("no_further_calls")) is not None:
        tools = "" if further is True else f" of {', '.join(further)}"
        yield f"no other call{tools} was made{aside}"
    yield from on_calls(question.reference_data)


def on_calls(one: ReferenceData | Rule) -> Iterator[str]:
    """Yield what a rule, or the references of a question, ask of the calls of a session."""
    aside = _ASIDE if one.failed_calls else ""
    if (forbidden := one.forbidden_tools) is not None:
        verb = "was" if len(forbidden.tools) == 1 else "were"
        yield f"{' and '.join(forbidden.tools)} {verb} not called{_ASIDE if forbidden.failed_calls else ''}"
    for limit in one.at_most or ():
        yield f"{limit.tool} was called at most {counted(limit.calls, 'time')}{aside}"
    for rule in one.before or ():
        yield f"each {rule.then} came after {rule.first}{rule.shared}{aside}"
    for rule in one.never_after or ():
        yield f"no {rule.then} came after {rule.first}{rule.shared}"
    for rule in one.followed_by or ():
        yield f"each {rule.first} was followed by {rule.then}{rule.shared}"
    for told in one.reply_has or ():
        yield f"a reply has {told.value} of {told.tool}"


_ASIDE = " (failed calls aside)"


def _replies(question: GoldenQuestion) -> Iterator[str]:
    for one in question.reference("required_texts") or ():
        text, turn = (one, None) if isinstance(one, str) else (one.text, one.turn)
        has = f"contains {_quoted(text)}" if isinstance(text, str) else f"has {described(text)}"
        yield f"{'a reply' if turn is None else f'the reply of turn {turn}'} {has}"
    for text in question.reference("forbidden_texts") or ():
        yield f"no reply contains {_quoted(text)}"
    if (reply := question.reference("reference_response")) is not None:
        yield f"the last reply {_reply(reply)}"
    for turn, reply in enumerate(question.reference("reference_responses") or (), 1):
        if reply is not None:
            yield f"the reply of turn {turn} {_reply(reply)}"


_MATCHES = {"exact": "is", "contains": "contains", "pattern": "matches", "meaning": "says the same as"}


def _reply(reply: Any) -> str:
    text, match = (reply, None) if isinstance(reply, str) else (reply.text, reply.match)
    return f"{_MATCHES[match or 'meaning']} {_quoted(text)}"


def _rest(question: GoldenQuestion) -> Iterator[str]:
    for name, value in (question.reference("reference_state_variables") or {}).items():
        yield f"{name} is {described(value)} at the end"
    if question.reference("reference_state_exact"):
        yield "nothing else is in the state"
    for key in ("goal", "assertions"):
        value = question.reference(key)
        for statement in (value,) if isinstance(value, str) else value or ():
            yield f"a judge finds that {statement}"
    if (cost := question.reference("max_cost_usd")) is not None:
        yield f"it cost at most {cost:g} USD"
    if (latency := question.reference("max_latency_s")) is not None:
        yield f"it took at most {latency:g} s"


def _quoted(text: str) -> str:
    return f"'{text}'"


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
