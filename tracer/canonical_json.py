"""JSON text in one spelling, so that what is equal is equal as text."""

from __future__ import annotations

import unicodedata
from typing import Any

import orjson


def dumps(value: Any) -> str:
    """Return a value's JSON text; what JSON has no word for (a lone surrogate, an object) becomes text."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # a lone surrogate, an integer beyond 64 bits, or nesting past 254
        return orjson.dumps(_plain(value, depth=100), option=orjson.OPT_NON_STR_KEYS).decode()


def canonical(value: Any) -> str:
    """Return the JSON text that equal values share: keys sorted, text in NFC, 1.0 written as 1."""
    try:
        quick = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        value = _plain(value, depth=100)
    else:
        if b".0" not in quick and quick.isascii():  # nothing to normalise, four times in five
            return quick.decode()
    return orjson.dumps(_canonical(value), option=orjson.OPT_SORT_KEYS).decode()


def _canonical(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", encodable(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {_canonical(str(key)): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, bool | float | None):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, dict) and depth:
        return {encodable(str(key)): _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth:
        return [_plain(item, depth - 1) for item in value]
    return encodable(str(value))


def encodable(text: str) -> str:
    """Return text that UTF-8 can write: what is half a surrogate pair becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
