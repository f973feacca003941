"""Expected arguments that refer to a value of the user's texts or of an earlier result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.datasets.forms import LITERAL, USER, word_of
from spangrade.evaluator.metrics.matching import AnyOf, is_reference, reference_of
from spangrade.evaluator.session import ToolInteraction

ANY_ITEM = "*"  # in a path: any element of a list


def refers(expected: Any) -> bool:
    """Return whether an expected value is a reference or has one in it."""
    return is_reference(expected) or any(map(refers, _parts(expected)))


def _parts(expected: Any) -> Iterable[Any]:
    """Return the values in an expected value that may be references, or have one in them."""
    if isinstance(expected, dict):
        return () if word_of(expected) == LITERAL else expected.values()
    return expected if isinstance(expected, list) else ()


def resolved(expected: Any, user_values: Mapping[str, str], earlier: Sequence[ToolInteraction]) -> Any:
    """Return an expected value with each reference in it replaced by the values that it accepts.

    `{"$user": NAME}` is the text of the user that has this name, `{"$result": "TOOL#/PATH"}` the value at a
    path of the result of any of the `earlier` calls of a tool.
    """
    if is_reference(expected):
        kind, name = reference_of(expected)
        if kind == USER:
            return AnyOf((user_values[name],), text=True) if name in user_values else AnyOf(())
        tool, _, path = name.partition("#")
        results = [call.output for call in earlier if call.tool_name == tool and call.output_known]
        return AnyOf(tuple(value for result in results for value in values_at(result, path)))
    if isinstance(expected, dict) and word_of(expected) != LITERAL:
        return {key: resolved(value, user_values, earlier) for key, value in expected.items()}
    if isinstance(expected, list):
        return [resolved(item, user_values, earlier) for item in expected]
    return expected


def result_tools(expected: Any) -> Iterator[str]:
    """Yield the tools to whose results an expected value refers."""
    if is_reference(expected):
        kind, name = reference_of(expected)
        if kind != USER:
            yield name.partition("#")[0]
    for item in _parts(expected):
        yield from result_tools(item)


def lacks_result(call: ToolInteraction) -> bool:
    """Return whether a call may have had a result that is not recorded."""
    return not call.output_known and call.ok is not False and call.ran


def values_at(value: Any, path: str) -> Iterator[Any]:
    """Yield the values at a path such as `/items/0/sku` (a JSON Pointer); `*` is any element of a list."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    values = [value]
    for part in parts:
        values = [item for each in values for item in _items(each, part)]
    yield from values


def _items(value: Any, part: str) -> Sequence[Any]:
    if isinstance(value, dict):
        return (value[part],) if part in value else ()
    if isinstance(value, list):
        if part == ANY_ITEM:
            return value
        if part.isdecimal() and int(part) < len(value):
            return (value[int(part)],)
    return ()
