"""Arguments of functions as JSON: a record is its class with its fields, `{"$": "MODULE:Class", ...}`."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from cases import as_json
from pydantic import BaseModel

from spangrade import SpangradeError

# What JSON does not have, by the key under which it is written.
DECODED: Mapping[str, Callable[[Any], Any]] = {
    "$tuple": lambda items: tuple(map(decoded, items)),
    "$set": lambda items: frozenset(map(decoded, items)),
    "$items": lambda pairs: {decoded(key): decoded(value) for key, value in pairs},
    "$float": float,
    "$bytes": lambda text: text.encode("latin-1"),
    "$time": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$s": lambda seconds: timedelta(seconds=seconds),
    "$name": lambda name: named(name),
    "$enum": lambda pair: named(pair[0])(decoded(pair[1])),
    "$model": lambda pair: named(pair[0]).model_validate(pair[1]),
}
MOST = 2000  # items of what has no end


def named(name: str) -> Any:
    """Return what a module has under a name, `MODULE:Name.inner`."""
    module, _, inner = name.partition(":")
    found: Any = importlib.import_module(f"spangrade.{module}")
    for part in inner.split("."):
        found = getattr(found, part)
    return found


def decoded(value: Any) -> Any:
    """Return an argument."""
    if isinstance(value, list):
        return [decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        return named(value["$"])(**{key: decoded(one) for key, one in value.items() if key != "$"})
    for key, decode in DECODED.items():
        if key in value:
            return decode(value[key])
    return {key: decoded(one) for key, one in value.items()}


def outcome(function: Callable[..., Any], arguments: list[Any]) -> Any:
    """Return what a function returns as JSON, or what it raises: of our own errors the text, too."""
    positional, named_ones = [*arguments, {}][:2]
    try:
        made = function(*map(decoded, positional), **{key: decoded(one) for key, one in named_ones.items()})
        return plain(made)
    except SpangradeError as error:
        return {"raises": type(error).__name__, "says": str(error)}
    except Exception as error:  # noqa: BLE001 (which one is what is compared)
        return {"raises": type(error).__name__}


def plain(value: Any) -> Any:
    """Return a value as JSON, with nine digits of a fraction: libraries of numbers differ beyond."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    value = value if isinstance(value, Iterator) else as_json(value)
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if hasattr(value, "__iter__") and not isinstance(value, type):
        return [plain(one) for one in itertools.islice(value, MOST)]
    return str(value)
