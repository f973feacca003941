"""The inputs of a model beside the messages: the declarations of its tools, and its instructions.

A declaration is an object with `name` and, if recorded, `description` and `parameters` (a JSON schema),
whatever the provider's form. A tool that runs on the provider's side has no name and is kept as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson

from spangrade.converters.spans.flattened import numbered
from spangrade.converters.spans.messages import is_of_system, message_of
from spangrade.converters.spans.values import either, objects, parse_json, text
from spangrade.tracer.base.canonical_json import canonical

_PARAMETERS = ("parameters", "input_schema", "inputSchema", "json_schema", "parameters_json_schema")
_LONGEST = 1_000_000  # characters of instructions


def declared_tools(value: Any) -> str | None:
    """Return the declarations in a list of tools, or in its JSON text, as canonical JSON; None for none.

    An item is a tool in the form of OpenAI, Anthropic, Gemini or the conventions, its JSON text, or a name.
    """
    if value is None:  # of most calls
        return None
    if isinstance(value, str):
        return _declared_in(value)
    declarations = list(_declarations(value))
    return canonical(declarations) if declarations else None


@lru_cache(maxsize=256)  # every call of an agent's model repeats them
def _declared_in(source: str) -> str | None:
    declarations = list(_declarations(parse_json(source)))
    return canonical(declarations) if declarations else None


def listed_tools(attributes: Mapping[str, Any]) -> str | None:
    """Return the declarations in OpenInference's attributes `llm.tools.0.tool.json_schema`, …"""
    if "llm.tools.0.tool.json_schema" not in attributes:
        return None
    schemas = [item.get("tool.json_schema") for item in numbered(attributes, "llm.tools.")]
    return _declared_in(orjson.dumps([text(schema) for schema in schemas]).decode())


def instructions(value: Any, messages: Any = None) -> str | None:
    """Return the text of a model's instructions; without any, that of the system messages before all others.

    `value` is a text, a message, its parts, or the JSON text of one of these.
    """
    if value is None:  # of most calls
        return of_messages(messages)
    own = _instructions_in(value) if isinstance(value, str) else _instructions(value)
    return own or of_messages(messages)


def of_messages(messages: Any) -> str | None:
    """Return the text of the system messages that a list of messages begins with; None without any."""
    texts = []
    for listed in messages if isinstance(messages, list) else ():
        message = message_of(listed) if is_of_system(listed) else None
        if message is None:
            break
        if message.text:
            texts.append(message.text)
    return "\n\n".join(texts)[:_LONGEST] or None


@lru_cache(maxsize=256)  # every call of an agent's model repeats them
def _instructions_in(source: str) -> str | None:
    return _instructions(parse_json(source))


def _instructions(value: Any) -> str | None:
    if isinstance(value, str):
        return value[:_LONGEST] or None
    if isinstance(value, dict) and not ("content" in value or "parts" in value):
        value = [value]
    if isinstance(value, list):
        value = {"content": value}
    message = message_of(value)
    return message.text[:_LONGEST] if message is not None and message.text else None


def _declarations(tools: Any) -> Iterator[Any]:
    for item in tools if isinstance(tools, list) else [tools]:
        tool = parse_json(item)
        if isinstance(tool, str) and tool:
            yield {"name": tool}
        elif isinstance(tool, dict):
            functions = either(tool, "function_declarations")
            if functions is None:
                yield from _of_tool(tool)
            else:
                for function in objects(functions):
                    yield from _of_tool(function)


def _of_tool(tool: dict[str, Any]) -> Iterator[Any]:
    inner = next((tool[key] for key in ("function", "toolSpec") if isinstance(tool.get(key), dict)), tool)
    name = text(inner.get("name"))
    if name is None:
        if inner:
            yield inner
        return
    description = text(inner.get("description"))
    parameters = _first_object(parse_json(inner.get(key)) for key in _PARAMETERS)
    yield {
        "name": name,
        **({} if description is None else {"description": description}),
        **({} if parameters is None else {"parameters": parameters}),
    }


def _first_object(values: Iterable[Any]) -> dict[str, Any] | None:
    schema = next((value for value in values if isinstance(value, dict) and value), None)
    inner = None if schema is None else schema.get("json")  # Bedrock's
    return inner if isinstance(inner, dict) else schema
