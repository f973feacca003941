"""The inputs and outputs that spans of runs and tools record: the user's message, the response, arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from spangrade.converters.spans import langchain_values
from spangrade.converters.spans.messages import text_in
from spangrade.converters.spans.observation import RunSpan, ToolUse, changed
from spangrade.converters.spans.outcomes import mark_of
from spangrade.converters.spans.values import json_text, literal, parse_json, text
from spangrade.tracer.base.canonical_json import canonical

_INPUT_KEYS = ("input", "question", "query", "user_msg", "user_message", "message", "task", "prompt")
# What a framework gives an agent besides the user's message.
_OF_FRAMEWORK = re.compile(
    r"instruction|expected|system|analysis|backstory|^resume$|(?:^|_)goal$|_prompt$", re.IGNORECASE
)
_OUTPUT_KEYS = ("raw", "output", "answer", "response", "result", "content")
_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
_OBJECT = re.compile(r"[A-Z]\w*\(\w+=")  # Python's repr of an object, which is not a message
# The parameters in which frameworks give a tool their own objects, and how these are recorded.
_CONTEXTS = frozenset(
    {
        *(
            "callback_context",
            "context",
            "ctx",
            "invocation_context",
            "run_context",
            "runtime",
            "tool_context",
        ),
        *("tool_runtime", "wrapper"),
    }
)
_CONTEXT_HINT = re.compile(r'"(?:callback_|invocation_|run_|tool_)?(?:context|ctx|runtime|wrapper)":"')
_CONTEXT_VALUE = re.compile(
    r"<[\w.]+(?:\[.*\])? object at 0x[0-9a-f]+>|[A-Za-z_][\w.]*(?:Context|Runtime|Wrapper)(?:\[.*\])?\("
)
_LONGEST = 100_000  # characters of Python's syntax that are parsed: some 10 ms
_MOST_VALUES = 100  # in a run's input that are looked at for its only text
_DELEGATION = frozenset({"Delegate work to coworker", "delegate_work_to_coworker"})


def user_input(value: Any, *, topmost: bool) -> str | None:
    """Return the user's last message in a run's input, or the text that is the input of the `topmost` run."""
    return text_in(value, "user") or (_text_in(value, _INPUT_KEYS) if topmost else None)


def response(value: Any, *, topmost: bool) -> str | None:
    """Return the model's last message in a run's output, or the text that the `topmost` run returned."""
    return text_in(value, "assistant") or (_text_in(value, _OUTPUT_KEYS) if topmost else None)


def tool_input(value: Any) -> Any:
    """Return what a tool's attribute says that it was given; an empty object for the text null."""
    parsed = parse_json(value)
    return {} if parsed is None and value is not None else parsed


def arguments(value: Any, parameters: Any = None) -> Any:
    """Return a function's arguments by name, unwrapped from `{"args": [], "kwargs": {...}}`.

    None if some are known by position only. A bare value is the argument that the JSON schema `parameters`
    names, if it names just one; an object under `input` has the arguments if the schema names them alone.
    """
    value = python_value(value)
    if isinstance(value, dict) and isinstance(value.get("kwargs"), dict) and value.keys() <= _CALL:
        return None if value.get("args") else value["kwargs"]
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if isinstance(value, dict) and isinstance(properties, dict) and not value.keys() & properties.keys():
        inner = value.get("input")  # BeeAI, beside its options
        return inner if isinstance(inner, dict) and inner.keys() <= properties.keys() else value
    if value is not None and not isinstance(value, dict) and isinstance(properties, dict):
        return {next(iter(properties)): value} if len(properties) == 1 else value
    return value


def without_contexts(arguments: str) -> str:
    """Return a tool's arguments (JSON text) without the objects that its framework adds (ADK's context).

    They are recorded as an object's repr, under a name that frameworks use for them.
    """
    if _CONTEXT_HINT.search(arguments) is None:
        return arguments
    values = orjson.loads(arguments)
    if not isinstance(values, dict):
        return arguments
    kept = {name: value for name, value in values.items() if not _is_context(name, value)}
    return arguments if len(kept) == len(values) else canonical(kept)


