"""`spangrade convert`: logs, eval histories, eval sets and stored sessions into datasets, and back."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from spangrade import Selection
from spangrade.converters import convert_adk_history_to_dataset, convert_test_to_golden
from spangrade.converters.script import report
from spangrade.evaluator.cli.declare import Only, WithDefault, commands_under
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
_Chosen = Annotated[Selection, Only("where", "since", "until", "agent", "model", "origin", "limit")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFile:
    """A file of another tool, and what is made of it."""

    source: Path = option(REQUIRED, "The file of the other tool.", name="--input", also="-i")
    output: Path = option(
        REQUIRED, "A golden file, which keeps what it has; or a new eval set.", name="--output", also="-o"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalsetFile(ToolFile):
    """An eval set of ADK, or golden questions."""

    agent: str | None = option(None, "The agent that is to answer; an eval set names none.", also="-a")


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
    failed_calls: bool = option(False, "Expect calls that failed to fail again.", rare=True)
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
class SessionOrAll:
    """A session, or those that the options choose."""

    session_id: str | None = argument(
        None, "A session's id, or the beginning of one; without, the options choose many."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSource:
    """What questions are made of."""

    source: str | None = argument(
        None,
        "A file of promptfoo, Inspect, DeepEval or ADK, or a conversation log; or a session's id; without, "
        "the options choose sessions.",
        metavar="FILE|SESSION",
    )
    answered_by: str | None = option(
        None, "The agent that answers, for a file that names none.", name="--agent-name", also="-a"
    )


def evalset(what: EvalsetFile) -> None:
    """Convert an ADK eval set into golden questions, or golden questions into an ADK eval set.

    What cannot be used is named and left out, and the exit code is then 2.
    """
    from spangrade.converters.datasets.adk_evalset import convert

    written, problems = convert(what.source, what.output, what.agent)
    report(f"{written} to {what.output}", problems)


def promptfoo(what: ToolFile) -> None:
    """Convert promptfoo's configuration into golden questions.

    What has no counterpart is named, and the exit code is 2 if it left out what is expected of a reply.
    """
    _convert("promptfoo", what.source, what.output)


def inspect(what: ToolFile) -> None:
    """Convert a dataset of Inspect (JSON, JSON Lines or CSV) into golden questions.

    What has no counterpart is named.
    """
    _convert("inspect", what.source, what.output)


def deepeval(what: ToolFile) -> None:
    """Convert a dataset of DeepEval (JSON, JSON Lines or CSV) into golden questions.

    What has no counterpart is named.
    """
    _convert("deepeval", what.source, what.output)


def _convert(tool: str, source: Path, output: Path) -> None:
    from spangrade.converters.datasets.other_tools import convert

    added, problems = convert(tool, source, output)
    report(f"{counted(added, 'question')} added to {output}", problems)


def session(select: _Chosen, what: ConvertOptions, one: SessionOrAll, at: StoredIn) -> None:
    """Make golden questions of stored sessions: what they did is what is expected from then on.

    With an id, of that session; else of all that the options choose. Sessions with equal user inputs become
    one question, which nobody has reviewed yet: it has "reviewed": false.
    """
    session_id = one.session_id
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
    from spangrade.evaluator.audit.failure_to_golden import call_of_line

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
    from spangrade.converters.datasets.recognized import tool_of

    source, output, answered_by = of.source, what.output, of.answered_by
    if source is None or not Path(source).exists():
        session(select, what, SessionOrAll(session_id=source), at)
        return
    tool = tool_of(Path(source))
    if tool == "adk":
        evalset(EvalsetFile(source=Path(source), output=output, agent=answered_by))
    elif tool == "log":
        if answered_by is None:
            raise InputError(f"{source}: a conversation log names no agent: expected --agent-name NAME")
        convert_test_to_golden.convert(Path(source), output, answered_by)
    else:
        _convert(tool, Path(source), output)


app = commands_under(
    "Convert logs, files of other tools, and stored sessions into datasets.",
    convert,
    hidden=(evalset, promptfoo, inspect, deepeval, session),
    cls=WithDefault,
)
app.command("test-to-golden", hidden=True)(convert_test_to_golden.convert)
app.command("adk-history", hidden=True)(convert_adk_history_to_dataset.convert)
