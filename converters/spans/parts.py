"""What a part of a message is: a text, a call, a result, code that ran, or nothing that anyone knows.

The type of a part decides, and of a part without a type the one key that holds its object; items of OpenAI's
Responses are parts, too. What a type means follows from its words, so that a tool of a provider that did not
exist yesterday is a call. A part of a *model's* message that is not known may be a call: `Unread`. Parts of
other roles are data, of which only known results count. Some calls run nothing, and are the reply: by them a
model gives its answer.

https://github.com/open-telemetry/semantic-conventions-genai (parts of messages)
https://platform.openai.com/docs/api-reference/responses/object
https://docs.anthropic.com/en/api/messages
https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.converters.spans.outcomes import mark_of, snake_case
from spangrade.converters.spans.values import (
    NO_ARGUMENTS,
    arguments_in,
    arguments_text,
    first_of,
    is_removed,
    json_text,
    parse_json,
    text,
)
from spangrade.tracer.base.canonical_json import canonical

# smolagents and others; pydantic-ai, for an output of one type; ADK; LiteLLM, for an answer of a schema.
_NAMES = frozenset({"final_answer", "final_result", "set_model_response", "json_tool_call"})
_OF_TYPES = "final_result_"  # pydantic-ai's, for an output of several types: the type's name follows
_WRAPPING = frozenset({"answer", "response"})  # the only argument, around a bare answer


class Unread(NamedTuple):
    """A part of a model's message whose type nobody knows."""

    type: str


class CodeRun(NamedTuple):
    """Code that the model's provider ran, which has no name of a call (Gemini)."""


Part: TypeAlias = str | MessageCall | ToolResult | Unread | CodeRun | None
Kind = Literal["text", "call", "result", "code", "nothing", "unknown"]

TEXTS = frozenset({"text", "input_text", "output_text"})
CALLS = frozenset({"tool_call", "tool_use", "function_call", "function", "tool-call"})
RESULTS = frozenset({"tool_call_response", "tool_result", "function_call_output", "tool-result"})
# The keys that name a part without a type: Gemini's, Bedrock's, Genkit's and Haystack's.
_KEYS_OF_CALLS = frozenset(
    {"function_call", "functionCall", "toolUse", "function", "toolRequest", "tool_call"}
)
_KEYS_OF_RESULTS = frozenset(
    {"function_response", "functionResponse", "toolResult", "toolResponse", "tool_call_result"}
)
_NAME_KEYS = ("name", "toolName", "tool_name")
_ID_KEYS = ("tool_use_id", "call_id", "tool_call_id", "id", "toolUseId", "toolCallId", "ref")
_ARGUMENT_KEYS = ("arguments", "input", "args")
# A call with these keys alone wraps nothing, and says neither who runs it nor how it ended.
_PLAIN = frozenset({"type", *_NAME_KEYS, *_ID_KEYS, *_ARGUMENT_KEYS})
_ARGUMENT_NAMES = frozenset(_ARGUMENT_KEYS)
_ARGUMENT_KEYS_OF_ALL = _ARGUMENT_NAMES | {"partialArgs", "partial_args"}
_LEAVING_OUT = frozenset({"function_call", "functionCall"})  # Gemini writes no `args` for none
# Where items of OpenAI's own tools have what the model asked of them: an object, or a value of this name.
_ASKED, _ASKED_VALUES = ("action", "operation"), ("code", "queries")
_RESULT_KEYS = ("response", "result", "output", "content")
_OWN_RESULTS = ("output", "result", "outputs", "results")
_ERRORS = ("error", "errorText", "error_text", "error_message")
# What Vercel's AI SDK wraps a result in: its type, and its value.
_OUTPUTS = frozenset({"content", "error-json", "error-text", "execution-denied", "json", "text"})
_DENIED = "execution-denied"
_CODE_TOOLS = frozenset({"code_interpreter", "code_execution", "bash_code_execution"})
_CODE_KEYS = frozenset({"executable_code", "executableCode"})
_OF_CODE = frozenset({"executable_code", "code_execution_result"})
_WORDS_OF_CALLS = frozenset({"call", "use", "invocation", "toolcall", "tooluse", "functioncall"})
_COMMON_WORDS = frozenset({"call", "use", "invocation"})  # a key with no other word says nothing
_WORDS_OF_RESULTS = frozenset({"response", "result", "output", "return"})
_WORDS_OF_OFFERS = frozenset({"tools", "declarations", "definitions"})
_SCHEMAS = frozenset({"parameters", "input_schema", "inputSchema"})
# Types that say no more than that something is called: they name no tool.
_NO_NAMES = frozenset({"tool", "function", "tool_use", "custom_tool", "server_tool", "mcp_tool", "mcp"})
_NO_NAMES |= {f"{name}{end}" for name in _NO_NAMES for end in ("_use", "_invocation", "_request")}
# Words with which types of what the provider runs begin, and items that others than the provider run.
_OF_PROVIDERS = frozenset({"server", "mcp", "builtin", "hosted"})
_PROVIDED = frozenset({"providerExecuted", "provider_executed", "builtin"})
_HARMLESS = re.compile(
    r"(?:(?:input|output|redacted|reasoning|thinking|summary)_)*"
    r"(?:text|refusal|reasoning|thinking|thought|summary|image|audio|video|file|blob|uri|document|source|"
    r"citation|compaction)s?(?:_(?:text|plain|content|url|uri|document|file|block))?"
    r"|summaries|step_start|data_.+|cache_(?:control|point|mark)|cache|item_reference"
)
_SPOKEN = frozenset({"audio", "speech", "voice"})
_BESIDE = frozenset({"audio", "refusal", "parsed"})
_TEXT_KEYS = frozenset({"text", "content"})
_TYPE_ALONE = frozenset({"type", "id"})


