"""Messages between a user, a model and its tools, as the GenAI conventions and the providers shape them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from spangrade.converters.spans.observation import MessageCall, MessageExchange, ToolResult
from spangrade.converters.spans.values import first_of, is_removed, json_text, objects, parse_json, text
from spangrade.tracer.base.canonical_json import canonical

# LangChain's types of messages.
_TYPES = {"human": "user", "ai": "assistant", "tool": "tool", "function": "tool", "system": "system"}
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
_PLAIN = frozenset({"assistant", "system", "user"})
_TEXTS = frozenset({"text", "input_text", "output_text"})
_CALLS = frozenset({"tool_call", "tool_use", "function_call", "function", "tool-call"})
_SERVER_CALLS = ("server_tool_call", "server_tool_use")
_CODE_TOOLS = ("code_interpreter", "code_execution", "bash_code_execution")
_RESULTS = frozenset({"tool_call_response", "tool_result", "function_call_output", "tool-result"})
# The keys that name a part without a type: Gemini's, Bedrock's, Genkit's and Haystack's.
_KEYS_OF_CALLS = frozenset(
    {"function_call", "functionCall", "toolUse", "function", "toolRequest", "tool_call"}
)
_KEYS_OF_RESULTS = frozenset(
    {"function_response", "functionResponse", "toolResult", "toolResponse", "tool_call_result"}
)
_ITEMS = _CALLS | _RESULTS  # of OpenAI's Responses, which have no role
_NUMBERS = (bool, int, float)
_MOST_EARLIER = 32  # messages before the model's last one whose calls and results are looked at
_NAME_KEYS = ("name", "toolName", "tool_name")
_ID_KEYS = ("tool_use_id", "call_id", "id", "toolUseId", "toolCallId", "ref")
_ARGUMENT_KEYS = ("arguments", "input", "args")
_RESULT_KEYS = ("response", "result", "output", "content")
# What Vercel's AI SDK wraps a result in: its type, and its value.
_OUTPUTS = frozenset({"content", "error-json", "error-text", "execution-denied", "json", "text"})
# Texts of role user that frameworks write: ADK about another agent's work, crewAI about a task.
_INJECTED = ("For context:", "\nCurrent Task:", "# AGENTS.md instructions")
# Blocks that coding agents put before the user's message: `<environment_context>…</environment_context>`.
_BLOCK = re.compile(
    r"\s*<((?:\w+[-_])?(?:context|environment|info|instructions|reminder|system))\b[^>]*>.*</\1>\s*",
    re.I | re.S,
)


# Where values hold messages, and the role of those in it that name none.
_PLACES: dict[str, str | None] = {
    "messages": None,
    "new_message": "user",
    "contents": "user",
    "choices": "assistant",
    "candidates": "assistant",
    "generations": "assistant",
    "replies": "assistant",  # Haystack's
    "message": None,
    "content": None,
    "input": "user",
    "inputs": "user",
    "prompt": "user",
    "request": "user",
    "output": "assistant",
    "outputs": "assistant",
    "response": "assistant",
    "state": None,
    "kwargs": None,
}
_CONTENTS = frozenset({"content", "parts", "tool_calls"})
_OF_MESSAGES = frozenset({"", "message"})  # the types of what may be a message without a role
_OF_PAIRS = frozenset({*_TYPES, "user", "assistant"})
MOST_DEPTH = 6  # objects and lists around a message


class Message(NamedTuple):
    """One message. `role` is user, assistant, tool or system; `text` joins its text parts, None for none."""

    role: str | None
    text: str | None
    tool_calls: tuple[MessageCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


def message_of(message: Any) -> Message | None:
    """Read one message, unless it is read already; None if it is not a message.

    Its content is in `parts` (the conventions, Gemini), or in `content` (a text or blocks) and `tool_calls`.
    Reasoning is not part of its text.
    """
    if not isinstance(message, dict):
        return message if isinstance(message, Message) else None
    if plain := _plain(message):
        return plain
    role = text(message.get("role"))
    if role is None and text(message.get("type")) in _ITEMS:
        item = _part(message)
        if isinstance(item, MessageCall):
            return Message("assistant", None, (item,))
        return Message("tool", None, (), (item,)) if isinstance(item, ToolResult) else None
    role = _ROLES.get(role, role) if role else None
    content = message["parts"] if "parts" in message else message.get("content")
    if isinstance(content, _NUMBERS):  # a reply that is a number is a text
        content = canonical(content)
    parts = content if isinstance(content, list) else [] if content is None else [content]
    requested = message.get("tool_calls")
    if isinstance(requested, list):  # LangChain's may have no type
        requested = [{"type": "tool_call", **call} for call in requested if isinstance(call, dict)]
    texts: list[str] = []
    calls: list[MessageCall] = []
    results: list[ToolResult] = []
    for part in [*parts, *requested] if isinstance(requested, list) else parts:
        read = _part(part)
        if isinstance(read, str):
            if not (role == "user" and "</" in read and _BLOCK.fullmatch(read)):
                texts.append(read)
        elif isinstance(read, MessageCall):
            if read.call_id is None or all(call.call_id != read.call_id for call in calls):  # in both forms
                calls.append(read)
        elif read is not None:
            results.append(read)
    joined = "".join(texts) if texts else None
    if role == "tool" and not results and parts:
        call_id = text(message.get("tool_call_id")) or text(message.get("id"))  # LangChain's id is its own
        result = unwrapped(content) if joined is None else joined
        results.append(
            ToolResult(text(message.get("name")), call_id, json_text(result), _is_marked_failed(message))
        )
    return Message(role, joined, tuple(calls), tuple(results))


def _plain(message: dict[str, Any]) -> Message | None:
    """Return a message that is one text, as nearly all are, in a fifth of the time; None for any other."""
    role, content = message.get("role"), message["parts"] if "parts" in message else message.get("content")
    if type(role) is not str or role not in _PLAIN or "tool_calls" in message:
        return None
    if type(content) is list and len(content) == 1 and type(part := content[0]) is dict:
        content = part.get("content", part.get("text")) if part.get("type") == "text" else None
        if part.get("thought"):
            return None
    if type(content) is not str or not content or "</" in content or is_removed(content):
        return None
    return Message(role, content)


def is_of_system(message: Any) -> bool:
    """Return whether a message, read or not, is one of role system."""
    if isinstance(message, Message):
        return message.role == "system"
    role = text(message.get("role")) if isinstance(message, dict) else None
    return _ROLES.get(role, role) == "system" if role else False


def _part(part: Any) -> str | MessageCall | ToolResult | None:
    if not isinstance(part, dict):
        return part if isinstance(part, str) and not is_removed(part) else None
    kind = text(part.get("type"))
    if kind in _TEXTS:
        return _text(part)
    if kind in _CALLS:
        inner = part["function"] if isinstance(part.get("function"), dict) else part
        return _call(inner, _id_in(part))
    if kind in _RESULTS or (kind is None and "response" in part):
        return _result(part)
    if kind is not None:
        return None
    for key, inner in part.items():
        if isinstance(inner, dict):
            if key in _KEYS_OF_CALLS:
                return _call(inner, _id_in(inner) or _id_in(part))
            if key in _KEYS_OF_RESULTS:
                return _result(inner)
    return _text(part)


def _text(part: dict[str, Any]) -> str | None:
    content = part.get("content", part.get("text"))
    return (
        content if isinstance(content, str) and not part.get("thought") and not is_removed(content) else None
    )


def _call(part: dict[str, Any], call_id: str | None) -> MessageCall:
    arguments = json_text(first_of(part, _ARGUMENT_KEYS))
    return MessageCall(text(first_of(part, _NAME_KEYS)), call_id, arguments)


def _result(part: dict[str, Any]) -> ToolResult:
    result = first_of(part, _RESULT_KEYS)
    origin = given if isinstance(given := part.get("origin"), dict) else part  # Haystack's
    if isinstance(result, dict) and "value" in result and text(result.get("type")) in _OUTPUTS:
        result = result["value"]
    name, failed = text(first_of(origin, _NAME_KEYS)), _is_marked_failed(part)
    return ToolResult(name, _id_in(origin), json_text(unwrapped(result)), failed)


def _id_in(part: dict[str, Any]) -> str | None:
    """Return the id of the call that a part is, or has the result of."""
    for key in _ID_KEYS:
        if known := part.get(key):
            return text(known)
    return None


def _is_marked_failed(part: dict[str, Any]) -> bool | None:
    """Return whether a result is marked as an error's, None without a mark (Anthropic, Bedrock)."""
    if isinstance(is_error := part.get("is_error"), bool):
        return is_error
    status = part.get("status")
    return status == "error" if status == "error" or (status == "success" and "toolUseId" in part) else None


