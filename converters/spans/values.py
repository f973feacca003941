"""Values of attributes and of JSON records, whatever form an instrumentation gave them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from spangrade.tracer.base.canonical_json import canonical, json_value
from spangrade.tracer.base.json_text import parse_exact

NO_ARGUMENTS = "{}"
WITHOUT_ARGUMENTS = frozenset({'""', "null", '"null"'})
_CONTAINERS = ("{", "[")
# What stands in place of a value that was taken out: Logfire, Sentry, OpenInference, OpenAI's SDK and others.
_MASK = (
    r"\[scrubbed due to [^\n\]]*\]|__redacted__|redacted-by-\w+|[\[<(](?:(?:content|data|value) )?"
    r"(?:re(?:da|ada)cted|elided|filtered|hidden|masked|omitted|removed|scrubbed)[\]>)]"
)
_REMOVED = re.compile(
    rf"{_MASK}|(?:re(?:da|ada)cted|filtered|masked|removed)[\]>)]|re(?:da|ada)cted|\*{{3,}}", re.IGNORECASE
)
_IN_PLACE = re.compile(rf'{_MASK}|(?<![^"])\*{{3,}}(?![^"\\])', re.IGNORECASE)
_FIRST = frozenset("[<(*_rR")  # of their characters
_MOST_DEPTH = 6  # objects and lists around a removed value
_MOST_REMOVED = 200  # characters
_MOST_PLACEHOLDER = 40  # characters; an id is rarely shorter than a UUID
_PLACEHOLDER = re.compile(
    r"[\s\ufeff]*(?:[<(\[]?(?:none|null|undefined|nan|nil)[>)\]]?|\[object (?:object|undefined|null)\]|"
    r"0{8}-0{4}-0{4}-0{4}-0{12}|0{32})?[\s\ufeff]*",
    re.IGNORECASE,
)
_OF_PLACEHOLDERS = frozenset("nNuU<([0 \t\r\n\v\f\ufeff\xa0")  # their first characters
_OF_NO_ID = _OF_PLACEHOLDERS | _FIRST
_MAX_COUNT = 10**12  # of one call; anything above is not a count, and a million of them still fit in 63 bits


def parse_json(value: Any, loads: Callable[[str], Any] = orjson.loads) -> Any:
    """Return the value of a JSON text, also of one inside JSON; any other value as it is."""
    if isinstance(value, str):
        try:
            parsed = loads(value)
        except json.JSONDecodeError:
            return value
        is_inside = isinstance(parsed, str) and parsed.startswith(_CONTAINERS)
        return parse_json(parsed, loads) if is_inside else parsed
    return value


def exact_json(value: Any) -> Any:
    """Parse JSON as `parse_json` does; integers beyond 64 bits, which it reads as floats, are texts."""
    if not isinstance(value, str):
        return value
    try:
        return json_value(parse_exact(value))
    except json.JSONDecodeError:
        return value


def json_object(value: Any) -> dict[str, Any]:
    """Return a JSON object, or the one that a JSON text holds; an empty one for every other value."""
    document = parse_json(value)
    return document if isinstance(document, dict) else {}


def json_text(value: Any) -> str | None:
    """Return a value, or the value of a JSON text, as canonical JSON text; None for None and a removed value.

    One is removed if all that it holds is, whatever was wrapped around that. Integers beyond 64 bits, of
    which `orjson` makes floats, become texts.
    """
    if value is None or _is_gone(parsed := parse_json(value)):
        return None
    written = canonical(parsed)
    return canonical(parse_json(value, parse_exact)) if "e+" in written else written  # 1e+25


def arguments_text(value: Any) -> str | None:
    """Return a call's arguments as `json_text` does; `{}` for an empty text and for the text null.

    None stands for what is not recorded. docs/reading.md has the table.
    """
    written = json_text(value)
    return NO_ARGUMENTS if written in WITHOUT_ARGUMENTS else written


def arguments_in(record: Mapping[str, Any], keys: Iterable[str] = ("arguments",)) -> str | None:
    """Return the arguments of a call that a record has under one of the keys; `{}` where that is null.

    None if it has none of the keys.
    """
    given = first_of(record, keys)
    return NO_ARGUMENTS if given is None and not record.keys().isdisjoint(keys) else arguments_text(given)


def is_removed(value: str) -> bool:
    """Return whether a text says that the value was taken out (`[REDACTED]`): the value is unknown."""
    return (
        value[:1] in _FIRST and len(value) <= _MOST_REMOVED and _REMOVED.fullmatch(value.strip()) is not None
    )


def without_removed(value: Any) -> Any:
    """Return a JSON value with null for each text in it that was removed."""
    if isinstance(value, str):
        return None if is_removed(value) else value
    if isinstance(value, dict):
        return {key: without_removed(one) for key, one in value.items()}
    return list(map(without_removed, value)) if isinstance(value, list) else value


def _is_gone(value: Any, depth: int = _MOST_DEPTH) -> bool | None:
    """Return whether a value, or all that is in it, was removed; None if nothing is in it."""
    if isinstance(value, dict):
        held = [one for key, one in value.items() if key != "type"] if "type" in value else value.values()
    elif isinstance(value, list):
        held = value
    elif isinstance(value, str):
        return value[:1] in _FIRST and is_removed(value)
    else:
        return None if value is None else False
    gone = None
    for one in held:
        if isinstance(one, str) and one[:1] not in _FIRST:  # as nearly all values begin
            return False
        known = _is_gone(one, depth - 1) if depth else False
        if known is False:
            return False
        gone = known or gone
    return gone


def mask_in(values: Iterable[Any]) -> str | None:
    """Return what stands in values in place of one that was removed; None if nothing does."""
    for value in values:
        if isinstance(value, str) and (found := _IN_PLACE.search(value)):
            return found[0]
    return None


def text(value: Any) -> str | None:
    """Return a value that is a non-empty string and was not removed, else None."""
    if not isinstance(value, str) or not value:
        return None
    return None if value[0] in _FIRST and is_removed(value) else value


def first_text(values: Iterable[Any]) -> str | None:
    """Return the first value that is a non-empty string; None if none is."""
    for value in values:
        if known := text(value):
            return known
    return None


def identity(value: Any) -> str | None:
    """Return a value that is an id, a number as its text; None for what programs write where there is none.

    Such placeholders name nothing in any language (`None`, `null`, `undefined`, `NaN`, `nil`), are what
    formatting makes of them (`<nil>`, `[object Object]`), blanks, or zeros as long as a UUID or a trace's id.
    `0` and `default` are ids.
    """
    if isinstance(value, str):
        if value and value[0] not in _OF_NO_ID:
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    known = text(value)
    if known is None or known[0] not in _OF_PLACEHOLDERS or len(known) > _MOST_PLACEHOLDER:
        return known
    return None if _PLACEHOLDER.fullmatch(known) else known


def first_identity(values: Iterable[Any]) -> str | None:
    """Return the first value that is an id, as `identity` does; None if none is."""
    return next((known for value in values if (known := identity(value))), None)


def texts(value: Any) -> list[str]:
    """Return the strings in a list; none for every other value."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the JSON objects in a list; none for every other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def literal(source: str | ast.expr) -> Any:
    """Return the value of a literal in Python's syntax, in JSON's own types; None if it is not one."""
    try:
        return json_value(ast.literal_eval(source))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def count(value: Any) -> int | None:
    """Return a value that is a count (an OTLP/JSON integer may be a string) up to 10^12, else None."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= _MAX_COUNT else None


def known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def first_of(record: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the value of the first of the keys that has one in a record; None if none has."""
    for key in keys:
        if (value := record.get(key)) is not None:
            return value
    return None


def either(record: Any, name: str) -> Any:
    """Return a record's value under a snake_case name or its camelCase form; None if it has neither."""
    if not isinstance(record, dict):
        return None
    value = record.get(name)
    first, *rest = name.split("_")
    return record.get(first + "".join(map(str.title, rest))) if value is None else value
