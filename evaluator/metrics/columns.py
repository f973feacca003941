"""A session as named columns for metric definitions, with the names of a simulation's CSV.

A column is a JSON value; None is unknown. `a:b.c` is the value at `b`, then `c`, in the column `a`. What the
file of a simulation holds is shown as it is; the spans fill the gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from json import JSONDecodeError
from typing import Any

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.session import LLMCall, Session, Step, ToolInteraction
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.json_text import parse_exact

Reference = GoldenQuestion | None


@dataclass(frozen=True, slots=True)
class FileSession(Session):
    """A session with the columns of its row in a simulation's CSV or JSONL.

    `disagreements` says where the row differs from the spans.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    disagreements: tuple[str, ...] = ()


def file_session(
    session: Session, columns: Mapping[str, Any], disagreements: tuple[str, ...] = ()
) -> FileSession:
    """Return a session with the columns of its row."""
    derived = {each.name: getattr(session, each.name) for each in fields(Session)}
    return FileSession(**derived, columns=columns, disagreements=disagreements)


def column(source: str, session: Session, question: Reference) -> Any:
    """Return the value of a column, or a value nested in it; None if it is unknown or missing."""
    name, _, path = source.partition(":")
    recorded = _recorded(name, session) if name not in OF_THE_QUESTION else None
    value = _inside(recorded, path)
    derive = COLUMNS.get(name)
    if derive is None or not (value is None or (name == "extracted_data" and not path)):
        return value
    derived = derive(session, question)
    if isinstance(value, dict) and isinstance(derived, dict):
        return {**derived, **{key: item for key, item in value.items() if item is not None}}
    return _inside(derived, path)


def json_in(value: Any) -> Any:
    """Return the JSON value in the text of a file's cell; any other value, and any other text, as it is."""
    try:
        return parse_exact(value) if isinstance(value, str) else value
    except JSONDecodeError:
        return value


def not_recorded(source: str) -> str:
    """Return the reason why a column without a value cannot be shown, and how to supply it."""
    name, _, path = source.partition(":")
    if name in OF_THE_QUESTION:
        return f"the golden question has no {path or name}; add it to the question"
    if name in _SUPPLIED_BY or path.partition(".")[0] in _SUPPLIED_BY:
        how = _SUPPLIED_BY.get(name) or _SUPPLIED_BY[path.partition(".")[0]]
    elif name in FILE_COLUMNS or name not in COLUMNS:
        how = "a CSV or JSONL with this column supplies it"
    else:
        how = "`spangrade lint` says how to record it"
    return f"{source} is not recorded; {how}"


def _recorded(name: str, session: Session) -> Any:
    """Return a session's value in a column of its row, under another name of it, or in `extracted_data`."""
    if not isinstance(session, FileSession):
        return None
    extracted = session.columns.get("extracted_data")
    for key in (name, *_ALIASES.get(name, ())):
        for values in (session.columns, extracted):
            if isinstance(values, dict) and values.get(key) is not None:
                return values[key]
    return None


def _inside(value: Any, path: str) -> Any:
    value = json_in(value) if path else value
    if isinstance(value, dict) and path in value:  # names of state variables may contain dots
        return value[path]
    for key in path.split(".") if path else ():
        if isinstance(value, list):
            value = value[int(key)] if key.isdecimal() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def user_inputs(session: Session) -> list[str] | None:
    """Return the user's message of each turn; None unless all are recorded."""
    inputs = [turn.user_input for turn in session.turns if turn.user_input is not None]
    return inputs if inputs and len(inputs) == len(session.turns) else None


def final_response(session: Session) -> str | None:
    """Return the agent's last reply."""
    return session.turns[-1].final_response if session.turns else None


def sub_agent_trace(session: Session) -> list[dict[str, Any]]:
    """Return each turn's reply with the agent that gave it: the one whose model was called last."""
    speakers, other = _speakers(session)
    return [
        {"agent_name": speakers.get(turn.turn, other), "text_response": turn.final_response}
        for turn in session.turns
        if turn.final_response is not None
    ]


def trace_summary(session: Session) -> str:
    """Return the conversation as plain text, with the agents and tools that started in each turn."""
    return "\n".join(_lines(session))


def numbered_summary(session: Session) -> str:
    """Return `trace_summary` with a line before each turn that has its number."""
    return "\n".join(_lines(session, numbered=True))


def _lines(session: Session, *, numbered: bool = False) -> Iterator[str]:
    calls: dict[str, deque[ToolInteraction]] = {}
    for interaction in sorted(session.tool_interactions, key=lambda each: each.start_ns):
        calls.setdefault(interaction.tool_name, deque()).append(interaction)
    steps: dict[int | None, list[Step]] = {}
    for step in session.trajectory:
        steps.setdefault(step.turn, []).append(step)
    speakers, other = _speakers(session)
    for turn in session.turns:
        if numbered:
            yield f"Turn {turn.turn}"
        yield f"User: {_or_unknown(turn.user_input)}"
        for step in steps.get(turn.turn, ()):
            started = calls.get(step.name) if step.kind == "tool" else None
            call = started.popleft() if started else None
            arguments = f" {dumps(call.input_arguments)}" if call and call.arguments_known else ""
            yield f"[{step.kind}] {step.name}{arguments}"
        yield f"{speakers.get(turn.turn, other) or 'Agent'}: {_or_unknown(turn.final_response)}"