def _is_context(name: str, value: Any) -> bool:
    return name in _CONTEXTS and isinstance(value, str) and _CONTEXT_VALUE.match(value) is not None


def with_io(run: RunSpan, inputs: Any, outputs: Any, *, topmost: bool = False) -> RunSpan:
    """Return a run with the user's message and the reply that its input and its output show.

    What it has already comes first; a bare text counts only where the run is `topmost`. Of a recorded call of
    a function it is the one positional argument, else the named ones.
    """
    if isinstance(inputs, dict) and inputs.keys() == {"args", "kwargs"}:
        positional, named = inputs["args"], inputs["kwargs"]
        is_one = isinstance(positional, list) and len(positional) == 1 and not named
        inputs = positional[0] if is_one else named
    given = user_input(inputs, topmost=True)
    returned = response(outputs, topmost=True)
    only = _only_text(inputs) if given is None else None
    return changed(
        run,
        user_input=run.exchange.user_input or (given if topmost else text_in(inputs, "user")),
        response=run.exchange.response or (returned if topmost else text_in(outputs, "assistant")),
        run_input=given or only,
        run_output=returned,
        input_in_prompt=only is not None,
    )


def with_tool_output(tool: ToolUse, value: Any) -> ToolUse:
    """Return a tool's call with the result in its output, where a framework wraps results."""
    if isinstance(value, dict) and value.keys() >= {"tool_name", "raw_output"}:  # LlamaIndex
        failed = tool.failure is not None or mark_of(value) == "failed"
        return changed(tool, result=json_text(python_value(value["raw_output"])), failed=failed)
    if isinstance(value, dict) and value.keys() >= {"name", "response"} and value["name"] == tool.name:
        call_id = tool.call_id or text(value.get("id"))  # ADK
        return tool._replace(result=json_text(value["response"]), call_id=call_id)
    return langchain_values.with_tool_output(tool, value)


def delegated_to(tool: str, arguments: Any) -> str | None:
    """Return the agent to which crewAI's tool for it delegates work; None for every other tool."""
    if tool in _DELEGATION and isinstance(arguments, dict):
        return text(arguments.get("coworker"))
    return None


def python_value(value: Any) -> Any:
    """Return the dict or list that a text is the `str()` of (`{'id': 1, 'paid': True}`), else the value."""
    if not isinstance(value, str) or not value.startswith(("{'", "[{'")) or len(value) > _LONGEST:
        return value
    parsed = literal(value)
    return value if parsed is None else parsed


def _text_in(value: Any, keys: Sequence[str]) -> str | None:
    """Return a text: the value itself, the value of a known key, or the only value."""
    if isinstance(value, dict):
        known = next((value[key] for key in keys if isinstance(value.get(key), str | int | float)), None)
        if known is None and len(value) == 1:
            ((name, only),) = value.items()
            known = only if keys is not _OUTPUT_KEYS and _OF_FRAMEWORK.search(str(name)) is None else None
        value = known
    if isinstance(value, bool | int | float) or (isinstance(value, list) and value and not _holds(value)):
        return canonical(value)  # a number, true or a list that stands for a text
    return None if isinstance(value, str) and _OBJECT.match(value) else text(value)


def _only_text(value: Any) -> str | None:
    """Return the only text in an object, at any depth; None for several, and for what resumes a run."""
    found: list[str] = []
    left = [value] if isinstance(value, dict) else []
    for _ in range(_MOST_VALUES):
        if not left or len(found) > 1:
            break
        inner = left.pop()
        if isinstance(inner, dict):
            if "resume" in inner:
                return None
            left += inner.values()
        elif isinstance(inner, list):
            left += inner
        elif isinstance(inner, str) and inner:
            found.append(inner)
    return text(found[0]) if len(found) == 1 and not left else None


def _holds(values: list[Any]) -> bool:
    """Return whether a list is one of messages or of other objects, whose text is somewhere in them."""
    return any(isinstance(value, dict | list) for value in values)
