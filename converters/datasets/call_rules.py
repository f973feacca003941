"""Rules on a session's calls, as people write them: which tools, how often, and in what order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from spangrade.tracer.base.lookalike_letters import plain_form

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

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it names."""
        return (self.tool,)


@dataclass(frozen=True, slots=True)
class CallOrder:
    """Two tools in an order, with equal values of the arguments named in `same`.

    `before`: a call of `then` needs one of `first` that ended before it began and did not fail, and whose
    result has the values of the arguments named in `from_result`; one serves any number of `then`.
    `never_after`: no call of `then` comes after one of `first`. `followed_by`: one comes after each.
    """

    first: str
    then: str
    same: tuple[str, ...] = ()
    from_result: tuple[str, ...] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it names."""
        return self.first, self.then

    @property
    def shared(self) -> str:
        """The values that both calls have, in words; empty without any."""
        same = f" with the same {', '.join(self.same)}" if self.same else ""
        return same + (f" with {', '.join(self.from_result)} of its result" if self.from_result else "")


@dataclass(frozen=True, slots=True)
class Told:
    """A value of a tool's result, at the path `value` (`"order.status"`), that a later reply has in it."""

    tool: str
    value: str

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it names."""
        return (self.tool,)


CallRule = Forbidden | AtMost | CallOrder | Told


def kind_of(value: Any) -> str:
    """Return what a JSON value is, for a message: `null`, `true`, `a string`."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    names = {int: "a number", float: "a number", str: "a string", dict: "an object"}
    return names.get(type(value), "a list")


def _refuse(expected: str, found: Any) -> PydanticCustomError:
    context = {"expected": expected, "found": kind_of(found)}
    return PydanticCustomError("rule", "expected {expected}, found {found}", context)


