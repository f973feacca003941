"""Sessions and questions that a grade finds inconclusive, and how to supply the missing part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.derive.session_rows import SessionRows, load_rows
from spangrade.evaluator.derive.sync.recorded import spans_at
from spangrade.evaluator.derive.sync.update import count_sessions
from spangrade.evaluator.derive.sync.workers import InOrder, few_collections
from spangrade.evaluator.grading.gate_names import named_tools, unknown_names
from spangrade.evaluator.grading.grade import Coverage, SpansAt, grade_sessions, grade_unanswered
from spangrade.evaluator.grading.policy import (
    NOTHING_TO_COMPARE,
    REFERENCE_GATES,
    RESPONSE,
    TURNS_ANSWERED,
    unread_text,
)
from spangrade.evaluator.grading.prepare import Prepared, custom_keys
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.grading.slices import (
    SLICE,
    prepared_here,
    workers_for,
    workers_of_slices,
    workers_on_slices,
)
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.judge.choice import use_judge
from spangrade.evaluator.judge.protocol import NoJudge
from spangrade.evaluator.maintenance.lint import Finding, lint, matters
from spangrade.evaluator.metrics import Inconclusive, Score
from spangrade.evaluator.metrics.matching import nulls_in
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.semconv import QUESTION_ID
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store

_NOT_ASKED = "lint does not ask the judge"
_NO_JUDGE = NoJudge(_NOT_ASKED)
_WHICH_QUESTION = (
    f"record {QUESTION_ID} on its spans (spangrade.session), or say which it answers: "
    "grade --answers SESSION=ID"
)
_CALLS = "reference_tool_interactions"
_EMPTY = (
    "leave the key out where any calls are allowed; older versions of the converters wrote it where nothing "
    "was known of the calls"
)
_UNREAD = 'rename the key, request a metric that reads it, or put it into "custom": {} of the question'
_NULLS = 'write {"$null": true} where null is expected; leave the key out where any value is right'
_GATES_OF_CALLS = {"no_further_calls", "forbidden_tools"}
_FURTHER = 'if they must not be made: "no_further_calls": true in reference_data, or "forbidden_tools"'
_JUDGED_BY_WORDS = ("goal", "scenario", "assertions")  # references that only a judge can compare
_JUDGE = (
    "set up a judge (its key, or grade --judge-model), say how to compare "
    '({"text": …, "match": "contains"}; exact, pattern), '
    "compare the words (--metric 'response_match>=0.7'), or do not compare it "
    f"(SPANGRADE_NO_REFERENCE={RESPONSE})"
)

_Advice = Mapping[str | None, Mapping[str, str]]  # by session and metric

_NAMES = "write the names as the sessions have them"
_ROOT_AGENT = "name the agent in the question; or grade without it: SPANGRADE_ROOT_AGENT_NAME=none"


@few_collections()
def lint_stored(
    store: Store,
    session_id: str | None,
    prepared: Prepared | None,
    on_problem: Callable[[Problem], None],
    workers: int | None = 1,
) -> list[Finding]:
    """Return what the recordings of all sessions, or of one, lack, and what a grade would find inconclusive.

    The latter is left out unless it is `prepared`. For `workers` see `workers_for`.
    """
    sessions = 1 if session_id is not None else count_sessions(store)
    with workers_on_slices(workers_of_slices(sessions, workers), prepared, _NO_JUDGE) as in_order:
        findings = list(lint(store, session_id, in_order))
        if prepared is not None:
            findings += _unknown_names(store, session_id, prepared)
            rows, whole = load_rows(store, session_id), session_id is None
            grading = in_order if workers_for(prepared, _NO_JUDGE, sessions, workers) > 1 else map
            unanswered = partial(spans_at, store) if whole else None
            findings += _inconclusive(rows, prepared, tuple(findings), unanswered, on_problem, grading)
    asked = () if prepared is None else [metric.name for metric in prepared.metrics]
    return [finding for finding in findings if matters(finding, asked)]


def _inconclusive(
    rows: Iterable[SessionRows],
    prepared: Prepared,
    recorded: Iterable[Finding],
    spans_of_all: SpansAt | None,
    on_problem: Callable[[Problem], None],
    in_order: InOrder,
) -> Iterator[Finding]:
    """Yield the sessions and golden questions that a grade would find inconclusive.

    The judge is not asked, and nothing is saved. `recorded` is what the recordings lack: its advice is given
    for the gates that are inconclusive because of it. Unless the sessions are all of the database, which has
    `spans_of_all`, a question that none of them answers is not a finding.
    """
    advice: dict[str | None, dict[str, str]] = {}
    for finding in recorded:
        if finding.advice is not None:
            of_session = advice.setdefault(finding.session_id, {})
            for metric in finding.metrics:
                of_session.setdefault(metric, finding.advice)
    yield from _empty_references(prepared.questions.golden_questions)
    yield from _scenarios(prepared.questions.golden_questions)
    yield from _own_keys(prepared)
    yield from _nulls(prepared.questions.golden_questions)
    coverage = Coverage()
    if in_order is map:
        with use_judge(_NO_JUDGE):
            read = (session for part in rows for session in part.decoded())
            for one in grade_sessions(prepared, prepared.with_columns(read, on_problem), coverage):
                yield from _of_grade(one, advice)
    else:
        slices = (part for window in rows for part in window.slices(SLICE))
        jobs = ((part, {row[0]: advice.get(row[0], {}) for row in part.sessions}) for part in slices)
        for linted in in_order(_lint_slice, jobs):
            for problem in linted.problems:
                on_problem(problem)
            coverage.add(linted.coverage)
            yield from linted.findings
    for one in () if spans_of_all is None else grade_unanswered(prepared, coverage, spans_of_all):
        yield from _of_grade(one, advice)


class _Linted(NamedTuple):
    """The findings of a slice."""

    findings: list[Finding]
    coverage: Coverage
    problems: list[Problem]


def _lint_slice(job: tuple[SessionRows, _Advice]) -> _Linted:
    """Return the findings of the grades of a slice, in a worker."""
    rows, advice = job
    shared, prepared = prepared_here()
    linted = _Linted([], Coverage(), [])
    with use_judge(_NO_JUDGE):
        read = prepared.with_columns(rows.decoded(), linted.problems.append)
        for one in grade_sessions(prepared, read, linted.coverage, shared.now_ns):
            linted.findings.extend(_of_grade(one, advice))
    return linted


def _of_grade(one: Grade, advice: _Advice) -> Iterator[Finding]:
    yield from _findings(one, advice.get(one.session_id, {}))
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


def _nulls(questions: Iterable[GoldenQuestion]) -> Iterator[Finding]:
    """Yield a finding if expected calls have nulls, which are not compared."""
    number = sum(
        nulls_in(call.input_arguments or {}) + ("output" in call.model_fields_set and nulls_in(call.output))
        for question in questions
        for calls in question.accepted_calls
        for call in calls
    )
    if number:
        what = f"{counted(number, 'null')} in expected calls: any value matches, and under subset also none"
        yield Finding("null_expected", None, what, number, (), _NULLS)


def _own_keys(prepared: Prepared) -> Iterator[Finding]:
    """Yield the keys that look like references and are not read, by what is said of them, then the others."""
    found: Counter[str] = Counter()
    for question in prepared.questions.golden_questions:
        if unread := prepared.plan.unread_references(question):
            found[unread_text(unread)] += 1
    for what, number in found.items():
        yield Finding("unread_reference", None, what, number, (TURNS_ANSWERED,), _UNREAD)
    if (custom := custom_keys(prepared)) is not None:
        yield Finding("custom_keys", None, custom, 1, (), None)


def _unknown_names(store: Store, session_id: str | None, prepared: Prepared) -> Iterator[Finding]:
    """Yield a finding if gates name tools that no session has, and some have nearly the same."""
    sessions = None if session_id is None else (session_id,)
    if (gates := named_tools(prepared)) and (what := unknown_names(gates, store, sessions)) is not None:
        yield Finding("unknown_names", None, what, 1, (), _NAMES)


def _scenarios(questions: Iterable[GoldenQuestion]) -> Iterator[Finding]:
    """Yield the missing parts of scenarios of simulated users."""
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
        yield Finding("no_further_calls", one.session_id, what, int(outcome.value), (), _FURTHER)


def _findings(one: Grade, advice: Mapping[str, str]) -> Iterator[Finding]:
    if one.verdict is Verdict.UNMATCHED:
        yield Finding("unmatched", one.session_id, one.reason, 1, (), _WHICH_QUESTION)
        return
    if one.root_agent is not None:
        yield Finding("root_agent", one.session_id, one.root_agent, 1, (), _ROOT_AGENT)
    for name, outcome in one.outcomes.items():
        if not isinstance(outcome, Inconclusive) or outcome.reason not in one.reason:
            continue
        if name == TURNS_ANSWERED and one.session_id is None:
            what = f"golden question {one.question_id}: {outcome.reason}"
            help_ = "record a conversation with its user_inputs, or choose other questions (grade --where)"
            yield Finding("unanswered", None, what, 1, (name,), help_)
        elif name == TURNS_ANSWERED and one.question_id is None:
            yield Finding("ambiguous", one.session_id, outcome.reason, 1, (name,), _WHICH_QUESTION)
        elif _NOT_ASKED in outcome.reason and (asked := _reference_of(name)) in _JUDGED_BY_WORDS:
            what = f"{asked}: a judge has to answer it"
            help_ = f"set up a judge (its key, or grade --judge-model), or set SPANGRADE_NO_REFERENCE={asked}"
            yield Finding("needs_judge", one.session_id, what, 1, (), help_)
        elif _NOT_ASKED in outcome.reason:
            reply = "the last reply" if name == REFERENCE_GATES[RESPONSE] else "a reply"
            what = f"{reply} differs from {_reference_of(name) or RESPONSE}: a judge has to rate it"
            yield Finding("needs_judge", one.session_id, what, 1, (), _JUDGE)
        elif (reference := _reference_of(name)) is not None:
            help_ = _NAMES if "did you mean" in outcome.reason else advice.get(name, "record it")
            help_ += f"; or do not compare it (SPANGRADE_NO_REFERENCE={reference})"
            yield Finding("not_compared", one.session_id, f"{name}: {outcome.reason}", 1, (name,), help_)
    if NOTHING_TO_COMPARE in one.reason:
        what = f"golden question {one.question_id}: {one.reason}"
        help_ = "give it reference_data, or request a gate that needs none (grade --metric 'NAME>=T')"
        yield Finding("no_reference", one.session_id, what, 1, (TURNS_ANSWERED,), help_)


def _reference_of(gate: str) -> str | None:
    return next((reference for reference, name in REFERENCE_GATES.items() if name == gate), None)
