"""Parallel tool calls that a streaming instrumentation recorded as one, all their texts joined.

Ids `call_3call_4`, names `approve_discountget_cart`, arguments `{"value": 10}{"customer_id": "C-1001"}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from spangrade.converters.spans.flattened import numbered
from spangrade.converters.spans.values import json_object, objects, parse_json, text

_DECODER = json.JSONDecoder()
_MOST = 128  # calls of one answer; OpenAI allows as many
_LONGEST = 2_000  # characters of joined names


def split_calls(
    calls: Iterable[Mapping[str, Any]], tool_names: Callable[[], Collection[str]]
) -> Iterator[Mapping[str, Any]]:
    """Yield tool calls (`id`, `name`, `arguments`), one that is several joined ones as those.

    `tool_names` returns the names of the tools that the model was given. Joined calls whose names cannot be
    told apart by them have no name, and ids that cannot be told apart are None.
    """
    for call in calls:
        arguments = _joined_objects(call.get("arguments"))
        if len(arguments) < 2:
            yield call
            continue
        names = _segments(text(call.get("name")) or "", tool_names(), len(arguments))
        ids = _ids(text(call.get("id")) or "", len(arguments))
        for i, one in enumerate(arguments):
            name = names[i] if names else None
            yield {**call, "arguments": one, "name": name, "id": ids[i] if ids else None}


def declared_names(attributes: Mapping[str, Any]) -> set[str]:
    """Return the names of the tools that OpenInference's attributes of a model call declare."""
    listed = [
        json_object(item.get("tool.json_schema") or item.get("json_schema"))
        for item in numbered(attributes, "llm.tools.")
    ]
    listed += objects(parse_json(json_object(attributes.get("llm.invocation_parameters")).get("tools")))
    functions = (json_object(tool.get("function")) or tool for tool in listed)
    return {name for function in functions if (name := text(function.get("name")))}


def _joined_objects(value: Any) -> list[str]:
    """Return the JSON texts of several objects that follow one another; none if it is not that."""
    if not isinstance(value, str) or "}{" not in value.replace("} {", "}{"):
        return []
    found: list[str] = []
    at = 0
    try:
        while at < len(value) and len(found) < _MOST:
            _, end = _DECODER.raw_decode(value, at)
            found.append(value[at:end])
            at = end + len(value[end:]) - len(value[end:].lstrip())
    except (json.JSONDecodeError, RecursionError):
        return []
    return found if at >= len(value) else []


def _segments(joined: str, names: Collection[str], number: int) -> list[str] | None:
    """Return the names that a text is made of, if it is made of that number in one way only."""
    if len(joined) > _LONGEST:
        return None
    # By the length of what is read and the number of names in it, two ways at most.
    ways: dict[tuple[int, int], list[list[str]]] = {(0, 0): [[]]}
    for end in range(1, len(joined) + 1):
        for name in filter(lambda name: joined.endswith(name, 0, end), names):
            for used in range(number):
                for way in ways.get((end - len(name), used), ()):
                    ways.setdefault((end, used + 1), []).append([*way, name])
        for used in range(1, number):
            del ways.get((end, used), [])[2:]
    found = ways.get((len(joined), number), [])
    return found[0] if len(found) == 1 else None


def _ids(joined: str, number: int) -> list[str] | None:
    """Return the ids that a text is made of: all begin alike (`call_`)."""
    prefix = joined[: joined.find("_") + 1] or joined[: joined.find("-") + 1]
    parts = joined.split(prefix)[1:] if prefix else []
    return [prefix + part for part in parts] if len(parts) == number else None
