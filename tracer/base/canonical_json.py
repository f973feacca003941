"""Any value as JSON: the value in JSON's own types, its text, and the one text that equal values share."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import math
import unicodedata
from collections.abc import Iterator, Mapping, Set
from datetime import date, time
from enum import Enum
from typing import Any

import orjson

from spangrade.tracer.base.errors import type_name

_MAX_DEPTH = 100
_MAX_PARTS = 250_000  # 0.2 s; objects that refer to each other back and forth would have no end
_INTEGERS = range(-(2**63), 2**64)  # what orjson writes as a number


def dumps(value: Any, *, indent: bool = False) -> str:
    """Return a value's JSON text; types that JSON lacks are converted as by `json_value`."""
    if not indent:
        try:
            return orjson.dumps(value).decode()  # 1.0 µs for the attributes of a span, 1.5 with what follows
        except TypeError:
            pass
    option = orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, default=json_value, option=option).decode()
    except TypeError:  # half a surrogate pair, an integer beyond 64 bits, or nesting past 254
        return orjson.dumps(json_value(value), option=option).decode()


def canonical(value: Any) -> str:
    """Return the JSON text that equal values share: keys sorted, text in NFC, 1.0 written as 1."""
    try:
        quick = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        value = json_value(value)
    else:
        if b".0" not in quick:  # only a number can be written in two ways, or text that is not in NFC
            text = quick.decode()
            if quick.isascii() or unicodedata.is_normalized("NFC", text):
                return text
    return orjson.dumps(_normalized(value), option=orjson.OPT_SORT_KEYS).decode()


def json_value(value: object) -> Any:
    """Return `value` in JSON's own types, all the way down. Never raises, whatever it is given.

    Tuples and sets become lists, bytes base64 text, dates and times ISO 8601 text, keys text; so do NaN, the
    infinities and integers beyond 64 bits. Dataclasses and pydantic models become objects, an Enum its value,
    anything else `str(value)`. A value whose own code fails, that contains itself, is more than 100 deep
    or has more than 250,000 parts becomes the name of its type.
    """
    try:
        return _plain(value, (), itertools.count(1))
    except _TooLargeError:
        return f"<{type_name(value)}>"


def record_json(value: Any) -> Any:
    """Return named tuples, all the way down, as objects of their fields, and other tuples as lists."""
    if hasattr(value, "_asdict"):
        return {name: record_json(part) for name, part in value._asdict().items()}
    return [record_json(part) for part in value] if isinstance(value, tuple | list) else value


def plain_text(value: object) -> str:
    """Return a text as it is, and anything else as its JSON text: an id may be a UUID or a number."""
    plain = json_value(value)
    return plain if isinstance(plain, str) else dumps(plain)


def encodable(text: str) -> str:
    """Return text that UTF-8 can write: half a surrogate pair becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class _TooLargeError(Exception):
    """A value has too many parts to look at."""


def _plain(value: object, within: tuple[int, ...], parts: Iterator[int]) -> Any:
    if next(parts) > _MAX_PARTS:
        raise _TooLargeError
    try:
        return _converted(value, within, parts)
    except _TooLargeError:
        raise
    except Exception:  # noqa: BLE001 (third-party code: a __str__, __iter__, model_dump or proxy)
        return f"<{type_name(value)}>"


def _converted(value: object, within: tuple[int, ...], parts: Iterator[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, within, parts)
    if isinstance(value, str):
        return encodable(str(value))
    if isinstance(value, int):
        number = int(value)
        return number if number in _INTEGERS else str(number)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, date | time):
        return value.isoformat()
    if id(value) in within or len(within) == _MAX_DEPTH:
        return f"<{type_name(value)}>"
    within = (*within, id(value))
    if isinstance(value, Mapping):
        return {encodable(str(key)): _plain(item, within, parts) for key, item in value.items()}
    if isinstance(value, list | tuple | Set):
        return [_plain(item, within, parts) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: _plain(getattr(value, name), within, parts) for name in names}
    if not isinstance(value, type) and callable(dump := getattr(value, "model_dump", None)):
        return _plain(dump(), within, parts)
    return encodable(str(value))


def _normalized(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", encodable(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {_normalized(str(key)): _normalized(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_normalized(item) for item in value]
    return value
