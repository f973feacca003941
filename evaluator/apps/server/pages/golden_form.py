"""A session as a golden question in a form: what failed is struck out, what was due is added.

The question and its proof are those of `spangrade convert SESSION --failed`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.database import app
from spangrade.evaluator.derive import load
from spangrade.evaluator.grading.stored_run import stored_questions_of
from spangrade.evaluator.grading.stored_sessions import latest_grade
from spangrade.evaluator.metrics.matching import first_difference
from spangrade.evaluator.reports.html.session_source import stored_session
from spangrade.evaluator.reports.question_sentence import passes_if
from spangrade.evaluator.review.call_lines import call_line, call_of_line
from spangrade.evaluator.review.session_to_golden import question_of
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import parse_written, refusal
from spangrade.tracer.store import Store

if TYPE_CHECKING:
    from spangrade.evaluator.apps.audit.failure_to_golden import Corrected

MAX_CALLS = 200
MAX_PASSING = 20  # sessions that pass, on which a question is tried
MATCHES = ("meaning", "contains", "exact", "pattern")
_NOT_EXPECTED = "it is not expected"
_CALLS, _REPLY = "reference_tool_interactions", "reference_response"
_STATE = "reference_state_variables"


class CallRow(NamedTuple):
    """A call that the session made, by its number from 0, as a line.

    `why` it is struck out is "" where it is expected.
    """

    number: int
    line: str
    why: str
    tool: str


class GoldenForm(NamedTuple):
    """What the form begins with; `problem` says why there is none.

    The reply and the state at the end are None where none is recorded, and expected unless the session
    failed. `due` are the calls, a line each, that the question it failed expects and that it did not make.
    """

    problem: str = ""
    question_id: str = ""
    is_failed: bool = False
    calls: tuple[CallRow, ...] = ()
    due: tuple[str, ...] = ()
    reply: str | None = None
    state: str | None = None


class ProvedQuestion(NamedTuple):
    """A question that a form makes: its sentence and its proof in words; `problem` is "" if it is of use."""

    question: Mapping[str, Any]
    sentence: str
    proof: str
    problem: str


def golden_form(store: Store, session: Session) -> GoldenForm:
    """Return the form of a session."""
    try:
        data = question_of(session, "form").question["reference_data"]
    except InputError as error:
        return GoldenForm(problem=str(error))
    if len(session.tool_interactions) > MAX_CALLS:
        return GoldenForm(problem=f"it made more than {MAX_CALLS} calls: use `spangrade convert --failed`")
    of_failures = app("audit.failure_to_golden")
    failure = of_failures.failure_of(store, session.session_id)
    struck = of_failures.struck_calls(session, failure.causes) if failure.is_failed else {}
    return GoldenForm(
        "",
        session.question_id or session.session_id,
        failure.is_failed,
        tuple(
            CallRow(index, call_line(call), struck.get(index, ""), call.tool_name)
            for index, call in enumerate(session.tool_interactions)
            if call.ran
        ),
        tuple(_due(store, session, struck)) if failure.is_failed else (),
        data.get(_REPLY),
        _written(data[_STATE]) if _STATE in data else None,
    )


def _due(store: Store, session: Session, struck: Collection[int]) -> Iterator[str]:
    grade = latest_grade(store, session.session_id)
    if grade is None or grade.question_id is None:
        return
    question = stored_questions_of(store, grade.run_id, [grade.question_id]).get(grade.question_id)
    if question is None or len(session.turns) < len(question.user_inputs):
        return  # the calls of a turn that never began are not due
    made = [one for index, one in enumerate(session.tool_interactions) if one.ran and index not in struck]
    for reference in question.reference(_CALLS) or ():
        name, expected = reference.tool_name, reference.input_arguments
        for call in made:
            if call.tool_name == name and (
                expected is None or first_difference(expected, call.input_arguments) is None
            ):
                made.remove(call)
                break
        else:
            yield name if expected is None else f"{name} {_written(expected)}"


def form_part(store: Store, session_id: str) -> tuple[str, dict[str, Any]]:
    """Return the template and the values of the form of a session."""
    session = stored_session(store, session_id)
    form = golden_form(store, session)
    made = None if form.problem else tried(store, session, form_fields(form))
    return "part_golden_form.html", {
        "form": form,
        "tried": made,
        "matches": MATCHES,
        "session_id": session_id,
    }


def form_fields(form: GoldenForm) -> dict[str, str]:
    """Return what a form sends before anything is changed in it."""
    fields = {"id": form.question_id}
    if form.due:
        fields["calls"] = "\n".join(form.due)
    for row in form.calls:
        fields[f"call-{row.number}"] = row.line
        if not row.why:
            fields[f"keep-{row.number}"] = "1"
    for name, text in (("reply", form.reply), ("state", form.state)):
        if text is not None:
            fields[name] = text
            if not form.is_failed:
                fields[f"keep-{name}"] = "1"
    return fields


def tried(store: Store, session: Session, fields: Mapping[str, str]) -> ProvedQuestion:
    """Return the question that a form makes, and its proof. Raises InputError for a mistake in a field."""
    of_failures = app("audit.failure_to_golden")
    failure = of_failures.failure_of(store, session.session_id)
    struck = of_failures.struck_calls(session, failure.causes) if failure.is_failed else {}
    calls = []
    for index, call in enumerate(session.tool_interactions):
        line = fields.get(f"call-{index}", "").strip()
        if not call.ran or not line:
            continue
        if f"keep-{index}" not in fields:
            struck.setdefault(index, _NOT_EXPECTED)
        elif line != call_line(call) or index in struck:
            struck.setdefault(index, _NOT_EXPECTED)
            calls.append(_call(line))
    calls += [_call(line) for line in _lines(fields, "calls")]
    forbidden = [
        call.tool_name for index, call in enumerate(session.tool_interactions) if f"forbid-{index}" in fields
    ]
    made: Corrected = of_failures.correct(
        session,
        fields.get("id", "").strip() or session.session_id,
        of_failures.Corrections(calls, list(_lines(fields, "texts")), _references(fields, forbidden)),
        causes=failure.causes if failure.is_failed else (),
        passing=[one for name in failure.passing[:MAX_PASSING] for one in load(store, name)],
        struck=struck,
    )
    sentence = passes_if(GoldenQuestion.model_validate(made.question))
    return ProvedQuestion(
        made.question, sentence, made.proof.line, _problem(made, is_failed=failure.is_failed)
    )


def _problem(made: Corrected, *, is_failed: bool) -> str:
    """Return why a question is of no use; one of a session that did not fail may pass on it."""
    proof = made.proof
    if not is_failed and proof.failed != "failed":
        return f"it fails {proof.fails[0]}, which passes" if proof.fails else ""
    return proof.problem or ""


def _references(fields: Mapping[str, str], forbidden: Iterable[str]) -> dict[str, Any]:
    tools = list(dict.fromkeys((*forbidden, *_lines(fields, "forbidden"))))
    texts = list(_lines(fields, "forbidden-texts"))
    found: dict[str, Any] = {
        key: names for key, names in (("forbidden_tools", tools), ("forbidden_texts", texts)) if names
    }
    if "keep-reply" in fields:
        match = fields.get("reply-match", MATCHES[0])
        text = fields.get("reply", "")
        found[_REPLY] = text if match == MATCHES[0] else {"text": text, "match": match}
    if "keep-state" in fields:
        found[_STATE] = _json(fields.get("state", ""))
    return found


def _lines(fields: Mapping[str, str], name: str) -> Iterator[str]:
    return (line.strip() for line in fields.get(name, "").splitlines() if line.strip())


def _call(line: str) -> dict[str, Any]:
    try:
        return call_of_line(line)
    except json.JSONDecodeError as error:
        raise InputError(f"the call {line[:80]!r}: {refusal(error)}") from None


def _json(text: str) -> Any:
    try:
        return parse_written(text)
    except json.JSONDecodeError as error:
        raise InputError(f"the state {text[:80]!r}: {refusal(error)}") from None


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