def _names(value: Any, expected: str) -> tuple[str, ...]:
    """Return a list of names. Raises for anything else, and for an empty list."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise _refuse(expected, value)
    if not value:
        raise PydanticCustomError("too_few", "must not be empty")
    return tuple(map(not_blank, value))


def _tools(value: Any, expected: str) -> tuple[str, ...]:
    """Return a list of tools, as `_names` does."""
    return tuple(map(str.strip, _names(value, expected)))


def _name(text: str) -> str:
    """Return the name of a tool. Raises for one that a reader would not see."""
    return not_blank(text).strip()


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
        return Forbidden(_tools(value, "a list of strings"))
    value = _object(value, ("tools", "failed_calls"))
    failed = value.get("failed_calls")
    if failed not in (None, "ignore"):
        raise PydanticCustomError("rule", 'failed_calls: expected "ignore"')
    return Forbidden(_tools(value.get("tools"), "a list of strings in tools"), failed)


def _further(value: Any) -> bool | tuple[str, ...] | None:
    if value is None or isinstance(value, bool):
        return value
    return _tools(value, "true or false, or a list of tools")


def _at_most(value: Any) -> tuple[AtMost, ...] | None:
    if value is None or isinstance(value, tuple):
        return value
    expected = "an object of tools, each with the most calls of it"
    if not isinstance(value, dict):
        raise _refuse(expected, value)
    if not value:
        raise PydanticCustomError("too_few", "must not be empty")
    for tool, calls in value.items():
        if isinstance(calls, bool) or not isinstance(calls, int) or calls < 0:
            text = "{tool}: expected a whole number, 0 or more"
            raise PydanticCustomError("rule", text, {"tool": tool})
    limits = {_name(tool): calls for tool, calls in value.items()}
    if len(limits) < len(value):
        raise PydanticCustomError("rule", "expected each tool once")
    return tuple(AtMost(tool, calls) for tool, calls in limits.items())


def _order(*lists: str) -> Callable[[Any], CallOrder]:
    """Return a reader of two tools in an order, which may have lists of arguments beside them."""

    def read(value: Any) -> CallOrder:
        if isinstance(value, CallOrder):
            return value
        first, then, more = _two_tools(value, lists)
        return CallOrder(first, then, **more)

    return read


def _two_tools(value: Any, lists: tuple[str, ...]) -> tuple[str, str, dict[str, tuple[str, ...]]]:
    """Return two tools, given as a pair or an object, and the lists of names beside them."""
    more: dict[str, tuple[str, ...]] = {}
    if isinstance(value, dict):
        value = _object(value, ("first", "then", *lists))
        pair = [value.get("first"), value.get("then")]
        more = {key: _names(value[key], f"a list of strings in {key}") for key in lists if key in value}
    else:
        pair = value
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(n, str) for n in pair):
        names = ", ".join(f'"{key}": ["ARGUMENT"]' for key in lists)
        raise _refuse(f'["FIRST", "THEN"], or {{"first": "FIRST", "then": "THEN", {names}}}', value)
    first, then = map(_name, pair)
    if first == then:
        raise PydanticCustomError("rule", "expected two tools, found {tool} twice", {"tool": first})
    return first, then, more


def _told(value: Any) -> Told:
    if isinstance(value, Told):
        return value
    if not isinstance(value, dict):
        raise _refuse('{"tool": "TOOL", "value": "PATH"}', value)
    value = _object(value, ("tool", "value"))
    tool, path = value.get("tool"), value.get("value")
    if not isinstance(tool, str) or not isinstance(path, str):
        raise _refuse('{"tool": "TOOL", "value": "PATH"}', None)
    return Told(_name(tool), not_blank(path))


def _written(rule: CallRule | tuple[AtMost, ...] | None) -> Any:
    """Return a rule as people write it in JSON."""
    if rule is None:
        return None
    if isinstance(rule, tuple):
        return {limit.tool: limit.calls for limit in rule}
    given = {key: value for key in rule.__slots__ if (value := getattr(rule, key))}
    return given["tools"] if given.keys() == {"tools"} else given


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


def _orders(*lists: str) -> tuple[Any, ...]:
    """Return how orders of two tools are read and written, with lists of arguments that they may have."""
    named = {
        "type": "object",
        "properties": {"first": _NAME, "then": _NAME, **dict.fromkeys(lists, _NAMES)},
        "required": ["first", "then"],
        "additionalProperties": False,
    }
    schema = WithJsonSchema({"anyOf": [{**_NAMES, "minItems": 2, "maxItems": 2}, named]})
    return BeforeValidator(_order(*lists)), _AS_WRITTEN, schema


def _some(value: Any) -> Any:
    """Return a list as a tuple: settings are read strictly. Raises for an empty one."""
    if value in ([], ()):
        raise PydanticCustomError("too_few", "must not be empty")
    return tuple(value) if isinstance(value, list) else value


_SOME = BeforeValidator(_some), Field(json_schema_extra={"minItems": 1})
CallsBefore = Annotated[tuple[Annotated[CallOrder, *_orders("same", "from_result")], ...], *_SOME] | None
CallsInOrder = Annotated[tuple[Annotated[CallOrder, *_orders("same")], ...], *_SOME] | None
_TOLD_SCHEMA = {
    "type": "object",
    "properties": {"tool": _NAME, "value": _NAME},
    "required": ["tool", "value"],
    "additionalProperties": False,
}
ToldValues = (
    Annotated[
        tuple[Annotated[Told, BeforeValidator(_told), _AS_WRITTEN, WithJsonSchema(_TOLD_SCHEMA)], ...], *_SOME
    ]
    | None
)
KINDS = ("forbidden_tools", "at_most", "before", "never_after", "followed_by", "reply_has")


def asked_by(one: object) -> dict[str, tuple[CallRule, ...]]:
    """Return what a rule, or the references of a question, ask of the calls of a session, by kind."""
    given = ((kind, getattr(one, kind)) for kind in KINDS)
    return {kind: value if isinstance(value, tuple) else (value,) for kind, value in given if value}


def _rule_name(text: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,80}", text):
        raise ValueError(f"expected letters, digits and . _ -, at most 80, found {text!r}")
    return text


class Rule(BaseModel):
    """A rule on the calls of any session, by its name; a `draft` is not a gate.

    It asks for what a question may ask for: `forbidden_tools`, `at_most`, `before`, `never_after`,
    `followed_by` and `reply_has`, with `failed_calls`. The rest says how it was learned: the number of
    sessions that it concerned, those that broke it, and the estimated share of good sessions that it fails.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_rule_name)]
    draft: bool = False
    forbidden_tools: ForbiddenTools = None
    at_most: MostCalls = None
    before: CallsBefore = None
    never_after: CallsInOrder = None
    followed_by: CallsInOrder = None
    reply_has: ToldValues = None
    failed_calls: FailedCalls | None = None
    support: int | None = None
    violators: int | None = None
    false_alarms: float | None = None

    @property
    def digest(self) -> str:
        """A digest of the rule's fields."""
        return sha256(repr((asked_by(self), self.failed_calls)).encode()).hexdigest()

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if not asked_by(self):
            raise ValueError(f"the rule {self.name} asks for nothing; expected one of {', '.join(KINDS)}")
        return self
