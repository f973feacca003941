"""What of an agent's content goes into its spans, and how a value becomes JSON there.

Nothing here raises, whatever it is given: it runs inside other people's agents.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import logging
import math
import os
from collections.abc import Iterator, Mapping, Set
from enum import Enum
from typing import Any

from spangrade.tracer.canonical_json import dumps, encodable
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE

_log = logging.getLogger("spangrade")

# The variable was a truth value first, then told spans from events; both ways are in use. What we
# record is on spans, so "event_only" is off.
_ON = frozenset({"true", "1", "span_only", "span_and_event"})
_OFF = frozenset({"false", "0", "no_content", "event_only"})
_MAX_DEPTH = 64
_MAX_PARTS = 250_000  # 0.2 s; objects that refer to each other back and forth would have no end

_override: bool | None = None
_warned_of: str | None = None


def set_content_capture(capture: bool | None) -> None:
    """Capture content or do not, whatever the environment says; None leaves it to the environment."""
    global _override
    _override = capture


def content_captured() -> bool:
    """Whether messages, arguments, results and state go into spans: yes, unless it was switched off.

    A value of the variable that nobody knows switches it off: it was set by someone who cares.
    """
    global _warned_of
    if _override is not None:
        return _override
    setting = os.environ.get(CAPTURE_CONTENT_VARIABLE, "").strip().lower()
    if not setting or setting in _ON:
        return True
    if setting not in _OFF and setting != _warned_of:
        _warned_of = setting
        _log.warning(
            "%s is %r: no content is recorded; use one of %s",
            CAPTURE_CONTENT_VARIABLE,
            setting,
            ", ".join(sorted(_ON | _OFF)),
        )
    return False


def json_value(value: object) -> Any:
    """`value` made of JSON's own types, all the way down.

    Tuples and sets become lists, bytes base64 text, NaN and the infinities text, keys text; dataclasses
    and pydantic models objects, an Enum its value; whatever else becomes `str(value)`. What refuses that,
    what is inside itself or deeper than 64 levels, and a value of more than 250,000 parts, becomes the
    name of its type.
    """
    try:
        return _plain(value, (), itertools.count(1))
    except _TooLargeError:
        return f"<{type(value).__name__}>"


class _TooLargeError(Exception):
    """A value has more parts than are looked at."""


def _plain(value: object, within: tuple[int, ...], parts: Iterator[int]) -> Any:
    if next(parts) > _MAX_PARTS:
        raise _TooLargeError
    try:
        return _converted(value, within, parts)
    except _TooLargeError:
        raise
    except Exception:  # noqa: BLE001 (a stranger's __str__, __iter__, model_dump or proxy)
        return f"<{type(value).__name__}>"


def _converted(value: object, within: tuple[int, ...], parts: Iterator[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, within, parts)
    if isinstance(value, str):
        return encodable(str(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if id(value) in within or len(within) == _MAX_DEPTH:
        return f"<{type(value).__name__}>"
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


def json_text(value: object) -> str:
    """`value` as JSON text, by the rules of `json_value`."""
    return dumps(json_value(value))


def plain_text(value: object) -> str:
    """A text as it is, and anything else as its JSON text: an id that was given as a UUID or a number."""
    plain = json_value(value)
    return plain if isinstance(plain, str) else dumps(plain)
