"""Arguments of functions as JSON: a record is its class with its fields, `{"$": "MODULE:Class", ...}`.

What a row leaves out of a record is as the class has it, else unknown, zero or empty, as its type allows.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
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
# What stands for a field without a default that a row leaves out.
BLANK: Mapping[str, Any] = {
    "str": "", "int": 0, "float": 0.0, "bool": False, "tuple": (), "frozenset": frozenset()
}  # fmt: skip
MOST = 2000  # items of what has no end


def named(name: str) -> Any:
    """Return what a module has under a name, `MODULE:Name.inner`."""
    module, _, inner = name.partition(":")
    found: Any = importlib.import_module(f"spangrade.{module}")
    for part in inner.split("."):
        found = getattr(found, part)
    return found


@functools.cache
def blanks_of(name: str) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return what stands for the fields of a record without a default, and which fields are tuples."""
    cls = named(name)
    types = {key: getattr(one, "__forward_arg__", str(one)) for key, one in _annotations(cls).items()}
    types = {key: re.sub(r"^Annotated\[|, _?[A-Z]\w*(\(.*)?\]?$", "", one) for key, one in types.items()}
    defaults = getattr(cls, "_field_defaults", None)
    if defaults is None:
        unset = (MISSING, MISSING)
        own = fields(cls) if is_dataclass(cls) else ()
        required = {one.name for one in own if one.init and (one.default, one.default_factory) == unset}
    else:
        required = types.keys() - defaults.keys()
    blanks: dict[str, Any] = {key: None for key in required if "None" in types[key]}
    for key in required - blanks.keys():
        found = re.match(r"\w+", types[key])
        if found and found[0] in BLANK:
            blanks[key] = BLANK[found[0]]
        elif first := re.match(r"""Literal\[["'](.*?)["']""", types[key]):
            blanks[key] = first[1]
    return blanks, frozenset(key for key, one in types.items() if one.startswith("tuple["))


def _annotations(cls: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in reversed(getattr(cls, "__mro__", ())):
        found |= vars(one).get("__annotations__", {})
    return found


def function_named(name: str) -> Callable[..., Any]:
    """Return a function or method, of a property the one that computes it."""
    found = named(name)
    if isinstance(found, property | functools.cached_property):
        return found.fget if isinstance(found, property) else found.func  # type: ignore[return-value]
    return found  # type: ignore[no-any-return]


def decoded(value: Any) -> Any:
    """Return an argument."""
    if isinstance(value, list):
        return [decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        blanks, tuples = blanks_of(value["$"])
        given = {key: decoded(one) for key, one in value.items() if key != "$"}
        given |= {key: tuple(given[key]) for key in tuples & given.keys() if isinstance(given[key], list)}
        return named(value["$"])(**{**blanks, **given})
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
