"""Messages between a user, a model and its tools, as the GenAI conventions and the providers shape them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from spangrade.converters.spans.observation import MessageCall, MessageExchange, ToolResult
from spangrade.converters.spans.parts import (
    CodeRun,
    Part,
    Unread,
    answer_in,
    are_parts,
    first_text_of,
    holds_calls,
    is_answer,
    is_item,
    is_of_approval,
    is_wordless,
    read_call,
    read_part,
    result_of_message,
    runs_code,
    said_beside,
    unwrapped,
)
from spangrade.converters.spans.values import first_of, is_removed, json_text, objects, parse_json, text
from spangrade.tracer.base.canonical_json import canonical

# LangChain's types of messages.
_TYPES = {"human": "user", "ai": "assistant", "tool": "tool", "function": "tool", "system": "system"}
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "chatbot": "assistant",  # Cohere's
    "developer": "system",
    "function": "tool",
    **{role: role for role in ("assistant", "system", "tool", "user")},
}
_PLAIN = frozenset({"assistant", "system", "tool", "user"})
_NUMBERS = (bool, int, float)
_MOST_EARLIER = 32  # messages before the model's last one whose calls and results are looked at
# The known places of calls beside a message's content. A call in two of them is one call in two forms.
_MORE_CALLS = ("tool_calls", "toolInvocations", "function_call", "additional_kwargs")
_WRAPPING = ("message", "delta")  # an object around a message, in lists of choices
_TEXTS = frozenset({"text", "input_text"})
# Where a message of role tool has the id of its call; LangChain's `id` is its own.
_IDS_OF_CALLS = ("tool_call_id", "call_id", "toolCallId", "tool_use_id", "toolUseId", "id")
_NOT_OF_MODELS = frozenset({"user", "system", "tool"})
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
# The keys of nearly all messages, which hold no calls beside the content.
_COMMON = frozenset({"role", "content", "parts", "finish_reason", "name", "id", "type"})
# What a response of OpenAI's has beside its items.
_OF_RESPONSES = frozenset({"object", "usage", "model", "status", "previous_response_id"})
_OF_MESSAGES = frozenset({"", "message"})  # the types of what may be a message without a role
_OF_PAIRS = frozenset({*_TYPES, "user", "assistant"})
MOST_DEPTH = 6  # objects and lists around a message


class Message(NamedTuple):
    """One message. `role` is user, assistant, tool or system; `text` joins its text parts, None for none.

    `unread` are the types of its parts that nobody knows, if it is the model's; `code_runs` is how often code
    ran on the side of the model's provider; `is_wordless` says that it shows something other than text,
    `is_silent` that it is the user's, and its text is not recorded.
    """

    role: str | None
    text: str | None
    tool_calls: tuple[MessageCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    unread: tuple[str, ...] = ()
    code_runs: int = 0
    is_wordless: bool = False
    is_silent: bool = False


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
    if role is None and (is_item(message) or (_CONTENTS.isdisjoint(message) and text(message.get("type")))):
        return _of_item(message)
    if role is None and not _has_contents(message):
        inner = first_of(message, _WRAPPING)
        return message_of(inner) if isinstance(inner, dict) and _has_contents(inner) else None
    role = role_of(role) if role else None
    of_model = role not in _NOT_OF_MODELS
    content = _content(message, of_model=of_model)
    parts = content if isinstance(content, list) else [] if content is None else [content]
    read, calls, results, texts, is_more, may_answer = _read(parts, role, of_model=of_model)
    joined = "".join(texts) if texts else None
    if not joined and of_model:
        joined = said_beside(message) or (_structured(content) if not any(read) else None) or joined
    for place in () if message.keys() <= _COMMON else _places_of_calls(tuple(message)):
        if (more := message[place]) and (of_model or place in _MORE_CALLS):
            calls += _other_than(calls, list(_calls_in(place, more)))
            may_answer = True
    if may_answer and of_model:
        joined = answer_in((call.name, call.arguments) for call in calls) or joined
    if role == "tool" and not results and parts and not all(map(is_of_approval, parts)):
        call_id = first_text_of(message, _IDS_OF_CALLS)
        results.append(result_of_message(message, call_id, unwrapped(content) if joined is None else joined))
    if role == "user" and not (read and any(one is not None for one in read)) and _is_silent(parts):
        return Message(role, None, is_silent=True)
    made = Message(role, joined, tuple(calls), tuple(results))
    return _of_model(made, parts, read) if is_more and of_model else made


def _read(
    parts: Sequence[Any], role: str | None, *, of_model: bool
) -> tuple[list[Part], list[MessageCall], list[ToolResult], list[str], bool, bool]:
    """Return the parts of a message, read: all, its calls, its results and its texts.

    Then whether there is more than texts and calls that a client runs, and whether a call may be the answer.
    """
    read: list[Part] = []
    calls: list[MessageCall] = []
    results: list[ToolResult] = []
    texts: list[str] = []
    is_more = may_answer = False
    for part in parts:
        one = read_part(part, of_model=of_model)
        read.append(one)
        if isinstance(one, MessageCall):
            calls.append(one)
            is_more = is_more or one.by_provider
            may_answer = may_answer or is_answer(one.name or "")
        elif isinstance(one, str):
            if not (role == "user" and _is_block(one)):
                texts.append(one)
        else:
            is_more = True
            if isinstance(one, ToolResult):
                results.append(one)
    return read, calls, results, texts, is_more, may_answer


@lru_cache(maxsize=1024)
def role_of(name: str) -> str:
    """Return the role that a message's own word for it names, whatever its case."""
    return _ROLES.get(name.lower(), name)


