"""`spangrade convert`: logs, eval histories, eval sets and stored sessions into datasets, and back."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from spangrade import Selection
from spangrade.converters import convert_test_to_golden
from spangrade.converters.script import report
from spangrade.evaluator.cli.declare import Only
from spangrade.evaluator.cli.options import StoredIn
from spangrade.evaluator.cli.output import print_lines
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import REQUIRED, argument, option
from spangrade.tracer.base.json_text import parse_written, refusal
from spangrade.tracer.base.terminal import counted, warn

_FIELD = re.compile(r"(\w+)=")
_FIELDS = {
    "required_texts": "Which text should a reply have?",
    "forbidden_tools": "Which tool should not have been called?",
}
_Chosen = Annotated[Selection, Only("where", "since", "sample", "agent", "limit")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """The golden file to which sessions are added, and how."""

    output: Path = option(
        REQUIRED,
        "A golden file; what it has already is kept. Or a new eval set.",
        name="--output",
        also="-o",
    )
    question_id: str | None = option(
        None,
        "The question's id; without, the one that the session answers, or the session's own.",
        name="--id",
    )
    wildcards: bool = option(False, "With one id: expect no value that looks generated: ids, timestamps.")
    dedupe: bool = option(False, "Merge sessions whose user inputs differ in values alone.")
    failed_calls: bool = option(False, "Expect calls that failed to fail again.")
    failed: bool = option(
        False, "Of a session that failed: expect what should have happened, as --expect says it."
    )
    expect: tuple[str, ...] = option(
        (),
        'With --failed: a call that was due, `refund {"amount": 5}`, or another reference, '
        '`required_texts=["5 EUR"]`, `forbidden_tools=["cancel"]`.',
        metavar="TOOL JSON|FIELD=JSON",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSource:
    """What questions are made of."""

    sources: tuple[str, ...] = argument(
        (),
        "Files of promptfoo, Inspect, DeepEval or ADK, or conversation logs; or a session's id; without, the "
        "options choose sessions.",
        metavar="FILE...|SESSION",
    )
    answered_by: str | None = option(
        None, "The agent that answers, for a file that names none.", name="--agent-name", also="-a"
    )


def _of_sessions(select: Selection, what: ConvertOptions, session_id: str | None, at: StoredIn) -> None:
    """Make golden questions of stored sessions: what they did is what is expected from then on.

    With an id, of that session; else of all that the options choose. Sessions with equal user inputs become
    one question, which nobody has reviewed yet: it has "reviewed": false.
    """
    many = select != Selection() or what.dedupe
    if what.failed:
        if session_id is None or many or what.wildcards or what.failed_calls:
            raise InputError("--failed is about one session: expected its id, and what should have happened")
        _failed(session_id, what, at)
        return
    if what.expect:
        raise InputError("--expect needs --failed, and the id of a session")
    if session_id is None:
        if not many:
            raise InputError("convert which sessions? Expected an id, --where, --since, --limit or --dedupe")
        if what.question_id is not None or what.wildcards:
            raise InputError("--id and --wildcards are about one session: give its id")
    elif many or what.failed_calls:
        raise InputError("expected the id of one session or options that choose many, not both")
    with at.opened() as opened:
        if session_id is not None:
            addition = opened.add_to_golden(
                session_id, what.output, question_id=what.question_id, wildcards=what.wildcards
            )
        else:
            addition = opened.mine_golden(
                what.output, select=select, dedupe=what.dedupe, failed_calls=what.failed_calls
            )
    for place in addition.volatile:
        handled = "any value is accepted" if what.wildcards else "--wildcards accepts any value"
        warn(f"{place}: looks generated; {handled}")
    report(f"{counted(addition.added, 'question')} added to {what.output}", addition.problems)


def _failed(session_id: str, what: ConvertOptions, at: StoredIn) -> None:
    """Add what should have happened in a session to a golden file; ask for it if nothing says it."""
    expect = list(what.expect)
    with at.opened() as opened:
        if not expect and sys.stdin.isatty():
            for line in opened.struck_out(session_id):
                print_lines(f"struck out: {line}")
                expect.append(_asked("What should have been called in its place (TOOL JSON)?"))
            expect.append(_asked("What else should have been called (TOOL JSON)?"))
            for field, question in _FIELDS.items():
                answer = _asked(question)
                expect.append(f"{field}={json.dumps([answer])}" if answer else "")
        named = [(one, _FIELD.match(one)) for one in expect if one]
        made = opened.failure_to_golden(
            session_id,
            what.output,
            calls=[_call(one) for one, found in named if found is None],
            references={found[1]: _json(one[found.end() :], one) for one, found in named if found},
            question_id=what.question_id,
        )
    for line in made.struck:
        print_lines(f"struck out: {line}")
    print_lines(f"1 question added to {what.output}, not reviewed: {made.proof.line}")


def _asked(question: str) -> str:
    import typer

    answer: str = typer.prompt(f"{question} (nothing: Enter)", default="", show_default=False)
    return answer.strip()


def _call(text: str) -> dict[str, Any]:
    from spangrade.evaluator.review.call_lines import call_of_line

    try:
        return call_of_line(text)
    except json.JSONDecodeError as error:
        raise _refused(text, error) from error


def _json(value: str, text: str) -> Any:
    try:
        return parse_written(value)
    except json.JSONDecodeError as error:
        raise _refused(text, error) from error


def _refused(text: str, error: json.JSONDecodeError) -> InputError:
    return InputError(f"--expect {text!r}: {refusal(error)}")


def convert(select: _Chosen, what: ConvertOptions, of: ConvertSource, at: StoredIn) -> None:
    """Make golden questions of a file, whose tool is recognized by its content, or of stored sessions.

    What a session did is what is expected from then on. A golden file becomes an eval set of ADK. What cannot
    be used is named and left out, and the exit code is then 2.
    """
    files = [Path(one) for one in of.sources if Path(one).exists()]
    if not files and len(of.sources) < 2:
        _of_sessions(select, what, next(iter(of.sources), None), at)
        return
    if len(files) < len(of.sources):
        missing = next(one for one in of.sources if not Path(one).exists())
        raise InputError(f"{missing}: no such file; expected files, or one session")
    if select != Selection():
        raise InputError(
            f"{files[0]}: it is a file: expected no choice of sessions; --agent-name names its agent"
        )
    for path in files:
        _convert(path, what.output, of.answered_by)


def _convert(path: Path, output: Path, answered_by: str | None) -> None:
    """Add the questions of a file to a golden file; golden questions become an eval set."""
    from spangrade.converters.datasets.recognized import tool_of

    if (tool := tool_of(path)) == "adk":
        from spangrade.converters.datasets.adk_evalset import convert as convert_evalset

        written, problems = convert_evalset(path, output, answered_by)
        report(f"{written} to {output}", problems)
    elif tool == "log":
        if answered_by is None:
            raise InputError(f"{path}: a conversation log names no agent: expected --agent-name NAME")
        convert_test_to_golden.convert(path, output, answered_by)
    else:
        from spangrade.converters.datasets.other_tools import convert as convert_questions

        added, problems = convert_questions(tool, path, output)
        report(f"{counted(added, 'question')} added to {output}", problems)