@lru_cache(maxsize=4096)
def kind_of_type(type_: str) -> Kind:
    """Return what the words of a part's type, or of the key that holds its object, say that it is."""
    if type_ in TEXTS:
        return "text"
    if type_ in CALLS:
        return "call"
    if type_ in RESULTS:
        return "result"
    name = snake_case(type_)
    words = name.split("_")
    if name in _OF_CODE:
        return "code"
    if "approval" in words or words[-1] in _WORDS_OF_OFFERS or _HARMLESS.fullmatch(name):
        return "nothing"
    if words[-1] in _WORDS_OF_CALLS:
        return "call"
    if words[-1] in _WORDS_OF_RESULTS or (words[0] == "tool" and words[-1] == "error"):
        return "result"
    return "call" if type_.startswith("tool-") and type_ != "tool-" else "unknown"


def read_part(part: Any, *, of_model: bool = True) -> Part:
    """Return what a part of a message is; None for what is neither a text, a call nor a result.

    `of_model` says that the message is the model's: a part of another role is data, unless it is a text, or a
    call or a result in a form of all roles.
    """
    if not isinstance(part, dict):
        if isinstance(part, list) and part and of_model:
            return Unread("list")
        return part if isinstance(part, str) and not is_removed(part) else None
    type_ = text(part.get("type"))
    if type_ is None:
        return _untyped(part, of_model=of_model)
    kind = kind_of_type(type_)
    if kind == "text":
        return _text(part)
    if type_ in CALLS and part.keys() <= _PLAIN:
        return _plain_call(part)
    if kind == "nothing" and (said := _said(part, type_)):
        return said
    if not of_model:
        return _of_another(part, type_)
    if type_.startswith("tool-") and _is_of_page(part):
        return _call(part, type_, type_.removeprefix("tool-"))
    if kind == "call":
        return None if _is_on_offer(part) else _call(part, type_, _name_in(type_))
    if kind == "result":
        return _result(part, type_)
    if kind == "code":
        return _of_code(part, type_)
    if kind == "nothing" or part.keys() <= _TYPE_ALONE:
        return None
    return _call(part, type_, None) if _has_input(part) else Unread(type_)


def _has_input(part: Mapping[str, Any]) -> bool:
    """Return whether a part names something that was given an input."""
    return first_of(part, _NAME_KEYS) is not None and first_of(part, _ARGUMENT_KEYS) is not None


def holds_calls(key: str) -> bool:
    """Return whether the words of a key say that a message has calls there, such as `toolCalls`."""
    *before, last = snake_case(key).split("_")
    last = last.removesuffix("s")
    return last in _WORDS_OF_CALLS and (bool(before) or last not in _COMMON_WORDS)


def are_parts(values: Any) -> bool:
    """Return whether a value is a list of parts of known types, with a call or a result among them."""
    if not isinstance(values, list) or not all(isinstance(one, dict) for one in values):
        return False
    kinds = {kind_of_type(text(one.get("type")) or "") for one in values}
    return "unknown" not in kinds and not kinds.isdisjoint({"call", "result"})