def _or_unknown(text: str | None) -> str:
    return "(not recorded)" if text is None else text


def _speakers(session: Session) -> tuple[dict[int | None, str], str | None]:
    """Return by turn the agent whose model was called last, and the agent of the other turns."""
    by_turn = {call.turn: call.agent for call in session.llm_calls if call.agent}
    return by_turn, next(iter(session.agents or ()), None)


def tool_interactions(session: Session) -> list[dict[str, Any]]:
    """Return the tool calls, hand-offs included; values that are not recorded are null."""
    return [
        {
            "tool_name": call.tool_name,
            "input_arguments": call.input_arguments,
            "call_id": call.call_id,
            "output_result": call.output,
        }
        for call in session.tool_interactions
    ]


def conversation_history(session: Session) -> list[dict[str, Any]]:
    """Return the turns as messages in Gemini's format."""
    return [
        {"role": role, "parts": [{"text": text}]}
        for turn in session.turns
        for role, text in (("user", turn.user_input), ("model", turn.final_response))
        if text is not None
    ]


def extracted_data(session: Session) -> dict[str, Any]:
    """Return tool calls, conversation, tools and instructions, with the state as an object and by name."""
    state = session.state_variables
    columns = {
        "tool_declarations": session.tool_declarations,
        "system_instruction": session.system_instruction,
        "tool_interactions": tool_interactions(session),
        "sub_agent_trace": sub_agent_trace(session),
        "conversation_history": conversation_history(session),
    }
    return columns if state is None else {**state, "state_variables": state, **columns}


def session_trace(session: Session) -> list[dict[str, Any]]:
    """Return the agents, model calls and tools that started, as spans in order; unknown ends are null."""
    named: list[tuple[str, Step | LLMCall | ToolInteraction]] = [
        *((f"invoke_agent {step.name}", step) for step in session.trajectory if step.kind == "agent"),
        *((f"chat {call.model or ''}".rstrip(), call) for call in session.llm_calls),
        *((f"execute_tool {call.tool_name}", call) for call in session.tool_interactions),
    ]
    return [
        {
            "name": name,
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "start_time": span.start_ns,
            "end_time": None if isinstance(span, Step) or span.latency_s is None else span.end_ns,
        }
        for name, span in sorted(named, key=lambda item: item[1].start_ns)
    ]


def _reference(_: Session, question: Reference) -> Any:
    if question is None:
        return None
    return question.reference_data.model_dump(mode="json", exclude_none=True)


def _of(function: Callable[[Session], Any]) -> Callable[[Session, Reference], Any]:
    return lambda session, _: function(session)


COLUMNS: Mapping[str, Callable[[Session, Reference], Any]] = {
    "user_inputs": _of(user_inputs),
    "prompt": _of(user_inputs),
    "final_response": _of(final_response),
    "response": _of(final_response),
    "sub_agent_trace": _of(sub_agent_trace),
    "trace_summary": _of(trace_summary),
    "tool_interactions": _of(tool_interactions),
    "state_variables": _of(lambda session: session.state_variables),
    "final_session_state": _of(lambda session: session.state_variables),
    "conversation_history": _of(conversation_history),
    "extracted_data": _of(extracted_data),
    "tool_declarations": _of(lambda session: session.tool_declarations),
    "system_instruction": _of(lambda session: session.system_instruction),
    "system_instructions": _of(lambda session: session.system_instruction),
    "session_trace": _of(session_trace),
    "session_id": _of(lambda session: session.session_id),
    "question_id": lambda session, question: question.id if question else session.question_id,
    "reference_data": _reference,
    "agents_evaluated": lambda _, question: list(question.agents_evaluated) if question else None,
    "question_metadata": lambda _, question: question.metadata if question else None,
}
# Columns that simulations' files have and spans do not fill: without such a file they are unknown.
FILE_COLUMNS = frozenset({"custom_extract", "latency_data", "session_state"})
_BY_REQUESTS = "the requests of the model calls record it, or extracted_data in a CSV or JSONL"
_SUPPLIED_BY = {
    "state_variables": "set_state records it, or a CSV or JSONL holds it in extracted_data",
    "final_session_state": "set_state records it, or a CSV or JSONL holds it in extracted_data",
    "tool_declarations": _BY_REQUESTS,
    "system_instruction": _BY_REQUESTS,
    "system_instructions": _BY_REQUESTS,
}
_ALIASES = {
    "prompt": ("user_inputs",),
    "response": ("final_response",),
    "system_instruction": ("system_instructions",),
    "system_instructions": ("system_instruction",),
}
OF_THE_QUESTION = frozenset({"reference_data", "agents_evaluated", "question_metadata"})
