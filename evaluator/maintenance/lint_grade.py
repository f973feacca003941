"""What a grade would find inconclusive, and how to supply what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.grading.grade import Grade
from spangrade.evaluator.grading.policy import (
    CONVERSATION,
    NOTHING_TO_COMPARE,
    REFERENCE_GATES,
    RESPONSE,
    Verdict,
)
from spangrade.evaluator.grading.prepare import Prepared
from spangrade.evaluator.judge.choice import use_judge_of_run
from spangrade.evaluator.judge.no_judge import NoJudge
from spangrade.evaluator.maintenance.lint import Finding
from spangrade.evaluator.metrics import Inconclusive, Score
from spangrade.evaluator.session import Session
from spangrade.tracer.semconv import QUESTION_ID
from spangrade.tracer.span import Problem

_NOT_ASKED = "lint does not ask the judge"
_WHICH_QUESTION = (
    f"record {QUESTION_ID} on its spans (spangrade.session), or say which it answers: "
    "grade --question SESSION=ID"
)
_CALLS = "reference_tool_interactions"
_EMPTY = (
    "leave the key out where any calls are allowed; older versions of the converters wrote it where nothing "
    "was known of the calls"
)
_GATES_OF_CALLS = {"further_calls", "forbidden_calls"}
_FURTHER = 'if they must not be made: "no_further_calls": true in reference_data, or "forbidden_tools"'
_JUDGE = (
    "set up a judge (its key, or grade --judge-model), compare the words (--metric 'response_match>=0.7'), "
    f"or do not compare it (--no-reference {RESPONSE})"
)

_ROOT_AGENT = "name the agent in the question; or grade without it: --root-agent-name none"


def lint_grade(
    sessions: Iterable[Session],
    prepared: Prepared,
    recorded: Iterable[Finding],
    *,
    whole: bool = True,
    on_problem: Callable[[Problem], None],
) -> Iterator[Finding]:
    """Yield the sessions and golden questions that a grade would find inconclusive.

    The judge is not asked, and nothing is saved. `recorded` is what the recordings lack: its advice is given
    for the gates that are inconclusive because of it. Unless the sessions are the `whole` database, a
    question that none of them answers is not a finding.
    """
    advice: dict[tuple[str | None, str], str] = {}
    for finding in recorded:
        for metric in finding.metrics:
            if finding.advice is not None:
                advice.setdefault((finding.session_id, metric), finding.advice)
    yield from _empty_references(prepared.questions.golden_questions)
    yield from _scenarios(prepared.questions.golden_questions)
    with use_judge_of_run(NoJudge(_NOT_ASKED)):
        for one in prepared.grades(prepared.with_columns(sessions, on_problem), unanswered=whole):
            yield from _findings(one, advice)
            yield from _further_calls(one)


def _empty_references(questions: Iterable[GoldenQuestion]) -> Iterator[Finding]:
    """Yield a finding if no question expects a call, and some say so: older converters wrote `[]` always."""
    given = [question.accepted_calls for question in questions if question.reference(_CALLS) is not None]
    if given and all(calls == ((),) for calls in given):
        subject = (
            "the golden question expects" if len(given) == 1 else f"{len(given)} golden questions expect"
        )
        what = f'{subject} that no tool is called ("{_CALLS}": []), and none expects a call'
        yield Finding("no_calls_expected", None, what, 1, (), _EMPTY)


def _scenarios(questions: Iterable[GoldenQuestion]) -> Iterator[Finding]:
    """Yield what a simulated user would lack."""
    for question in questions:
        scenario = question.scenario
        if scenario is None:
            continue
        if not scenario.plan:
            what = f"the scenario of golden question {question.id} has no goal: its plan is empty"
            yield Finding("no_goal", None, what, 1, (), "write in `plan` what the user wants, in order")
        if missing := scenario.missing_facts:
            what = f"the plan of golden question {question.id} needs facts that are missing: "
            yield Finding(
                "missing_facts", None, what + ", ".join(missing), len(missing), (), "add them to `facts`"
            )


def _further_calls(one: Grade) -> Iterator[Finding]:
    """Yield a finding for calls that the question does not expect and that no gate counts."""
    outcome = one.outcomes.get("unexpected_calls")
    if isinstance(outcome, Score) and outcome.value > 0 and _GATES_OF_CALLS.isdisjoint(one.outcomes):
        what = f"golden question {one.question_id} allows further calls; {outcome.reason}"
        yield Finding("further_calls", one.session_id, what, int(outcome.value), (), _FURTHER)


def _findings(one: Grade, advice: Mapping[tuple[str | None, str], str]) -> Iterator[Finding]:
    if one.verdict is Verdict.UNMATCHED:
        yield Finding("unmatched", one.session_id, one.reason, 1, (), _WHICH_QUESTION)
        return
    if one.root_agent is not None:
        yield Finding("root_agent", one.session_id, one.root_agent, 1, (), _ROOT_AGENT)
    for name, outcome in one.outcomes.items():
        if not isinstance(outcome, Inconclusive) or outcome.reason not in one.reason:
            continue
        if name == CONVERSATION and one.session_id is None:
            what = f"golden question {one.question_id}: {outcome.reason}"
            help_ = "record a conversation with its user_inputs, or choose other questions (grade --where)"
            yield Finding("unanswered", None, what, 1, (name,), help_)
        elif name == CONVERSATION and one.question_id is None:
            yield Finding("ambiguous", one.session_id, outcome.reason, 1, (name,), _WHICH_QUESTION)
        elif _NOT_ASKED in outcome.reason:
            reply = "the last reply" if name == REFERENCE_GATES[RESPONSE] else "a reply"
            what = f"{reply} differs from {_reference_of(name) or RESPONSE}: a judge has to rate it"
            yield Finding("needs_judge", one.session_id, what, 1, (), _JUDGE)
        elif (reference := _reference_of(name)) is not None:
            help_ = advice.get((one.session_id, name), "record it")
            help_ += f"; or do not compare it (grade --no-reference {reference})"
            yield Finding("not_compared", one.session_id, f"{name}: {outcome.reason}", 1, (name,), help_)
    if NOTHING_TO_COMPARE in one.reason:
        what = f"golden question {one.question_id}: {one.reason}"
        help_ = "give it reference_data, or request a gate that needs none (grade --metric 'NAME>=T')"
        yield Finding("no_reference", one.session_id, what, 1, (CONVERSATION,), help_)


def _reference_of(gate: str) -> str | None:
    return next((reference for reference, name in REFERENCE_GATES.items() if name == gate), None)
