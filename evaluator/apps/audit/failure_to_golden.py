"""Turn a session that failed into a golden question that expects the corrected behaviour.

Calls that failed, and calls that the causes of failed gates name, are struck out. So are the last reply and
the state, which came after them. A person says what should have happened (`Corrections`), and the question is
proved at once: it fails on the session, passes on a copy that is corrected, catches mutants of the failure,
and does not fail sessions that pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from spangrade.converters.datasets.forms import ANY, NUMBER, TEXT, word_of
from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion, question_problems
from spangrade.evaluator.apps.audit.audit import NOT_WRONG, Audited, Fate, fates, gates_of, graded
from spangrade.evaluator.apps.audit.edits import numbered_calls, numbered_steps, without_calls
from spangrade.evaluator.apps.audit.mutant import Mutant, load_kinds, mutants_of
from spangrade.evaluator.grading.match_questions import QuestionIndex
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.grading.stored_sessions import latest_grade
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import load_metrics
from spangrade.evaluator.metrics.causes import Cause, Evidence
from spangrade.evaluator.metrics.matching import json_equal
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.review.call_lines import call_line
from spangrade.evaluator.review.session_to_golden import question_of
from spangrade.evaluator.session import Session, Step, ToolInteraction
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store import Store

CALLS, TEXTS = "reference_tool_interactions", "required_texts"
_STATE, _RESPONSE = "reference_state_variables", "reference_response"
ENOUGH = 0.8  # of the mutants of a failure are caught
_MOST_NAMED = 5  # of what is not held
_MUTANTS, _SEEDS = 200, range(5)  # of the corrected session
_DOES = {Verdict.FAILED: "fails", Verdict.PASSED: "passes"}
_OF_A_CALL = ("change-argument", "drop-call", "fail-call", "other-tool")


class Corrections(NamedTuple):
    """The corrected behaviour: calls, texts of replies, and other references by their keys."""

    calls: Sequence[Mapping[str, Any]] = ()
    texts: Sequence[Any] = ()
    references: Mapping[str, Any] = {}

    def __bool__(self) -> bool:
        """Whether anything is expected."""
        return bool(self.calls or self.texts or self.references)


class Proof(NamedTuple):
    """The proof of a question: its verdicts on the session that failed and on the corrected copy.

    `caught` of the `mutants` of the failure, which of the `passing` sessions it fails, and what is not held:
    the arguments, calls and texts that mutants changed which are not caught.
    """

    failed: Verdict
    corrected: Verdict
    mutants: int
    caught: int
    passing: int
    fails: tuple[str, ...]
    not_held: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """What is proved, in words."""
        on_session, on_copy = (
            _DOES.get(verdict, f"is {verdict}") for verdict in (self.failed, self.corrected)
        )
        return (
            f"it {on_session} on the session, {on_copy} on a corrected copy, catches {self.caught} of "
            f"{counted(self.mutants, 'mutant')} of the failure, and fails {len(self.fails) or 'none'} of "
            f"{counted(self.passing, 'session')} with these user inputs that pass"
        )

    @property
    def problem(self) -> str | None:
        """Why the question is of no use; None if it is proved."""
        if self.failed is not Verdict.FAILED:
            return f"it is {self.failed} on the session, not failed: say what should have happened"
        if self.corrected is not Verdict.PASSED:
            return f"it is {self.corrected} on the corrected session, not passed"
        if self.fails:
            return f"it fails {self.fails[0]}, which passes"
        if self.caught < ENOUGH * self.mutants:
            rest = len(self.not_held) - _MOST_NAMED
            named = ", ".join(self.not_held[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
            return f"it catches {self.caught} of {self.mutants} mutants of the failure; not held: {named}"
        return None


class Corrected(NamedTuple):
    """A golden question made of a failure, the calls struck out for it, a line each, and its proof."""

    question: dict[str, Any]
    struck: tuple[str, ...]
    proof: Proof


class _Call(NamedTuple):
    """A call of the corrected session: its reference, and the call of the session that it is made of."""

    reference: dict[str, Any]
    made_of: ToolInteraction | None
    is_new: bool = False


class KnownFailure(NamedTuple):
    """What is known of a session that failed.

    `is_failed` says whether its verdict is failed or broken, `causes` are those of the gates that it missed,
    and `passing` the ids of sessions with the same first message that pass.
    """

    is_failed: bool
    causes: tuple[Evidence, ...]
    passing: tuple[str, ...]


def failure_of(store: Store, session_id: str) -> KnownFailure:
    """Return the failure of a session by its latest grade, and sessions with its first message that pass."""
    grade = latest_grade(store, session_id)
    query = with_views(
        "SELECT session_id FROM {grades} SEMI JOIN (SELECT session_id FROM derived.sessions WHERE "
        "first_input = (SELECT first_input FROM derived.sessions WHERE session_id = $session_id)) "
        "USING (session_id) WHERE shown AND verdict = 'passed' ORDER BY session_id"
    )
    passing = tuple(one for (one,) in store.query(query, {"session_id": session_id}))
    if grade is None:
        return KnownFailure(is_failed=False, causes=(), passing=passing)
    is_failed = grade.verdict in (Verdict.FAILED, Verdict.BROKEN)
    return KnownFailure(is_failed, grade.causes, passing)


def struck_calls(session: Session, causes: Iterable[Evidence]) -> dict[int, str]:
    """Return the calls that are struck out, by their index, each with the reason."""
    missed = {one.span: one.path for one in causes if isinstance(one, Cause) and one.span and one.path}
    found = {}
    for index, call in enumerate(session.tool_interactions):
        if call.ok is False:
            found[index] = "it failed"
        elif call.span_id in missed:
            found[index] = f"it missed a gate: {missed[call.span_id]}"
    return found


def correct(
    session: Session,
    question_id: str,
    corrections: Corrections,
    *,
    causes: Iterable[Evidence] = (),
    passing: Iterable[Session] = (),
    struck: Mapping[int, str] | None = None,
) -> Corrected:
    """Return a failed session as a golden question by corrections, with its proof.

    `causes` are those of the gates that it failed, `passing` the sessions that pass: those of the same user
    inputs are graded. `struck` are the calls that are not expected, each with the reason, in place of those
    that failed and those that `causes` name. Raises InputError if the spans lack what a question needs, or
    what should have happened is not valid.
    """
    causes = tuple(causes)
    struck = struck_calls(session, causes) if struck is None else dict(struck)
    question = question_of(session, question_id).question
    rules = _valid({**question, "reference_data": dict(corrections.references)})
    forbidden, most = _forbidden(rules), _most(rules)
    for index, call in enumerate(session.tool_interactions):
        before = [one for one in session.tool_interactions[:index] if one.tool_name == call.tool_name]
        if call.tool_name in forbidden:
            struck.setdefault(index, "it is forbidden")
        elif len(before) >= most.get(call.tool_name, len(before) + 1):
            struck.setdefault(index, f"at most {most[call.tool_name]} should be made")
    calls = _calls(session, struck, corrections.calls)
    data = question["reference_data"]
    dropped = [key for key in (_STATE, _RESPONSE) if data.pop(key, None) is not None]
    steps = {step.span_id for step in session.trajectory if step.kind == "agent"}
    if any(
        isinstance(one, Cause) and one.span in steps and one.path in (session.agents or ()) for one in causes
    ):
        dropped += [key for key in ("reference_trajectory",) if data.pop(key, None) is not None]
    data.pop(CALLS, None)
    if calls:
        data[CALLS] = [one.reference for one in calls]
    if corrections.texts:
        data[TEXTS] = list(corrections.texts)
    data.update(corrections.references)
    question["reviewed"] = False
    made = _valid(question)
    proof = _prove(session, made, _corrected(session, calls, made), calls, struck, passing)
    lines = [f"{call_line(session.tool_interactions[index])}: {why}" for index, why in sorted(struck.items())]
    return Corrected(question, (*lines, *(f"{key}: it is of the failure" for key in dropped)), proof)


def _valid(question: Mapping[str, Any]) -> GoldenQuestion:
    if mistakes := question_problems(question):
        raise InputError(*(f"what should have happened: {text}" for text in mistakes))
    return GoldenQuestion.model_validate(question)


def _forbidden(question: GoldenQuestion) -> tuple[str, ...]:
    forbidden = question.reference("forbidden_tools")
    return () if forbidden is None else tuple(forbidden.tools)


def _most(question: GoldenQuestion) -> dict[str, int]:
    return {one.tool: one.calls for one in question.reference("at_most") or ()}


def _calls(session: Session, struck: Collection[int], expected: Sequence[Mapping[str, Any]]) -> list[_Call]:
    """Return the calls that are expected: those that were made and not struck out, and the corrections.

    A correction takes the place of a call of its tool that was struck out, else of one that was made in
    another way, else of any that was struck out; else it comes last.
    """
    ran = [index for index, call in enumerate(session.tool_interactions) if call.ran]
    references = question_of(session, "calls").question["reference_data"].get(CALLS, [])
    places: dict[int, _Call | None] = {
        index: None if index in struck else _Call(reference, session.tool_interactions[index])
        for index, reference in zip(ran, references, strict=True)
    }
    last: list[_Call] = []
    for each in expected:
        reference = {_LONG.get(key, key): value for key, value in each.items()}
        name, arguments = reference.get("tool_name"), reference.get("input_arguments")
        same = [index for index in places if session.tool_interactions[index].tool_name == name]
        if any(
            (one := places[index]) is not None and json_equal(one.reference.get("input_arguments"), arguments)
            for index in same
        ):
            continue
        free = [index for index in same if places[index] is None]
        free += [index for index in same if (one := places[index]) is not None and not one.is_new]
        free += [index for index in places if places[index] is None]
        made_of = session.tool_interactions[free[0]] if free else None
        if free:
            places[free[0]] = _Call(reference, made_of, is_new=True)
        else:
            last.append(_Call(reference, None, is_new=True))
    return [*(one for one in places.values() if one is not None), *last]


_LONG = {"name": "tool_name", "arguments": "input_arguments", "result": "output"}


def _corrected(session: Session, calls: Sequence[_Call], question: GoldenQuestion) -> Iterator[Session]:
    """Yield copies of a session that meet the references, with new calls at each place."""
    added = [one for one in calls if one.made_of is None]
    kept = [one for one in calls if one.made_of is not None]
    base = _with_reply_and_state(session, question)
    for place in range(len(kept), -1, -1) if added else (0,):
        yield _with_calls(base, [*kept[:place], *added, *kept[place:]])
    for index in range(len(calls) - 1):  # calls in another order
        for other in range(index + 1, len(calls)):
            moved = [*calls[:index], *calls[index + 1 : other + 1], calls[index], *calls[other + 1 :]]
            yield _with_calls(base, moved)


def _with_calls(session: Session, calls: Sequence[_Call]) -> Session:
    """Return a session that made these calls, each of which succeeded, in place of its own."""
    own = session.tool_interactions
    empty = without_calls(session, range(len(own)))
    template = own[-1] if own else None
    start = min((call.start_ns for call in own), default=session.start_ns or 0)
    turns = sorted(one.made_of.turn or 1 for one in calls if one.made_of is not None)
    made = []
    for number, one in enumerate(calls):
        turn = turns[min(number, len(turns) - 1)] if turns else len(session.turns)
        base = one.made_of or template
        arguments = _plain(one.reference.get("input_arguments"))
        if arguments is None or (base is not None and not one.is_new):
            arguments = None if base is None else base.input_arguments
        elif one.is_new and base is not None and base.tool_name == one.reference["tool_name"]:
            known = base.input_arguments if isinstance(base.input_arguments, dict) else {}
            arguments = {**known, **arguments} if isinstance(arguments, dict) else arguments
        at = start + number
        output = _plain(one.reference.get("output"))
        made.append(
            ToolInteraction(
                position=number + 1,
                turn=turn,
                tool_name=str(one.reference["tool_name"]),
                input_arguments=arguments,
                output=output if output is not None or base is None or one.is_new else base.output,
                arguments_known=True,
                output_known=True,
                ok=True,
                error=None,
                call_id=f"corrected-{number}",
                agent=None if base is None else base.agent,
                handoff=False if base is None else base.handoff and not one.is_new,
                latency_s=None if base is None else base.latency_s,
                start_ns=at,
                end_ns=at,
                trace_id="" if base is None else base.trace_id,
                span_id=f"corrected-{number}",
            )
        )
    steps = list(empty.trajectory)
    for call in made:
        place = sum((step.turn or 1) <= (call.turn or 1) for step in steps)
        step = Step(0, call.turn, "tool", call.tool_name, call.start_ns, call.trace_id, call.span_id)
        steps.insert(place, step)
    return replace(
        empty,
        tool_interactions=numbered_calls(made),
        trajectory=numbered_steps(steps),
        requested_calls=(),
        errors=(),
    )


def _with_reply_and_state(session: Session, question: GoldenQuestion) -> Session:
    """Return a session whose replies have the texts, and whose state the values, that are expected."""
    replies = [turn.final_response or "Done." for turn in session.turns]
    for one in question.reference(TEXTS) or ():
        turn, text = (one.turn, one.text) if hasattr(one, "turn") else (None, one)
        value = _plain(text.model_dump() if hasattr(text, "model_dump") else text)
        replies[(turn or len(replies)) - 1] += f" {value}"
    whole = question.reference(_RESPONSE)
    if whole is not None:
        replies[-1] = whole if isinstance(whole, str) else whole.text
    turns = tuple(
        turn._replace(final_response=reply, failed=False, raised=None)
        for turn, reply in zip(session.turns, replies, strict=True)
    )
    state = question.reference(_STATE)
    known = session.state_variables
    if state is not None:
        known = {**(known or {}), **{name: _plain(value) for name, value in state.items()}}
    return replace(session, turns=turns, state_variables=known)


def _plain(expected: Any) -> Any:
    """Return a value that an expected one matches."""
    if isinstance(expected, Mapping):
        word = word_of(expected)
        if word == ANY:
            return _plain(expected[ANY][0])
        if word in (TEXT, NUMBER):
            return expected[word]
        return {key: _plain(value) for key, value in expected.items()}
    return [_plain(one) for one in expected] if isinstance(expected, list | tuple) else expected


def _prove(
    session: Session,
    question: GoldenQuestion,
    copies: Iterable[Session],
    calls: Sequence[_Call],
    struck: Collection[int],
    passing: Iterable[Session],
) -> Proof:
    plan = MetricPlan.of((), load_metrics())

    def verdict(one: Session) -> Verdict:
        return plan.decide(one, (question,), graded(one, question, plan)).verdict

    verdicts = ((one, verdict(one)) for one in copies)
    first = next(verdicts)
    copy, corrected = next((one for one in (first, *verdicts) if one[1] is Verdict.PASSED), first)
    mutants = caught = 0
    not_held: dict[str, None] = {}
    if corrected is Verdict.PASSED:
        gates = gates_of(graded(copy, question, plan))
        audited = Audited(copy, question, (question.id,), gates)
        of_failure = list(_mutants(session, copy, question, calls, struck))
        tried = zip(of_failure, (fate for fate, _ in fates(audited, of_failure, plan)), strict=True)
        decided = [(mutant, fate) for mutant, fate in tried if fate not in NOT_WRONG]
        mutants, caught = len(decided), sum(fate is Fate.CAUGHT for _, fate in decided)
        not_held = {f"{one.target} ({one.change})": None for one, fate in decided if fate is not Fate.CAUGHT}
    index = QuestionIndex(GoldenDataset(golden_questions=(question,)), {})
    same = [one for one in passing if index.find(one).groups]
    fails = tuple(one.session_id for one in same if verdict(one) is Verdict.FAILED)
    return Proof(verdict(session), corrected, mutants, caught, len(same), fails, tuple(not_held))


def _mutants(
    session: Session,
    copy: Session,
    question: GoldenQuestion,
    calls: Sequence[_Call],
    struck: Collection[int],
) -> Iterator[Mutant]:
    """Yield mutants of a corrected session that fail as the session did: where it was corrected."""
    new = [one.reference["tool_name"] for one in calls if one.is_new]
    most = _most(question)
    pairs = {(one.first, one.then) for one in question.reference("before") or ()}
    drawn = {
        (kind, mutant.target, mutant.change, mutant.call): mutant
        for seed in _SEEDS
        for kind, mutant in mutants_of(copy, load_kinds(), _MUTANTS, seed)
    }
    for (kind, *_), mutant in drawn.items():
        name = None if mutant.call is None else copy.tool_interactions[mutant.call].tool_name
        if (
            (kind in _OF_A_CALL and name in new)
            or (kind == "repeat-call" and name in most)
            or (kind == "swap-calls" and tuple(mutant.target.split(", ")) in pairs)
            or (kind.endswith("-reply") and question.reference(TEXTS) is not None)
            or (kind.endswith("-state") and question.reference(_STATE) is not None)
        ):
            yield mutant
    for index in struck:
        call = session.tool_interactions[index]
        if call.tool_name in _forbidden(question):
            for place in range(len(copy.tool_interactions) + 1):
                own = copy.tool_interactions
                again = numbered_calls((*own[:place], call, *own[place:]))
                yield Mutant(replace(copy, tool_interactions=again), call.tool_name, "it is called again")