def unwrapped(result: Any) -> Any:
    """Return a tool's result without the one content block that holds it (Anthropic, Bedrock, MCP)."""
    if isinstance(result, list) and len(result) == 1 and isinstance(result[0], dict):
        block = result[0]
        if set(block) == {"json"}:
            return block["json"]
        if set(block) <= {"type", "text"} and isinstance(block.get("text"), str):
            return block["text"]
    return result


def code_executions(response: Any) -> int:
    """Count how often code ran on the model's side, given a response (a message, or a list of them).

    These are Gemini's `executable_code` parts, and the conventions' server-side calls of a code tool.
    """
    if response is None:
        return 0
    messages = objects(response if isinstance(response, list) else [response])
    parts = [part for m in messages for part in objects(m.get("parts", m.get("content")))]
    return sum(map(_runs_code, parts))


def _runs_code(part: dict[str, Any]) -> bool:
    if part.get("executable_code") or part.get("executableCode"):
        return True
    if part.get("type") not in _SERVER_CALLS:
        return False
    inner = part.get("server_tool_call")
    names = (part.get("name"), inner.get("type") if isinstance(inner, dict) else None)
    return any(tool in names for tool in _CODE_TOOLS)


def read_exchange(inputs: Any, outputs: Any, users: Sequence[int] | None = None) -> MessageExchange:
    """Return the new part of a model call, given its input messages and its output messages.

    A request repeats the whole history: only what follows the model's last own message is new, and the
    results that may be: parallel calls may be repeated one by one, each with its result after it. The user's
    message is the last of role user with a text of its own (several providers give tool results that role)
    that no framework wrote. `users` are the numbers of the user's own messages before each input message,
    where they are known.
    """
    response, calls = _response(outputs if isinstance(outputs, list) else [outputs])
    user_input: str | None = None
    user_messages: int | None = None
    results: list[ToolResult] = []
    repeated: list[MessageCall] = []
    new, has_results, own, earlier = True, False, True, _MOST_EARLIER
    messages = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else ()
    older = map(message_of, reversed(messages))
    for newer, message in enumerate(older):
        if message is None or message.role == "system":
            continue
        new = new and message.role != "assistant"
        own = own and (new or message.role == "assistant")
        if own and not new:
            repeated[:0] = message.tool_calls
        elif not own and earlier:
            earlier -= 1
            repeated[:0] = [call for call in message.tool_calls if call.call_id]
        if message.tool_results and (new or earlier):
            results[:0] = [r for r in message.tool_results if new or r.call_id]
        if message.role == "user" and message.text and not is_injected(message.text):
            user_input = message.text
            earlier_ones = len(messages) - newer - 1
            user_messages = 1
            user_messages += (
                sum(map(is_of_user, messages[:earlier_ones])) if users is None else users[earlier_ones]
            )
            break
        has_results = has_results or bool(message.tool_results)
    continues = has_results or (None if user_input is None else False)
    before = next(older, None)
    reply = before.text if before is not None and before.role == "assistant" else None
    return MessageExchange(
        user_input, continues, tuple(results), response, calls, tuple(repeated), reply, user_messages
    )