def read_call(call: dict[str, Any]) -> MessageCall:
    """Return a call in a list of calls, whatever type it has there."""
    type_ = text(call.get("type")) or "tool_call"
    read = _plain_call(call) if type_ in CALLS and call.keys() <= _PLAIN else _call(call, type_, None)
    if read.name is None and (named := text(call.get("function"))):  # Inspect's
        return read._replace(name=named)
    return read


def is_of_approval(part: Any) -> bool:
    """Return whether a part asks a person for approval, or is the answer."""
    type_ = text(part.get("type")) if isinstance(part, dict) else None
    return type_ is not None and "approval" in snake_case(type_).split("_")


def is_item(message: Mapping[str, Any]) -> bool:
    """Return whether an object without a role is an item of OpenAI's Responses: a call or a result."""
    type_ = text(message.get("type"))
    if type_ is None or "role" in message:
        return False
    if type_ in CALLS or type_ in RESULTS:
        return True
    return kind_of_type(type_) in ("call", "result") and any(map(message.get, _ID_KEYS))


def _of_another(part: dict[str, Any], type_: str) -> Part:
    if type_ in CALLS:
        return None if _is_on_offer(part) else _call(part, type_, None)
    return _result(part, type_) if type_ in RESULTS else None


def _untyped(part: dict[str, Any], *, of_model: bool) -> Part:
    if "response" in part:
        return _result(part, None)
    for key, inner in part.items():
        if isinstance(inner, dict):
            if key in _KEYS_OF_CALLS:
                return _call_in(part, inner, key)
            if key in _KEYS_OF_RESULTS:
                return _result(inner, None)
            if of_model and "_" in snake_case(key):
                kind = kind_of_type(key)
                if kind == "call":
                    return _call_in(part, inner, key)
                if kind == "result":
                    return _result(inner, None)
                if kind == "code" and inner and snake_case(key) == "executable_code":
                    return CodeRun()
    return _call(part, "", None) if of_model and _has_input(part) else _text(part)


def _call_in(part: dict[str, Any], inner: dict[str, Any], key: str) -> MessageCall | None:
    """Return the call that an object under a key of a part without a type is."""
    if _is_on_offer(inner):
        return None
    call = _call(inner, key, _name_in(key))
    if key in _LEAVING_OUT and _ARGUMENT_KEYS_OF_ALL.isdisjoint(inner):
        call = call._replace(arguments=NO_ARGUMENTS)
    return call._replace(call_id=_id_in(part)) if call.call_id is None else call


def _text(part: dict[str, Any]) -> str | None:
    content = part.get("content", part.get("text"))
    return (
        content if isinstance(content, str) and not part.get("thought") and not is_removed(content) else None
    )


def _said(part: Mapping[str, Any], type_: str) -> str | None:
    """Return what a person reads or hears of a part other than text: a refusal, a transcript of audio."""
    words = snake_case(type_).split("_")
    if "refusal" in words:
        return first_text_of(part, ("refusal", "text", "content"))
    return None if _SPOKEN.isdisjoint(words) else text(part.get("transcript"))


def said_beside(message: Mapping[str, Any]) -> str | None:
    """Return what a message of a model without a text says beside its content (OpenAI's chat completions)."""
    if _BESIDE.isdisjoint(message):
        return None
    audio = message.get("audio")
    spoken = audio.get("transcript") if isinstance(audio, dict) else None
    return text(message.get("refusal")) or text(spoken) or json_text(message.get("parsed"))


def is_wordless(part: Any) -> bool:
    """Return whether a part that is not read shows a person something other than text: an image, a file."""
    if not isinstance(part, dict):
        return False
    type_ = text(part.get("type"))
    if type_ is None:  # Gemini's and Bedrock's
        return bool(part) and _TEXT_KEYS.isdisjoint(part)
    return kind_of_type(type_) in ("nothing", "unknown")


def _of_code(part: dict[str, Any], type_: str) -> Part:
    if snake_case(type_) == "executable_code":
        return CodeRun() if part.keys() - _TYPE_ALONE else None
    return _result(part, type_) if _id_in(part) else None  # of a call `code_execution_call`


def _is_of_page(part: Mapping[str, Any]) -> bool:
    """Return whether a part, a `tool-NAME`, is a call in a page's message by the AI SDK: it has a state."""
    return "state" in part and first_of(part, _NAME_KEYS) is None


