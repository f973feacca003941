"""Rules on a session's calls, as people write them: which tools, how often, and in what order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from spangrade.tracer.lookalike_letters import plain_form

FailedCalls = Literal["ignore"]

_NAME = {"type": "string"}
_NAMES = {"type": "array", "items": _NAME, "minItems": 1}
_FAILED = {"const": "ignore"}
_NULL = {"type": "null"}


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Tools that must not be called; a call that failed is one, unless `failed_calls` is "ignore"."""

    tools: tuple[str, ...]
    failed_calls: FailedCalls | None = None


@dataclass(frozen=True, slots=True)
class AtMost:
    """A tool that may be called at most this number of times."""

    tool: str
    calls: int


@dataclass(frozen=True, slots=True)
class Before:
    """A call of `then` needs one of `first` that ended before it began and did not fail.

    Both have equal values of the arguments named in `same`. One call of `first` serves any number of `then`.
    """

    first: str
    then: str
    same: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The rule in words."""
        same = f" with the same {', '.join(self.same)}" if self.same else ""
        return f"{self.first} before {self.then}{same}"


def _refuse(expected: str, found: Any) -> PydanticCustomError:
    return PydanticCustomError("rule", "expected {expected}, found {found}", _context(expected, found))


def _context(expected: str, found: Any) -> dict[str, Any]:
    kinds = {bool: "true or false", str: "a string", int: "a number", float: "a number", dict: "an object"}
    return {"expected": expected, "found": "null" if found is None else kinds.get(type(found), "a list")}


def _names(value: Any, expected: str) -> tuple[str, ...]:
    """Return a list of names. Raises for anything else, and for an empty list."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise _refuse(expected, value)
    if not value:
        raise PydanticCustomError("too_few", "must not be empty")
    return tuple(map(not_blank, value))


def not_blank(text: str) -> str:
    """Return a text. Raises for one that a reader would not see: every text has it in it."""
    if not plain_form(text).strip():
        raise PydanticCustomError("blank", "must not be empty, nor blank")
    return text


def _object(value: Mapping[str, Any], keys: tuple[str, ...]) -> Mapping[str, Any]:
    for key in value:
        if key not in keys:
            text = 'unknown key "{key}"; the keys here are {known}'
            raise PydanticCustomError("wrong_key", text, {"key": key, "known": ", ".join(keys)})
    return value


def _forbidden(value: Any) -> Forbidden | None:
    if value is None or isinstance(value, Forbidden):
        return value
    if not isinstance(value, dict):
        return Forbidden(_names(value, "a list of strings"))
    value = _object(value, ("tools", "failed_calls"))
    failed = value.get("failed_calls")
    if failed not in (None, "ignore"):
        raise PydanticCustomError("rule", 'failed_calls: expected "ignore"')
    return Forbidden(_names(value.get("tools"), "a list of strings in tools"), failed)


def _further(value: Any) -> bool | tuple[str, ...] | None:
    if value is None or isinstance(value, bool):
        return value
    return _names(value, "true or false, or a list of tools")


def _at_most(value: Any) -> tuple[AtMost, ...] | None:
    if value is None or isinstance(value, tuple):
        return value
    expected = "an object of tools, each with the most calls of it"
    if not isinstance(value, dict):
        raise _refuse(expected, value)
    if not value:
        raise PydanticCustomError("too_few", "must not be empty")
    for tool, calls in value.items():
        not_blank(tool)
        if isinstance(calls, bool) or not isinstance(calls, int) or calls < 0:
            text = "{tool}: expected a whole number, 0 or more"
            raise PydanticCustomError("rule", text, {"tool": tool})
    return tuple(AtMost(tool, calls) for tool, calls in value.items())


def _before(value: Any) -> Before:
    if isinstance(value, Before):
        return value
    expected = '["FIRST", "THEN"], or {"first": "FIRST", "then": "THEN", "same": ["ARGUMENT"]}'
    if isinstance(value, dict):
        value = _object(value, ("first", "then", "same"))
        pair, same = [value.get("first"), value.get("then")], value.get("same")
    else:
        pair, same = value, None
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(n, str) for n in pair):
        raise _refuse(expected, value)
    if pair[0] == pair[1]:
        raise PydanticCustomError("rule", "expected two tools, found {tool} twice", {"tool": pair[0]})
    return Before(pair[0], pair[1], () if same is None else _names(same, "a list of strings in same"))


def _written(rule: Forbidden | tuple[AtMost, ...] | Before | None) -> Any:
    """Return a rule as people write it in JSON."""
    if isinstance(rule, Forbidden):
        tools = list(rule.tools)
        return {"tools": tools, "failed_calls": rule.failed_calls} if rule.failed_calls else tools
    if isinstance(rule, Before):
        same = {"same": list(rule.same)} if rule.same else {}
        return {"first": rule.first, "then": rule.then, **same}
    return None if rule is None else {limit.tool: limit.calls for limit in rule}


_AS_WRITTEN = PlainSerializer(_written, when_used="json")


def _schema(*forms: Mapping[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [*forms, _NULL], "default": None})


ForbiddenTools = Annotated[
    Forbidden | None,
    BeforeValidator(_forbidden),
    _AS_WRITTEN,
    _schema(
        _NAMES,
        {
            "type": "object",
            "properties": {"tools": _NAMES, "failed_calls": _FAILED},
            "required": ["tools"],
            "additionalProperties": False,
        },
    ),
]
FurtherCalls = Annotated[
    bool | tuple[str, ...] | None, BeforeValidator(_further), _schema({"type": "boolean"}, _NAMES)
]
MostCalls = Annotated[
    tuple[AtMost, ...] | None,
    BeforeValidator(_at_most),
    _AS_WRITTEN,
    _schema(
        {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}, "minProperties": 1}
    ),
]
CallsBefore = Annotated[
    Before,
    BeforeValidator(_before),
    _AS_WRITTEN,
    WithJsonSchema(
        {
            "anyOf": [
                {**_NAMES, "minItems": 2, "maxItems": 2},
                {
                    "type": "object",
                    "properties": {"first": _NAME, "then": _NAME, "same": _NAMES},
                    "required": ["first", "then"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