def answer(said: Any, tool_calls: Any) -> list[dict[str, Any]]:
    """Return the messages of a model's answer: a text, and a list of tool calls or a JSON text of it."""
    calls = objects(parse_json(tool_calls))
    known = text(said)
    return [{"role": "assistant", "content": known, "tool_calls": calls}] if known or calls else []


def plain_message(value: Any, without_role: str | None = None) -> dict[str, Any] | None:
    """Return a message as an object with its role, None for any other value.

    LangChain serialises it in three ways (`{"lc": 1, "id": [..., "HumanMessage"], "kwargs": {...}}`,
    `{"type": "human", "data": {...}}`, its fields alone), or gives it as a pair. One that names no role has
    the one that is given, and an item of OpenAI's Responses needs none.
    """
    if isinstance(value, list):  # ["user", "Any soil?"]
        is_pair = len(value) == 2 and isinstance(value[0], str) and value[0] in _OF_PAIRS
        return {"role": _ROLES.get(value[0], value[0]), "content": value[1]} if is_pair else None
    if not isinstance(value, dict):
        return None
    kind, fields = value.get("type"), value
    if isinstance(value.get("kwargs"), dict) and isinstance(value.get("id"), list) and value["id"]:
        fields = value["kwargs"]
        kind = fields.get("type") or (text(value["id"][-1]) or "").partition("Message")[0].lower()
    elif isinstance(value.get("data"), dict):
        fields = value["data"]
    kind = (text(kind) or "").removesuffix("MessageChunk").lower()
    if kind in _ITEMS and kind != "function" and "role" not in fields:
        return value
    if _CONTENTS.isdisjoint(fields):
        return None
    role = (_TYPES.get(kind) if "content" in fields else None) or text(fields.get("role"))
    if role is None and kind in _OF_MESSAGES:
        role = without_role
    if role is None:
        return None
    content = fields.get("content")
    return {**fields, **(content if isinstance(content, dict) else {}), "role": role}  # Google's Content