def _is_on_offer(part: Mapping[str, Any]) -> bool:
    """Return whether an object is the declaration of a tool: it has a schema, and no arguments."""
    inner = part["function"] if isinstance(part.get("function"), dict) else part
    if _SCHEMAS.isdisjoint(inner) or first_of(inner, _ARGUMENT_KEYS) is not None:
        return False
    return any(isinstance(inner.get(key), dict) for key in _SCHEMAS)


@lru_cache(maxsize=4096)
def _name_in(type_: str) -> str | None:
    """Return the tool that a type names: less `_call` or `tool-`; None if it names none."""
    if type_.startswith("tool-") and kind_of_type(type_[5:]) == "unknown":
        return type_.removeprefix("tool-")
    name = re.sub(r"[_.\- ]?call$", "", type_, flags=re.IGNORECASE)
    return None if not name or snake_case(name) in _NO_NAMES else name


def _wrapped(part: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return the object that a part of a type wraps, under the type's own name or `function`; else itself."""
    name = snake_case(type_)
    for key, value in part.items():
        if isinstance(value, dict) and (key == "function" or snake_case(key) == name):
            return value
    return part


def _plain_call(part: Mapping[str, Any]) -> MessageCall:
    """Return the call of a part that has its name, its ids and its arguments alone."""
    call_id, other_id = _id_in(part), text(part.get("id"))
    return MessageCall(
        first_text_of(part, _NAME_KEYS),
        call_id,
        arguments_in(part, _ARGUMENT_KEYS),
        other_id=None if other_id == call_id else other_id,
    )


def _call(part: Mapping[str, Any], type_: str, named: str | None) -> MessageCall:
    inner = _wrapped(part, type_)
    name = first_text_of(part, _NAME_KEYS) or first_text_of(inner, _NAME_KEYS)
    if name is None:
        kinds = (inner.get("type") if inner is not part else None, first_of(inner, ("tool_type", "toolType")))
        kind = next((word for one in kinds if (word := text(one)) and word != "function"), None)
        name = kind or named
    call_id = _id_in(part) or _id_in(inner)
    other_id = text(part.get("id"))
    if other_id == call_id:
        other_id = None
    arguments = _arguments(part, inner)
    call = MessageCall(name, call_id, arguments, _is_by_provider(part, type_, inner), None, other_id)
    own = _own_result(part, inner, call)
    return call if own is None else call._replace(result=own)


def first_text_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """Return the text of the first of the keys that has a value in a record; None for other values."""
    return text(first_of(record, keys))


def _arguments(part: Mapping[str, Any], inner: Mapping[str, Any]) -> str | None:
    given = first_of(inner, _ARGUMENT_KEYS)
    if given is None and inner is not part:
        given = first_of(part, _ARGUMENT_KEYS)
    if given is None and (given := first_of(part, _ASKED)) is None:
        if not (_ARGUMENT_NAMES.isdisjoint(part) and _ARGUMENT_NAMES.isdisjoint(inner)):
            return NO_ARGUMENTS  # null
        asked = {key: part[key] for key in _ASKED_VALUES if part.get(key) is not None}
        if not asked and inner is not part and "type" in inner:  # the conventions' own object
            about = {"type", *_NAME_KEYS, *_ID_KEYS}
            asked = {key: value for key, value in inner.items() if key not in about}
        given = asked or None
    return arguments_text(given)


def _is_by_provider(part: Mapping[str, Any], type_: str, inner: Mapping[str, Any]) -> bool:
    """Return whether the model's provider runs a call.

    Its part says so, or the type's first word; of an item of OpenAI's, `…_call`, the id: an item whose output
    the client sends has a `call_id`. Gemini's own tools have a type.
    """
    for one in (part,) if inner is part else (part, inner):
        if not _PROVIDED.isdisjoint(one) and any(one.get(key) is True for key in _PROVIDED):
            return True
    if part.get("execution") == "client" or type_ in CALLS:
        return False
    words = snake_case(type_).split("_")
    if words[0] in _OF_PROVIDERS or first_of(inner, ("tool_type", "toolType")) is not None:
        return True
    is_item = words[-1] == "call" and _name_in(type_) is not None
    return is_item and "call_id" not in part and "tool_call_id" not in part


def _own_result(part: Mapping[str, Any], inner: Mapping[str, Any], call: MessageCall) -> ToolResult | None:
    """Return the result that the part of a call has itself; None if it has none."""
    if part.get("state") == "output-denied":
        return ToolResult(call.name, call.call_id, json_text({"type": _DENIED}))
    holder, value = part, first_of(part, _OWN_RESULTS)
    if value is None and inner is not part:
        holder, value = inner, first_of(inner, _OWN_RESULTS)
    mark = mark_of(part if inner is part else {**part, **inner})
    if value is None and mark != "failed" and not (call.by_provider and mark is not None):
        return None
    if value is None:
        value = first_of(holder, _ERRORS)
    return _marked(ToolResult(call.name, call.call_id, _json_of(value)), mark)


def _result(part: Mapping[str, Any], type_: str | None) -> ToolResult:
    result = first_of(part, _RESULT_KEYS)
    if result is None and type_ is not None and type_ not in RESULTS:
        inner = _wrapped(part, type_)
        result = first_of(part, (*_OWN_RESULTS, *_ERRORS)) if inner is part else inner
    origin = given if isinstance(given := part.get("origin"), dict) else part  # Haystack's
    mark = mark_of(part, result)
    if isinstance(result, dict) and (kind := text(result.get("type"))):
        if mark is None and "error" in snake_case(kind).split("_"):
            mark = "failed"
        if "value" in result and kind in _OUTPUTS:
            result = result["value"]
    name = first_text_of(origin, _NAME_KEYS)
    return _marked(ToolResult(name, _id_in(origin), _json_of(result)), mark)


def _json_of(result: Any) -> str | None:
    return json_text(unwrapped(result))


def with_mark(result: ToolResult, fields: Mapping[str, Any]) -> ToolResult:
    """Return a result with what the fields beside it say of the call."""
    return _marked(result, mark_of(fields, parse_json(result.result)))


def _marked(result: ToolResult, mark: str | None) -> ToolResult:
    """Return a result with what a mark says."""
    if mark is None:
        return result
    failed = None if mark == "unknown" else mark == "failed"
    return result._replace(failed=failed, doubtful=mark == "unknown")


def result_of_message(message: Mapping[str, Any], call_id: str | None, result: Any) -> ToolResult:
    """Return the result that a message of role tool is, with the marks beside its content."""
    return with_mark(ToolResult(text(message.get("name")), call_id, json_text(result)), message)


@lru_cache(maxsize=1024)
def _id_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in _ID_KEYS if key in keys)


