"""Conversation logs (ADK's `*.test.json`: a list of turns) into a golden question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from hashlib import blake2b
from json import JSONDecodeError
from typing import Any

from spangrade.converters.spans.parts import answer_in, is_answer
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import parse_written
from spangrade.tracer.span import Problem

_NAMES = ("tool_name", "name", "tool")
_ARGUMENTS = ("tool_input", "input_arguments", "args", "arguments", "input", "parameters")
_MISSING = object()
_AGENT_ROLES = ("assistant", "agent", "model")


def question_of(
    turns: Any,
    where: str,
    agent: str,
    id_prefix: str,
    metadata: Mapping[str, str],
    taken: Sequence[str] = (),
    *,
    responses: bool = True,
) -> Iterator[dict[str, Any] | Problem]:
    """Yield a Problem for each part of a log that cannot be used, then the question made of the rest.

    A turn has a `query` (the user's message) and, if known, `expected_tool_use` (calls as `tool_name` and
    `tool_input`, as `name` and `args`, …) and `reference` (the expected answer; the last one becomes the
    question's `reference_response`, unless `responses` is false). A list of messages with a `role` and their
    `content` is read too: what the agent says (`assistant`, `agent` or `model`) belongs to the user's turn
    before it. The id is the prefix and eight hex digits
    made from the content, other digits if that id is `taken`. Raises InputError if the log is not a list, or
    has no turn that can be used.
    """
    if not isinstance(turns, list):
        raise InputError(f'{where}: not a list; expected a list of turns, each an object with "query"')
    user_inputs: list[str] = []
    calls: list[dict[str, Any]] = []
    calls_given = False
    response: str | None = None
    for at, turn in _turns(turns, where):
        if isinstance(turn, Problem):
            yield turn
            continue
        if not isinstance(turn, dict):
            yield Problem(at, 'not an object; expected one with "query"')
            continue
        query = turn.get("query")
        if not isinstance(query, str):
            yield Problem(f"{at}.query", "missing" if query is None else "not a text; the turn is left out")
            continue
        user_inputs.append(query)
        calls_given = calls_given or turn.get("expected_tool_use") is not None
        for call in _calls(turn, at):
            if isinstance(call, Problem):
                yield call
            else:
                calls.append(call)
        reference = turn.get("reference")
        if isinstance(reference, str):
            response = reference
        elif reference is not None:
            yield Problem(f"{at}.reference", "not a text")
    if not user_inputs:
        raise InputError(f'{where}: no turn with a "query"; nothing to convert')
    reference_data: dict[str, Any] = {"reference_tool_interactions": calls} if calls_given else {}
    reference_data["reference_trajectory"] = [agent]
    if responses and response is not None:
        reference_data["reference_response"] = response
    question: dict[str, Any] = {
        "user_inputs": user_inputs,
        "agents_evaluated": [agent],
        "metadata": dict(metadata),
        "reference_data": reference_data,
    }
    yield {
        "id": free_id(id_prefix, question, taken),
        **question,
        "updated_datetime": date.today().isoformat(),
    }


def _turns(messages: Sequence[Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and the turn of each item of a log; messages with a role are joined to turns."""
    place, turn = "", None
    for position, message in enumerate(messages):
        at = f"{where}: [{position}]"
        role = message.get("role") if isinstance(message, dict) and "query" not in message else None
        if role is None:
            if turn is not None:
                yield place, turn
            turn = None
            yield at, message
        elif role == "user":
            if turn is not None:
                yield place, turn
            place, turn = at, {"query": _text(message)}
        elif role not in _AGENT_ROLES:
            problem = f'"{role}" is not a role of a turn; expected user or assistant'
            yield at, Problem(at, f"{problem}: it is left out", dropped=False)
        elif turn is None:
            text = "the conversation opens with the agent: this message is left out"
            yield at, Problem(at, text, dropped=False)
        else:
            calls = [*turn.get("expected_tool_use", ()), *_requested(message)]
            called = [(_first_value(call, _NAMES), _first_value(call, _ARGUMENTS)) for call in calls]
            reply = answer_in(one for one in called if _MISSING not in one) or _text(message)
            turn |= {"expected_tool_use": calls} if calls else {}
            turn |= {"reference": reply} if reply else {}
    if turn is not None:
        yield place, turn


def _text(message: Mapping[str, Any]) -> Any:
    """Return the text of a message: its `content`, `text`, or the texts of its parts."""
    content = _first_value(message, ("content", "text", "parts"))
    if not isinstance(content, list):
        return None if content is _MISSING else content
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str)) or None


def _requested(message: Mapping[str, Any]) -> list[Any]:
    """Return the calls of an agent's message: ours, or those of OpenAI's messages."""
    calls = []
    for call in [*(message.get("expected_tool_use") or ()), *(message.get("tool_calls") or ())]:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            with suppress(JSONDecodeError):
                arguments = parse_written(arguments) if isinstance(arguments, str) else arguments
            call = {"name": function.get("name"), "arguments": arguments}
        calls.append(call)
    return calls


def free_id(prefix: str, content: Any, taken: Sequence[str]) -> str:
    """Return an id that is not taken: the prefix and eight hex digits made from the content alone."""
    text, attempt = canonical(content), 0
    while True:
        digits = blake2b(f"{attempt}{text}".encode(), digest_size=4).hexdigest()
        question_id = f"{prefix}_{digits}" if prefix else digits
        if question_id not in taken:
            return question_id
        attempt += 1


def _calls(turn: Mapping[str, Any], at: str) -> Iterator[dict[str, Any] | Problem]:
    at = f"{at}.expected_tool_use"
    expected = turn.get("expected_tool_use") or []
    if not isinstance(expected, list):
        yield Problem(at, "not a list of calls")
        return
    for position, call in enumerate(expected):
        name, arguments = (_first_value(call, keys) for keys in (_NAMES, _ARGUMENTS))
        if not isinstance(name, str) or not name:
            yield Problem(f"{at}[{position}]", f"no tool name; expected a text under {_NAMES[0]}")
        elif is_answer(name):
            continue
        elif arguments is _MISSING or arguments is None:
            yield {"tool_name": name}
        elif isinstance(arguments, dict):
            yield {"tool_name": name, "input_arguments": arguments}
        else:
            yield Problem(f"{at}[{position}]", f"the arguments of {name} are not an object")


def _first_value(call: Any, keys: Sequence[str]) -> Any:
    return next((call[key] for key in keys if key in call), _MISSING) if isinstance(call, dict) else None
