"""Check values by JSON schemas that recordings have: of any draft, in Gemini's form, and not trusted.

Patterns are searched with a time limit, references lead nowhere outside a schema, and a schema that cannot be
checked decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from spangrade.evaluator.metrics.patterns import matches_pattern
from spangrade.evaluator.metrics.shown import path_text

MAX_REFERENCES = 1_000  # followed for one value: a few that name each other twice would take forever
_VALUES = frozenset({"const", "default", "enum", "example", "examples"})
_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "properties"})
_COUNTS = frozenset(f"{end}{what}" for end in ("min", "max") for what in ("Items", "Length", "Properties"))
_LONGEST = 160  # characters of a message

_references: ContextVar[list[str]] = ContextVar("_references")


class UndecidedError(Exception):
    """Raised if a schema cannot tell whether a value conforms to it; the text says why."""


def violation(schema: str, value: Any) -> tuple[str, str] | None:
    """Return the path at which a value does not conform to a schema in JSON, and why; None if it conforms.

    Raises UndecidedError for what is not a schema, for one that refers to another document, and for a pattern
    whose search takes longer than a second.
    """
    _references.set([])
    try:
        error = best_match(_validator(schema).iter_errors(value))
    except (SchemaError, Unresolvable, RecursionError) as reason:
        raise UndecidedError("its declared schema cannot be checked") from reason
    if error is None:
        return None
    text = error.message
    return path_text(tuple(error.absolute_path)), text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@lru_cache(maxsize=512)  # the calls of an agent's tools are checked by the same few
def _validator(text: str) -> Any:
    """Return the validator of a schema in JSON."""
    schema = _standard(orjson.loads(text))
    made = _class_for(validator_for(schema, default=Draft202012Validator))
    made.check_schema(schema)
    return made(schema, registry=Registry())


@cache
def _class_for(base: Any) -> Any:
    follow = base.VALIDATORS["$ref"]

    def reference(validator: Any, target: str, value: Any, schema: Any) -> Iterator[ValidationError]:
        followed = _references.get()
        followed.append(target)
        if len(followed) > MAX_REFERENCES:
            raise UndecidedError("its declared schema refers to itself without end")
        yield from follow(validator, target, value, schema)

    return extend(  # type: ignore[no-untyped-call]
        base, {"$ref": reference, "pattern": _pattern, "patternProperties": _named_by_patterns}
    )


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    if validator.is_type(value, "string") and not _matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _matches(pattern: str, text: str) -> bool:
    try:
        found = matches_pattern(pattern, text)
    except (re.error, OverflowError) as error:
        raise UndecidedError("a pattern of its declared schema is not one of Python") from error
    if found is None:
        raise UndecidedError("a pattern of its declared schema takes longer than a second")
    return found


def _named_by_patterns(*_: Any) -> Iterator[ValidationError]:
    """Refuse keys named by patterns: the library searches them without a limit."""
    raise UndecidedError("its declared schema names keys by patterns")


def _standard(schema: Any) -> Any:
    """Return a schema without what only Gemini's form has: types in capitals, `nullable`, counts as text."""
    if isinstance(schema, list):
        return list(map(_standard, schema))
    if not isinstance(schema, dict):
        return schema
    made = {key: _part(key, value) for key, value in schema.items()}
    kind = made.get("type")
    if isinstance(kind, str) and kind.isupper():
        made["type"] = kind.lower()
        if kind == "TYPE_UNSPECIFIED":
            del made["type"]
    for key in _COUNTS & made.keys():
        if isinstance(made[key], str) and made[key].isdecimal():
            made[key] = int(made[key])
    if made.get("nullable") is True:
        del made["nullable"]
        return {"anyOf": [made, {"type": "null"}]}
    return made


def _part(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, dict):  # its keys are names, not words of the schema
        return {name: _standard(one) for name, one in value.items()}
    return value if key in _VALUES else _standard(value)