def _id_in(part: Mapping[str, Any]) -> str | None:
    """Return the id of the call that a part is, or has the result of."""
    for key in _id_keys(tuple(part)):
        if known := part.get(key):
            return text(known)
    return None


def unwrapped(result: Any) -> Any:
    """Return a tool's result without the one content block that holds it (Anthropic, Bedrock, MCP)."""
    if isinstance(result, list) and len(result) == 1 and isinstance(result[0], dict):
        block = result[0]
        if set(block) == {"json"}:
            return block["json"]
        if set(block) <= {"type", "text"} and isinstance(block.get("text"), str):
            return block["text"]
    return result


def runs_code(part: Any, read: Part) -> bool:
    """Return whether a part of a model's message is code that ran on the model's side, or a call of such.

    `read` is what `read_part` makes of the part.
    """
    if not isinstance(part, dict):
        return False
    if isinstance(read, CodeRun) or (not _CODE_KEYS.isdisjoint(part) and any(map(part.get, _CODE_KEYS))):
        return True
    if not isinstance(read, MessageCall) or not read.by_provider:
        return False
    inner = _wrapped(part, str(part.get("type")))
    return not _CODE_TOOLS.isdisjoint((read.name, text(inner.get("type"))))


@lru_cache(maxsize=4096)
def is_answer(name: str) -> bool:
    """Return whether a call of this name is the agent's answer and no call of a tool."""
    return name in _NAMES or (name.startswith(_OF_TYPES) and len(name) > len(_OF_TYPES))


def answer_in(calls: Iterable[tuple[Any, Any]]) -> str | None:
    """Return the text of the last answer in calls, each a name and arguments; None if none is an answer.

    It is the text that the call wraps, else its arguments as JSON.
    """
    found: str | None = None
    for name, arguments in calls:
        if isinstance(name, str) and is_answer(name) and (given := parse_json(arguments)) is not None:
            if isinstance(given, dict) and len(given) == 1 and given.keys() <= _WRAPPING:
                (given,) = given.values()
            found = given if isinstance(given, str) else canonical(given)
    return found
