"""Messages as model clients write and return them, in the form of the GenAI conventions.

Reads OpenAI's chat messages and Responses items, Anthropic's messages and blocks, Gemini's `Content` and
parts, as objects or dictionaries, without importing a client. What has the conventions' form already is kept.
"""

from __future__ import annotations

from typing import Any

import orjson

from spangrade.tracer.base.canonical_json import json_value

Part = dict[str, Any]

_ROLES = {"model": "assistant", "function": "tool"}
_MESSAGE_KEYS = frozenset({"role", "content", "parts", "tool_calls"})
_NOT_REPEATED = frozenset({*_MESSAGE_KEYS, "refusal", "function_call", "tool_call_id"})
_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text"})
_CALLS = frozenset({"tool_call", "tool_use", "function", "function_call", "custom", "custom_tool_call"})
_RESULTS = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_SERVER_CALLS = frozenset({"server_tool_use", "code_interpreter_call", "web_search_call", "file_search_call"})
_MEDIA = frozenset({"image_url", "input_image", "image", "document", "input_audio", "file", "input_file"})


def plain(value: object) -> Any:
    """Return a value in JSON's types; an object of a client becomes the object that it dumps."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        try:
            value = dump(warnings=False)  # pydantic warns about what a client adds for structured output
        except TypeError:  # another `model_dump`
            value = dump()
    return json_value(value)


def messages(value: object, role: str) -> list[Part]:
    """Return a text, a message, a part, or a sequence of them, as messages; `role` is for those without one.

    Parts in a row become one message. Raises TypeError for any other value.
    """
    result: list[Part] = []
    collected = None  # the role of the message that is made of the parts read last
    for given in [] if value is None else value if isinstance(value, list | tuple) else [value]:
        item = plain(given)
        if isinstance(item, dict) and not _MESSAGE_KEYS.isdisjoint(item) and not _is_part(item):
            result.append(_message(item, role))
            collected = None
        elif isinstance(item, str) and not isinstance(given, str):
            raise TypeError(f"a message is a text or an object, not {type(given).__name__}")
        elif read := parts(item):
            owner = _role_of_part(item, role)
            if owner != collected:
                result.append({"role": owner, "parts": []})
            collected = owner
            result[-1]["parts"] += read
    return result


def parts(value: object) -> list[Part]:
    """Return a text, a part or a list of them as parts. Raises TypeError for any other value."""
    items = value if isinstance(value, list) else [value]
    return [part for item in items if (part := _part(item)) is not None]


def tool_call(value: object) -> Part:
    """Return a requested call as a part: `{"id", "name", "arguments"}`, or as a client has it."""
    call = plain(value)
    if not isinstance(call, dict):
        raise TypeError(f"a tool call is an object, not {type(value).__name__}")
    wrapper = next(
        (key for key in ("function", "custom", "function_call") if _is_object(call.get(key))), None
    )
    inner = call[wrapper] if wrapper else call
    given = next((key for key in ("arguments", "input", "args") if key in inner), None)
    call_id = call.get("call_id") or call.get("id") or inner.get("id")
    arguments = _parsed(inner[given]) if given else None
    return _present({"type": "tool_call", "id": call_id, "name": inner.get("name"), "arguments": arguments})


def _message(message: Part, role: str) -> Part:
    role = message.get("role") or role
    rest = {key: value for key, value in message.items() if key not in _NOT_REPEATED and value is not None}
    rest.pop("type", None)  # "message": of an item of OpenAI's Responses
    content = message["parts"] if "parts" in message else message.get("content")
    read = [] if content is None else parts(content)
    if isinstance(message.get("refusal"), str):
        read.append(_text(message["refusal"]))
    requested = message.get("tool_calls")
    if _is_object(message.get("function_call")):  # OpenAI's, before it had `tool_calls`
        read.append(tool_call(message["function_call"]))
    read += [tool_call(call) for call in requested] if isinstance(requested, list) else []
    if role in {"tool", "function"} and any(part.get("type") == "text" for part in read):
        call_id = message.get("tool_call_id") or message.get("id")
        result = {"type": "tool_call_response", "id": call_id, "name": message.get("name")}
        read = [{**_present(result), "response": _joined(content)}]
    if not read and "parts" not in message:  # no content of any kind
        return {**message, "role": role}
    return {"role": _ROLES.get(role, role), **rest, "parts": read}


def _part(part: Any) -> Part | None:
    """Return a part as the conventions have it, None for one without content."""
    if isinstance(part, str):
        return _text(part)
    if not isinstance(part, dict):
        raise TypeError(f"a message is a text or an object, not {type(part).__name__}")
    kind = part.get("type")
    if not isinstance(kind, str):
        return _gemini_part(part)
    if kind in _TEXTS and isinstance(part.get("text"), str):
        return _text(part["text"])
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return _text(part["refusal"])
    if kind == "thinking":
        return {"type": "reasoning", "content": part.get("thinking")}
    if kind == "reasoning" and not isinstance(part.get("content"), str):  # an item of OpenAI's Responses
        summary = _joined(part.get("summary"))
        return {"type": "reasoning", "content": summary} if isinstance(summary, str) and summary else None
    if kind == "tool_call_response":
        return part  # of the conventions; a result of null is a result
    if kind == "tool_call" and "function" not in part:
        return _present(part)
    if kind in _CALLS:
        return tool_call(part)
    if kind in _RESULTS:
        call_id = part.get("tool_use_id") or part.get("call_id")
        result = {"type": "tool_call_response", "id": call_id, "is_error": part.get("is_error") or None}
        return {**_present(result), "response": part.get("content", part.get("output"))}
    if kind in _SERVER_CALLS:
        return _server_call(part.get("name") or kind.removesuffix("_call"), part)
    return (_media(part) if kind in _MEDIA else None) or _present(part)


def _gemini_part(part: Part) -> Part | None:
    if isinstance(part.get("text"), str):
        return {"type": "reasoning", "content": part["text"]} if part.get("thought") else _text(part["text"])
    for snake, camel in (
        ("function_call", "functionCall"),
        ("function_response", "functionResponse"),
        ("executable_code", "executableCode"),
        ("inline_data", "inlineData"),
        ("file_data", "fileData"),
    ):
        inner = part.get(snake) or part.get(camel)
        if not isinstance(inner, dict):
            continue
        mime = inner.get("mime_type") or inner.get("mimeType")
        if snake == "function_call":
            return tool_call(inner)
        if snake == "function_response":
            named = {"type": "tool_call_response", "id": inner.get("id"), "name": inner.get("name")}
            return {**_present(named), "response": inner.get("response")}
        if snake == "executable_code":
            return _server_call("code_execution", inner)
        if snake == "inline_data":
            return _blob(mime, inner.get("data"))
        return _uri(inner.get("file_uri") or inner.get("fileUri"), mime)
    return _present(part) or None


def _media(part: Part) -> Part | None:
    """Return an image, a document, a recording or a file as a part; None if it refers to nothing known."""
    inner = part.get("source") or part.get(part["type"])
    source: Part = inner if isinstance(inner, dict) else part
    url = source.get("url") or source.get("image_url") or source.get("file_url")
    data = source.get("data") or source.get("file_data")
    mime = source.get("media_type") or (f"audio/{source['format']}" if "format" in source else None)
    if not isinstance(url, str) and isinstance(inner, str):
        url = inner
    if isinstance(data, str) and not data.startswith("data:"):
        return _blob(mime, data)
    url = data or url
    if isinstance(url, str) and url.startswith("data:"):
        header, _, content = url.removeprefix("data:").partition(",")
        return _blob(header.partition(";")[0] or None, content)
    modality = "image" if "image" in part["type"] else None
    if isinstance(source.get("file_id"), str):
        return _present({"type": "file", "modality": modality, "file_id": source["file_id"]})
    return _uri(url, mime, modality) if isinstance(url, str) else None


def _blob(mime: Any, content: Any) -> Part:
    return _present({"type": "blob", "mime_type": mime, "modality": _modality(mime), "content": content})


def _uri(uri: Any, mime: Any, modality: str | None = None) -> Part:
    return _present({"type": "uri", "mime_type": mime, "modality": modality or _modality(mime), "uri": uri})


def _modality(mime: Any) -> str | None:
    kind = mime.partition("/")[0] if isinstance(mime, str) else None
    return kind if kind in {"image", "video", "audio"} else None


def _server_call(name: str, call: Part) -> Part:
    details = {key: value for key, value in call.items() if key not in {"type", "id", "name"}}
    named = {"type": "server_tool_call", "id": call.get("id"), "name": name}
    return {**_present(named), "server_tool_call": {"type": name, **_present(details)}}


def _role_of_part(part: Any, role: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in {"function_call_output", "custom_tool_call_output"}:
        return "tool"
    return "assistant" if kind in {"function_call", "custom_tool_call", "reasoning"} else role


def _is_part(item: Part) -> bool:
    """Tell a part that has `content`, such as the conventions' own, from a message that has it."""
    return isinstance(item.get("type"), str) and item["type"] != "message" and "role" not in item


def _joined(content: Any) -> Any:
    """Return the text of a list of texts; any other content as it is."""
    if isinstance(content, list) and all(
        _is_object(item) and isinstance(item.get("text"), str) for item in content
    ):
        return "".join(item["text"] for item in content)
    return content


def _text(text: str) -> Part:
    return {"type": "text", "content": text}


def _parsed(arguments: Any) -> Any:
    """Return the object that a JSON text holds, as OpenAI writes arguments; any other value as it is."""
    if isinstance(arguments, str):
        try:
            value = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return arguments
        return value if isinstance(value, dict) else arguments
    return arguments


def _present(part: Part) -> Part:
    return {key: value for key, value in part.items() if value is not None}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)