def messages_in(
    value: Any,
    without_role: str | None,
    *,
    of: str | None = None,
    texts: bool = False,
    depth: int = MOST_DEPTH,
) -> list[dict[str, Any]]:
    """Return the messages in a value, `depth` objects and lists deep at most.

    Only what is in a message's place counts: in `messages`, `choices`, `new_message` and the like, and there
    in `content` or `parts`; of several places, the first that has messages. A message that names no role has
    that which its place gives it, else `without_role`. With `texts` a text alone, or in a place that gives a
    role, is a message, too. With a role `of` it is the last message of this role that has a text of its own.
    """
    if depth == 0:
        return []
    if isinstance(value, str):
        parsed = parse_json(value) if value[:1] in ("{", "[") else ""
        if not isinstance(parsed, str) and (
            found := messages_in(parsed, without_role, of=of, depth=depth - 1)
        ):
            return found
        return [{"role": without_role, "content": value}] if texts and without_role and value else []
    if (message := plain_message(value, without_role)) is not None:
        return [message] if of is None or _says(message, of) else []
    if isinstance(value, list):
        inner = (messages_in(item, without_role, of=of, depth=depth - 1) for item in value)
        if of is None:
            return [message for found in inner for message in found]
        lasts = (messages_in(item, without_role, of=of, depth=depth - 1) for item in reversed(value))
        return next((found for found in lasts if found), [])
    if isinstance(value, dict):
        for place, given in _PLACES.items():
            if place in value:
                is_text = texts and (given is not None or place == "message")
                role = given or without_role
                if found := messages_in(value[place], role, of=of, texts=is_text, depth=depth - 1):
                    return found
    return []


def _says(message: dict[str, Any], role: str) -> bool:
    """Return whether a message is one of a role and has a text that no framework wrote."""
    if _ROLES.get(message["role"], message["role"]) != role if "role" in message else True:
        return False
    read = message_of(message)
    return read is not None and bool(read.text) and not is_injected(read.text or "")


def text_in(value: Any, role: str) -> str | None:
    """Return the text of the last message of a role in a value; see `messages_in`."""
    found = messages_in(value, None, of=role)
    read = message_of(found[-1]) if found else None
    return None if read is None else read.text


def is_injected(said: str) -> bool:
    """Return whether a framework wrote a text in the user's role: such as a block of context."""
    return said.startswith(_INJECTED) or ("</" in said and _BLOCK.fullmatch(said) is not None)


def is_of_user(message: Any) -> bool:
    """Return whether a message, read or not, is the user's own text."""
    if isinstance(message, dict):
        role = text(message.get("role"))
        if role is None or _ROLES.get(role, role) != "user":
            return False  # most messages: not read a second time
        message = message_of(message)
    if not isinstance(message, Message) or message.role != "user" or not message.text:
        return False
    return not is_injected(message.text)


def _response(outputs: Sequence[Any]) -> tuple[str | None, tuple[MessageCall, ...]]:
    """Return a response's text and its calls; the text is None without one, and "" if it is empty."""
    texts: list[str] = []
    calls: list[MessageCall] = []
    for message in map(message_of, outputs):
        if message is None:
            continue
        calls += message.tool_calls
        if message.tool_results:  # an agent's whole turn: the response is what follows its last tool
            texts.clear()
        elif message.text:  # one response may be streamed as several messages
            texts.append(message.text)
    if not texts and not calls and outputs and all(map(_is_empty, outputs)):
        return "", ()
    return "".join(texts) if texts else None, tuple(calls)


def _is_empty(message: Any) -> bool:
    """Return whether a message of a model is recorded with nothing in it, and not as one that calls tools."""
    if not isinstance(message, dict) or message.get("tool_calls"):
        return False
    reason = str(message.get("finish_reason") or message.get("stop_reason") or "")
    content = message["parts"] if "parts" in message else message.get("content")
    return (content == "" or _is_without_text(content)) and "tool" not in reason and "function" not in reason


def _is_without_text(parts: Any) -> bool:
    """Return whether a list has no part but empty texts."""
    return isinstance(parts, list) and all(
        isinstance(part, dict) and part.get("type") == "text" and part.get("content", part.get("text")) == ""
        for part in parts
    )