@lru_cache(maxsize=1024)
def _places_of_calls(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a message that hold calls beside its content, the known ones first."""
    known = [place for place in _MORE_CALLS if place in keys]
    return (*known, *(key for key in keys if key not in _MORE_CALLS and holds_calls(key)))


def _has_contents(message: Mapping[str, Any]) -> bool:
    """Return whether an object has what only a message has."""
    places = _places_of_calls(tuple(message))
    return not _CONTENTS.isdisjoint(message) or any(isinstance(message[one], list | dict) for one in places)


def _content(message: dict[str, Any], *, of_model: bool) -> Any:
    """Return what a message holds: a text, or a list of parts, whatever was put around it."""
    content = message["parts"] if "parts" in message else message.get("content")
    if isinstance(content, str):
        if of_model and content.startswith("[") and are_parts(parsed := parse_json(content)):
            return parsed
    elif isinstance(content, _NUMBERS):  # a reply that is a number is a text
        return canonical(content)
    elif isinstance(content, dict) and isinstance(content.get("parts"), list):  # Google's Content
        return content["parts"]
    return content


def _is_silent(parts: Sequence[Any]) -> bool:
    """Return whether the parts of a message are texts that are left out, or were removed."""
    for part in parts:
        said = part
        if isinstance(part, dict):
            if part.get("type", "text") not in _TEXTS:
                return False
            said = part.get("content", part.get("text"))
        if said is not None and not (isinstance(said, str) and is_removed(said)):
            return False
    return True


def _structured(content: Any) -> str | None:
    """Return the text of a reply that is an object of the application's own, as structured outputs are."""
    is_own = isinstance(content, dict) and not (content.keys() & {"type", "parts", "role"})
    return json_text(content) if is_own and content else None


def _of_model(message: Message, parts: Sequence[Any], read: Sequence[Part]) -> Message:
    """Return a message of a model with its calls' own results, and with what else its parts are."""
    calls, results = message.tool_calls, message.tool_results
    if calls and results:
        calls, results = with_results(calls, results)
    unread: tuple[str, ...] = ()
    code_runs = 0
    wordless = False
    for part, one in zip(parts, read, strict=True):
        if isinstance(one, MessageCall | CodeRun):
            code_runs += runs_code(part, one)
            continue
        if isinstance(one, Unread):
            unread += (one.type,)
        if one is None or isinstance(one, Unread):
            wordless = wordless or (message.text is None and is_wordless(part))
    return Message(message.role, message.text, calls, results, unread, code_runs, wordless)


def _of_item(item: dict[str, Any]) -> Message | None:
    """Return the message that an item of OpenAI's Responses without a role stands for."""
    read = read_part(item)
    if isinstance(read, MessageCall):
        return Message("assistant", None, (read,), code_runs=int(runs_code(item, read)))
    if isinstance(read, ToolResult):
        return Message("tool", None, (), (read,))
    is_unread = isinstance(read, Unread) and isinstance(item.get("id"), str)
    return Message("assistant", None, unread=(str(item["type"]),)) if is_unread else None


def _calls_in(place: str, value: Any) -> Iterator[MessageCall]:
    """Yield the calls in a place of a message beside its content."""
    value = parse_json(value)
    if place == "additional_kwargs":  # LangChain's
        if isinstance(value, dict):
            for inner in _places_of_calls(tuple(value)):
                yield from _calls_in(inner, value[inner]) if inner != place else ()
            parts = map(read_part, objects(value.get("tool_outputs")))
            yield from (part for part in parts if isinstance(part, MessageCall))
        return
    if isinstance(value, dict) and value and all(map(str.isdecimal, value)):  # by their numbers
        value = list(value.values())
    for call in value if isinstance(value, list) else [value]:
        if isinstance(call, dict):
            yield read_call(call)


def _other_than(calls: Sequence[MessageCall], more: list[MessageCall]) -> list[MessageCall]:
    """Return the calls of another place of a message that are none of those before.

    A call has one id in both places, or where one has none the same name; each is one of them at most.
    """
    left = list(calls)
    others: list[MessageCall] = []
    for call in more:
        same = next((one for one in left if one.has_id(call.call_id)), None) or next(
            (one for one in left if None in (one.call_id, call.call_id) and one.name == call.name), None
        )
        if same is None:
            others.append(call)
        else:
            left.remove(same)
    return others


def with_results(
    calls: Sequence[MessageCall], results: Sequence[ToolResult]
) -> tuple[tuple[MessageCall, ...], tuple[ToolResult, ...]]:
    """Return calls with those of the results that are theirs, by id or, where none has one, by name.

    The others are returned beside them.
    """
    answered, left = list(calls), list(results)
    for number, call in enumerate(answered):
        found = next(
            (
                one
                for one in left
                if call.has_id(one.call_id)
                or (call.call_id is None is one.call_id and one.name in (None, call.name))
            ),
            None,
        )
        if found is not None:
            left.remove(found)
            answered[number] = call._replace(result=found)
    return tuple(answered), tuple(left)


def _plain(message: dict[str, Any]) -> Message | None:
    """Return a message that is one text, call or result, as nearly all are; None for any other."""
    role, content = message.get("role"), message["parts"] if "parts" in message else message.get("content")
    if type(role) is not str or role not in _PLAIN:
        return None
    is_common = message.keys() <= _COMMON
    if not is_common and _places_of_calls(tuple(message)):
        return None
    if type(content) is list and len(content) == 1 and type(part := content[0]) is dict:
        if part.get("type") != "text":
            return _of_one_part(role, part) if is_common else None
        if part.get("thought"):
            return None
        content = part.get("content", part.get("text"))
    known = text(content)
    if known is None or known[0] == "[" or role == "tool" or "</" in known:
        return None
    return Message(role, known)


def _of_one_part(role: str, part: dict[str, Any]) -> Message | None:
    """Return a message of one call that a client runs, or of one result; None for any other."""
    of_model = role == "assistant"
    one = read_part(part, of_model=of_model)
    if isinstance(one, ToolResult) and not of_model:
        return Message(role, None, (), (one,))
    if not isinstance(one, MessageCall) or not of_model or one.by_provider or is_answer(one.name or ""):
        return None
    return Message(role, None, (one,))


def is_of_system(message: Any) -> bool:
    """Return whether a message, read or not, is one of role system."""
    if isinstance(message, Message):
        return message.role == "system"
    role = text(message.get("role")) if isinstance(message, dict) else None
    return role is not None and role_of(role) == "system"


def code_executions(response: Any) -> int:
    """Count how often code ran on the model's side, given a response (a message, or a list of them).

    These are Gemini's `executable_code` parts, and calls of a code tool that the provider ran.
    """
    if response is None:
        return 0
    messages = objects(response if isinstance(response, list) else [response])
    parts = (part for one in messages for part in objects(one.get("parts", one.get("content"))))
    return sum(runs_code(part, read_part(part)) for part in parts)


def read_exchange(inputs: Any, outputs: Any, users: Sequence[int] | None = None) -> MessageExchange:
    """Return the new part of a model call, given its input messages and its output messages.

    A request repeats the whole history: only what follows the model's last own message is new, and the
    results that may be: parallel calls may be repeated one by one, each with its result after it. The user's
    message is the last of role user with a text of its own (several providers give tool results that role)
    that no framework wrote; one whose text is not recorded is a message of the user, too. `users` are the
    numbers of the user's own messages before each input message, where they are known.
    """
    response, calls, unread, code_runs = _response(outputs if isinstance(outputs, list) else [outputs])
    user_input: str | None = None
    user_messages: int | None = None
    reply_since: str | None = None
    results: list[ToolResult] = []
    repeated: list[MessageCall] = []
    new, has_results, own, earlier, is_silent = True, False, True, _MOST_EARLIER, False
    messages = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else ()
    older = map(message_of, reversed(messages))
    for newer, message in enumerate(older):
        if message is None or message.role == "system":
            continue
        new = new and message.role != "assistant"
        own = own and (new or message.role == "assistant")
        if reply_since is None and message.role == "assistant":
            reply_since = message.text
        unread += message.unread
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
        if is_silent := message.is_silent:
            break
        has_results = has_results or bool(message.tool_results) or message.role == "tool"
    continues = has_results or (False if user_input or is_silent else None)
    before = next(older, None)
    reply = before.text if before is not None and before.role == "assistant" else None
    return MessageExchange(
        user_input,
        continues,
        tuple(results),
        response,
        calls,
        tuple(repeated),
        reply,
        user_messages,
        unread,
        code_runs,
        reply_since if user_input else None,
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
        return {"role": role_of(value[0]), "content": value[1]} if is_pair else None
    if not isinstance(value, dict):
        return None
    kind, fields = value.get("type"), value
    if isinstance(value.get("kwargs"), dict) and isinstance(value.get("id"), list) and value["id"]:
        fields = value["kwargs"]
        kind = fields.get("type") or (text(value["id"][-1]) or "").partition("Message")[0].lower()
    elif isinstance(value.get("data"), dict):
        fields = value["data"]
    kind = (text(kind) or "").removesuffix("MessageChunk").lower()
    if "role" not in fields and kind and kind != "function" and is_item(value):
        return value
    if not _has_contents(fields):
        return None
    role = (_TYPES.get(kind) if "content" in fields else None) or text(fields.get("role"))
    if role is None and kind in _OF_MESSAGES:
        role = without_role
    if role is None:
        return None
    content = fields.get("content")
    return {**fields, **(content if isinstance(content, dict) else {}), "role": role}  # Google's Content


def is_of_langchain(value: Mapping[str, Any]) -> bool:
    """Return whether a message that names no role has a type by which LangChain's begin a conversation."""
    kind = value.get("type")
    return isinstance(kind, str) and kind.removesuffix("MessageChunk").lower() in ("human", "ai", "system")


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
        if of is None and (items := _items_of_response(value)):
            return items
        for place, given in _PLACES.items():
            if place in value:
                is_text = texts and (given is not None or place == "message")
                role = given or without_role
                if found := messages_in(value[place], role, of=of, texts=is_text, depth=depth - 1):
                    return found
    return []


def _items_of_response(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of the items of a response by OpenAI's API; none for any other value.

    An item that is no message is a part of one.
    """
    items = value.get("output")
    if not isinstance(items, list) or _OF_RESPONSES.isdisjoint(value):
        return []
    if not all(isinstance(item, dict) and text(item.get("type")) for item in items):
        return []
    return [plain_message(item, "assistant") or {"role": "assistant", "content": [item]} for item in items]


def _says(message: dict[str, Any], role: str) -> bool:
    """Return whether a message is one of a role and has a text that no framework wrote."""
    if "role" not in message or role_of(str(message["role"])) != role:
        return False
    read = message_of(message)
    return read is not None and bool(read.text) and not is_injected(read.text or "")


def text_in(value: Any, role: str) -> str | None:
    """Return the text of the last message of a role in a value; see `messages_in`."""
    found = messages_in(value, None, of=role)
    read = message_of(found[-1]) if found else None
    return None if read is None else read.text


def _is_block(said: str) -> bool:
    return "</" in said and _BLOCK.fullmatch(said) is not None


def is_injected(said: str) -> bool:
    """Return whether a framework wrote a text in the user's role: such as a block of context."""
    return said.startswith(_INJECTED) or _is_block(said)


def is_of_user(message: Any) -> bool:
    """Return whether a message, read or not, is the user's own text."""
    if isinstance(message, dict):
        role = text(message.get("role"))
        if role is None or role_of(role) != "user":
            return False  # most messages: not read a second time
        message = message_of(message)
    if not isinstance(message, Message) or message.role != "user" or not message.text:
        return False
    return not is_injected(message.text)


def _response(outputs: Sequence[Any]) -> tuple[str | None, tuple[MessageCall, ...], tuple[str, ...], int]:
    """Return a response's text, its calls, the types of parts that nobody knows, and its runs of code.

    The text is None without one, and "" if it is empty.
    """
    texts: list[str] = []
    calls: list[MessageCall] = []
    results: list[ToolResult] = []
    unread: tuple[str, ...] = ()
    code_runs = 0
    for message in map(message_of, outputs):
        if message is None:
            continue
        calls += message.tool_calls
        unread += message.unread
        code_runs += message.code_runs
        if message.tool_results:  # an agent's whole turn: the response is what follows its last tool
            texts.clear()
            results += message.tool_results
        if message.text and (message.role == "assistant" or not message.tool_results):
            texts.append(message.text)  # one response may be streamed as several messages
    requested = with_results(calls, results)[0] if results else tuple(calls)
    if not texts and not requested and outputs and all(map(_is_empty, outputs)):
        return "", (), unread, code_runs
    return "".join(texts) if texts else None, requested, unread, code_runs


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
