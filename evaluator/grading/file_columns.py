"""The values of a simulation file's row: they come first, and the spans fill the gaps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from spangrade.converters.datasets.adk_events import state_of
from spangrade.converters.datasets.simulation_csv import Row
from spangrade.converters.spans.observation import SpanRef, ToolUse
from spangrade.evaluator.derive.tool_calls import json_or_none, ok_and_error
from spangrade.evaluator.metrics.columns import FileSession, file_session, json_in
from spangrade.evaluator.metrics.matching import json_equal, normal_text
from spangrade.evaluator.metrics.pairing import as_call
from spangrade.evaluator.metrics.reply_texts import same_text
from spangrade.evaluator.session import RequestedCall, Session, ToolInteraction
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.span import Problem

_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_UNKNOWN_TRACE = ""
_MOST_SHOWN = 5  # disagreements of one row in a warning; sessions.jsonl has all


def with_rows(
    sessions: Iterable[Session], rows: Mapping[str, Row], on_problem: Callable[[Problem], None]
) -> Iterator[Session]:
    """Yield sessions, those that have a row with its columns; see `with_row`. Disagreements are reported."""
    for session in sessions:
        row = rows.get(session.session_id)
        if row is None:
            yield session
            continue
        known = with_row(session, row.columns)
        if known.disagreements:
            shown = "; ".join(known.disagreements[:_MOST_SHOWN])
            rest = len(known.disagreements) - _MOST_SHOWN
            text = f"it differs from its spans: {shown}{f'; and {rest} more' if rest > 0 else ''}"
            on_problem(Problem(row.where, text, dropped=False))
        yield known


def with_row(session: Session, columns: Mapping[str, Any]) -> FileSession:
    """Return a session with the columns of its row in a simulation's file.

    The user's messages, the last reply, the state variables and the tool calls are the row's where it has
    them. Where the spans have other values, that is a disagreement.
    """
    notes: list[str] = []
    extracted = columns.get("extracted_data")
    recorded = {**(extracted if isinstance(extracted, dict) else {}), **columns}
    session = _with_inputs(session, recorded.get("user_inputs"), notes)
    session = _with_response(session, recorded.get("final_response"), notes)
    session = _with_state(session, json_in(recorded.get("state_variables")), notes)
    session = _with_calls(session, json_in(recorded.get("tool_interactions")), notes)
    return file_session(session, columns, tuple(notes))


def _with_inputs(session: Session, inputs: Any, notes: list[str]) -> Session:
    if not isinstance(inputs, list) or not all(isinstance(text, str) for text in inputs):
        return session
    if len(inputs) != len(session.turns):
        notes.append(f"user_inputs: {len(inputs)} in the file, {len(session.turns)} turns in the spans")
        return session
    turns = []
    for turn, text in zip(session.turns, inputs, strict=True):
        if turn.user_input is not None and normal_text(turn.user_input) != normal_text(text):
            notes.append(f"user_inputs[{turn.turn - 1}]: {_differs(text, turn.user_input)}")
        turns.append(turn._replace(user_input=text))
    return replace(session, turns=tuple(turns))


def _with_response(session: Session, response: Any, notes: list[str]) -> Session:
    if not isinstance(response, str) or not session.turns:
        return session
    last = session.turns[-1]
    if last.final_response is not None and not same_text(last.final_response, response):
        notes.append(f"final_response: {_differs(response, last.final_response)}")
    return replace(session, turns=(*session.turns[:-1], last._replace(final_response=response)))


def _with_state(session: Session, recorded: Any, notes: list[str]) -> Session:
    state = state_of({"state": recorded})
    if state is None:
        return session
    derived = session.state_variables or {}
    for name, value in state.items():
        if name in derived and not json_equal(value, derived[name]):
            notes.append(f"state_variables.{name}: {_differs(value, derived[name])}")
    return replace(session, state_variables={**derived, **state})


def _with_calls(session: Session, recorded: Any, notes: list[str]) -> Session:
    if not isinstance(recorded, list):
        return session
    calls = list(session.tool_interactions)
    free = dict(enumerate(calls))
    for number, record in enumerate(recorded):
        name = record.get("tool_name") if isinstance(record, dict) else None
        if not isinstance(name, str) or not name:
            notes.append(f"tool_interactions[{number}]: no tool_name, so it is left out")
            continue
        place = _place(record, name, free)
        if place is None:
            notes.append(f"tool_interactions[{number}]: {name} is not in the spans")
            calls.append(_with_record(_unseen(session, name, len(calls)), record, number, notes))
        else:
            del free[place]
            calls[place] = _with_record(calls[place], record, number, notes)
    notes += (
        f"tool_interactions: {call.tool_name} of the spans is not in the file" for call in free.values()
    )
    return replace(session, tool_interactions=tuple(calls))


def _place(record: Mapping[str, Any], name: str, free: Mapping[int, ToolInteraction]) -> int | None:
    """Return the place of the call that a record is about: by its id, else the first of its name."""
    call_id = record.get("call_id")
    by_id = (place for place, call in free.items() if call_id and call.call_id == call_id)
    by_name = (place for place, call in free.items() if call.tool_name == name)
    return next(by_id, next(by_name, None))


def _with_record(
    call: ToolInteraction, record: Mapping[str, Any], number: int, notes: list[str]
) -> ToolInteraction:
    arguments, output = record.get("input_arguments"), record.get("output_result")
    at = f"tool_interactions[{number}] ({call.tool_name})"
    if arguments is not None:
        if not call.arguments_known:
            call = call._replace(input_arguments=arguments, arguments_known=True)
        elif not json_equal(_snake_case(arguments), _snake_case(call.input_arguments)):
            notes.append(f"{at}.input_arguments: {_differs(arguments, call.input_arguments)}")
            call = call._replace(input_arguments=arguments)
    if output is not None:
        if call.output_known and not json_equal(*map(_comparable_output, (output, call.output))):
            notes.append(f"{at}.output_result: {_differs(output, call.output)}")
            call = call._replace(output=output)
        elif not call.output_known:
            call = call._replace(output=output, output_known=True)
        if call.ok is not False:  # what the spans say failed stays failed
            observation = _observation(call.output)
            ok, error = ok_and_error(observation, json_or_none(observation.result))
            call = call._replace(ok=ok, error=error)
    return call


def _unseen(session: Session, name: str, position: int) -> ToolInteraction:
    """Return a call of which nothing but its name is known."""
    start_ns = session.start_ns or 0
    requested = RequestedCall(position, None, name, None, False, None, None, start_ns, _UNKNOWN_TRACE, None)
    return as_call(requested)


def _observation(output: Any) -> ToolUse:
    return ToolUse(SpanRef(_UNKNOWN_TRACE, "row", None, 0, 0), result=canonical(output))


def _comparable_output(output: Any) -> Any:
    """Return a result without the object `{"result": …}` in which ADK wraps whatever is not an object."""
    wrapped = isinstance(output, dict) and output.keys() == {"result"}
    return _snake_case(output["result"] if wrapped else output)


def _snake_case(value: Any) -> Any:
    """Return a JSON value with keys in snake_case: some converters write all keys in camelCase."""
    if isinstance(value, dict):
        return {_CAMEL.sub(r"_\1", str(key)).lower(): _snake_case(item) for key, item in value.items()}
    return [_snake_case(item) for item in value] if isinstance(value, list) else value


def _differs(recorded: Any, derived: Any) -> str:
    return f"{_short(recorded)} in the file, {_short(derived)} in the spans"


def _short(value: Any) -> str:
    text = canonical(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def disagreements(session: Session) -> tuple[str, ...]:
    """Return where the row of a session differs from its spans; nothing for a session without a row."""
    return session.disagreements if isinstance(session, FileSession) else ()
