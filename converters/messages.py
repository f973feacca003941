"""Messages between a user, a model and its tools, as the GenAI conventions (and Google's own) shape them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from spangrade.converters.observation import ToolCall, ToolResult, json_text, text


class Message(NamedTuple):
    """One message. `text` joins its text parts, None if it has none."""

    role: str | None
    text: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


class Exchange(NamedTuple):
    """What the newest input of a model call was, and what it answered."""

    user_input: str | None
    continues: bool | None
    tool_results: tuple[ToolResult, ...]
    response: str | None
    tool_calls: tuple[ToolCall, ...]


def genai_message(message: Any) -> Message | None:
    """Read one message of `gen_ai.input.messages` or `gen_ai.output.messages`."""
    if not isinstance(message, dict):
        return None
    texts, calls, results = [], [], []
    for part in message.get("parts") or ():
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        if kind == "text" or (kind is None and "content" in part):
            if isinstance(part.get("content"), str):
                texts.append(part["content"])
        elif kind == "tool_call":
            calls.append(
                ToolCall(text(part.get("name")), text(part.get("id")), json_text(part.get("arguments")))
            )
        elif kind == "tool_call_response" or "response" in part:
            result = part["response"] if "response" in part else part.get("result")
            results.append(ToolResult(text(part.get("name")), text(part.get("id")), json_text(result)))
    return Message(text(message.get("role")), "".join(texts) if texts else None, tuple(calls), tuple(results))


def google_message(content: Any) -> Message | None:
    """Read one `Content` of the Gemini API. Thoughts are not part of what was said."""
    if not isinstance(content, dict):
        return None
    texts, calls, results = [], [], []
    for part in content.get("parts") or ():
        if not isinstance(part, dict):
            continue
        call = part.get("function_call") or part.get("functionCall")
        answer = part.get("function_response") or part.get("functionResponse")
        if isinstance(call, dict):
            calls.append(ToolCall(text(call.get("name")), text(call.get("id")), json_text(call.get("args"))))
        elif isinstance(answer, dict):
            results.append(
                ToolResult(
                    text(answer.get("name")), text(answer.get("id")), json_text(answer.get("response"))
                )
            )
        elif isinstance(part.get("text"), str) and not part.get("thought"):
            texts.append(part["text"])
    return Message(text(content.get("role")), "".join(texts) if texts else None, tuple(calls), tuple(results))


def exchange(
    inputs: Any,
    outputs: Any,
    read: Callable[[Any], Message | None] = genai_message,
    *,
    injected: Callable[[str], bool] = lambda _: False,
) -> Exchange:
    """Return what is new in a model call, given the messages that went in and those that came out.

    A request repeats the whole history: only what follows the model's last own message is new. The user's
    message is the last of role user with a text of its own (tool results have role user for several
    providers) that is not `injected` by the framework. `continues` tells whether the newest input was the
    result of a tool and not the user's, None if there is no input to tell from.
    """
    user_input: str | None = None
    continues: bool | None = None
    results: list[ToolResult] = []
    fresh = True
    for raw in reversed(inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else ()):
        message = read(raw)
        if message is None or message.role == "system":
            continue
        if message.role in {"assistant", "model"}:
            fresh = False
        elif fresh:
            results[:0] = message.tool_results
        if message.role == "user" and message.text and not injected(message.text):
            if continues is None:
                continues = False
            user_input = message.text
            break
        if continues is None and message.tool_results:
            continues = True
    answers = [m for m in map(read, outputs if isinstance(outputs, list) else [outputs]) if m is not None]
    # One answer may be streamed as several messages.
    texts = [message.text for message in answers if message.text]
    return Exchange(
        user_input,
        continues,
        tuple(results),
        "".join(texts) if texts else None,
        tuple(call for message in answers for call in message.tool_calls),
    )
