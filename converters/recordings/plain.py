"""Values of other formats in the form of stored spans: ids, times, codes. Each raises MalformedError."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from typing import Any
from uuid import UUID

from spangrade.converters.spans.values import first_text, parse_json
from spangrade.tracer.base.canonical_json import encodable
from spangrade.tracer.otlp.common import (
    INT64,
    KINDS,
    NESTING,
    STATUSES,
    MalformedError,
    checked_time,
    not_finite,
)
from spangrade.tracer.span import Attributes, Span

_HEX = frozenset("0123456789abcdefABCDEF")
_UNITS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3))  # below the bound, this many nanoseconds
_KINDS: dict[Any, str] = {None: KINDS[0], "": KINDS[0], "UNSPECIFIED": KINDS[0]}
_NO_ERROR = (None, False, "", "false")
_FLAGS = (True, False, "true", "false")  # of the tag `error`, which has a failure's message elsewhere


_KINDS |= dict(enumerate(KINDS)) | {name: name for name in KINDS}
_LONGEST = 1 << 22  # characters of a Python value: reading them takes 20 times as much memory
# A text or a closing bracket, and whether the next item follows without a comma, as NumPy writes arrays.
_TEXT_OR_BRACKET = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[}\])])(?=(\s+[{\['"(])?)""", re.DOTALL
)
_WRAPPERS = frozenset({"array", "Timestamp", "Decimal", "UUID"})
_STATUSES: dict[Any, str] = {None: STATUSES[0], "": STATUSES[0]}
_STATUSES |= dict(enumerate(STATUSES)) | {name: name for name in STATUSES}


def trace_id(value: Any) -> str:
    """Return a trace's id: hexadecimal digits, padded to 32; a UUID's; or else the digest of a text."""
    return _id(value, 32, "trace id")


def span_id(value: Any) -> str:
    """Return a span's id: hexadecimal digits, padded to 16; or else the digest of a text."""
    return _id(value, 16, "span id")


def optional_span_id(value: Any) -> str | None:
    """Return a span's id as `span_id` does; None for none, an empty text and zeros."""
    if value is None or value == 0 or (isinstance(value, str) and not value.strip("0")):
        return None
    return span_id(value)


def _id(value: Any, digits: int, what: str) -> str:
    if type(value) is int and 0 < value < 1 << 4 * digits:
        return f"{value:0{digits}x}"
    if not isinstance(value, str) or not value.strip("0"):
        raise MalformedError(f"no {what}; expected a text or an integer that is not zero")
    if len(value) <= digits and _HEX.issuperset(value):
        return value.lower().zfill(digits)
    if digits == 32 and len(value) == 36:
        try:
            return UUID(value).hex
        except ValueError:
            pass
    return sha256(encodable(value).encode()).hexdigest()[:digits]


def time_ns(value: Any, what: str) -> int:
    """Return a time in nanoseconds since 1970.

    A text is ISO 8601, in UTC unless it names a zone. A number's unit follows from its size: seconds,
    milliseconds, microseconds or nanoseconds of the years 1973 to 5138.
    """
    if isinstance(value, str):
        return _iso_ns(value, what)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        raise MalformedError(f"{what}: expected a time since 1970")
    return scaled_ns(value, next((factor for bound, factor in _UNITS if value < bound), 1), what)


def scaled_ns(value: Any, factor: int, what: str) -> int:
    """Return a number, which may be a text, as nanoseconds; its unit is `factor` nanoseconds."""
    if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        raise MalformedError(f"{what}: expected a number of 64 bits, not below zero")
    whole = int(value)
    return checked_time(whole * factor + round((value - whole) * factor), what)


def _iso_ns(text: str, what: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise MalformedError(f"{what}: expected a time in ISO 8601") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return checked_time(microseconds * 1000 + _beyond_microseconds(text), what)


def _beyond_microseconds(text: str) -> int:
    """Return the nanoseconds in the digits of a time that `datetime` leaves out."""
    _, point, fraction = text.partition(".")
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))] if point else ""
    return int(digits[6:9].ljust(3, "0")) if len(digits) > 6 else 0


def kind(value: Any) -> str:
    """Return a span's kind by its number or its name, with or without `SPAN_KIND_`."""
    return _code(_KINDS, value, "SPAN_KIND_", "kind")


def status(value: Any) -> str:
    """Return a span's status by its number or its name, with or without `STATUS_CODE_`."""
    return _code(_STATUSES, value, "STATUS_CODE_", "status")


def _code(names: Mapping[Any, str], value: Any, prefix: str, what: str) -> str:
    key = value.upper().removeprefix(prefix) if isinstance(value, str) else value
    try:
        return names[key]
    except (KeyError, TypeError):
        raise MalformedError(f"{what}: expected one of OTLP's numbers or names") from None


def text(value: Any, what: str) -> str:
    """Return a text, a number's too; an empty one for None."""
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise MalformedError(f"{what}: expected text")
    return encodable(value)


def json_object(value: Any, what: str) -> Attributes:
    """Return the values of an object in the form of attributes; an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(f"{what}: expected a JSON object")
    attributes: Attributes = json_value(value)
    return attributes


def json_value(value: Any, depth: int = NESTING) -> Any:
    """Return a JSON value in the form of span attributes: without half surrogate pairs and NaN."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return not_finite(value)
    if isinstance(value, int) and value not in INT64:
        raise MalformedError("an attribute is an integer beyond 64 bits")
    if isinstance(value, dict | list) and not depth:
        raise MalformedError(f"a value nested deeper than {NESTING} levels")
    if isinstance(value, dict):
        return {encodable(key): json_value(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [json_value(item, depth - 1) for item in value]
    return value


def with_lists(attributes: Attributes) -> Attributes:
    """Return attributes in which the JSON texts of lists are lists, where a format has no lists of its own.

    OpenTelemetry's attributes may be lists of texts, numbers or booleans; other lists were texts before.
    """
    return {key: _list_of(value) for key, value in attributes.items()}


def _list_of(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("["):
        return value
    items = parse_json(value)
    scalars = isinstance(items, list) and all(isinstance(item, str | int | float) for item in items)
    return json_value(items) if scalars else value


def cell(value: Any) -> Any:
    """Return the value of a table's cell: of a JSON text, or of a text that pandas wrote of a Python value.

    `DataFrame.to_csv` writes the `str` of lists, objects and arrays, whose items may have no commas between
    them, with times, missing values and numbers in the names of their libraries.
    """
    parsed = parse_json(value)
    if not isinstance(parsed, str) or not parsed.startswith(("[", "{", "array(")) or len(parsed) > _LONGEST:
        return parsed
    source = _TEXT_OR_BRACKET.sub(lambda found: f"{found[1]}," if found[2] else found[1], parsed)
    try:
        return _written(ast.parse(source, mode="eval").body)
    except (ValueError, TypeError, OverflowError, SyntaxError, MemoryError, RecursionError):
        return parsed


def _written(node: ast.expr) -> Any:
    """Return the value of an expression that pandas or NumPy writes. Raises ValueError for any other."""
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_written(item) for item in items]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {
                str(ast.literal_eval(key)): _written(item)
                for key, item in zip(keys, values, strict=True)
                if key
            }
        case ast.Name(id="nan" | "NaT" | "NA") | ast.Call(func=ast.Name(id="NAType")):
            return None
        case ast.Attribute(value=ast.Name(id="np"), attr="True_" | "False_" as word):
            return word == "True_"
        case ast.Call(func=ast.Attribute(attr="datetime"), args=parts, keywords=named):
            given = {one.arg: one.value for one in named}
            zone = _offset(given.pop("tzinfo", None))
            numbers = {str(key): ast.literal_eval(value) for key, value in given.items()}
            return datetime(*map(ast.literal_eval, parts), **numbers).replace(tzinfo=zone).isoformat()
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _WRAPPERS:
            return _written(first)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np")), args=[first]):
            return _written(first)
    return ast.literal_eval(node)


def _offset(node: ast.expr | None) -> timezone:
    """Return the zone that the `repr` of a time names: UTC, a fixed offset, or UTC where it names none.

    Raises ValueError for any other: what a name such as `Europe/Paris` stood for then is not in the text.
    """
    match node:
        case None | ast.Constant(value=None):
            return UTC
        case ast.Attribute(attr="utc" | "UTC") | ast.Name(id="UTC" | "utc" | "tzutc"):
            return UTC
        case ast.Call(func=ast.Name(id="tzutc") | ast.Attribute(attr="tzutc"), args=[]):
            return UTC
        case ast.Call(args=[ast.Constant(value="UTC" | "Etc/UTC" | "Zulu")]):
            return UTC
        case ast.Call(
            keywords=[ast.keyword(arg="key", value=ast.Constant(value="UTC" | "Etc/UTC" | "Zulu"))]
        ):
            return UTC
        case ast.Call(func=ast.Name(id="timezone") | ast.Attribute(attr="timezone"), args=[by, *_]):
            return timezone(_length(by))
        case ast.Call(func=ast.Name(id="tzoffset") | ast.Attribute(attr="tzoffset"), args=[_, by]):
            return timezone(timedelta(seconds=ast.literal_eval(by)))
        case ast.Call(func=ast.Name(id="FixedOffset") | ast.Attribute(attr="FixedOffset"), args=[by]):
            return timezone(timedelta(minutes=ast.literal_eval(by)))
    raise ValueError("a zone that is neither UTC nor a fixed offset")


def _length(node: ast.expr) -> timedelta:
    """Return the value of `datetime.timedelta(…)`. Raises ValueError for any other expression."""
    match node:
        case ast.Call(
            func=ast.Name(id="timedelta") | ast.Attribute(attr="timedelta"), args=parts, keywords=named
        ):
            numbers = {str(one.arg): ast.literal_eval(one.value) for one in named}
            return timedelta(*map(ast.literal_eval, parts), **numbers)
    raise ValueError("not a length of time")


def objects(value: Any, what: str) -> list[dict[str, Any]]:
    """Return a list of JSON objects; an empty one for None."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise MalformedError(f"{what}: expected a list of JSON objects")
    return value


def rows(document: Any) -> tuple[str, list[Any]] | None:
    """Return the rows of a document and where they are in it, None if it has none.

    They are the document itself, a list of rows or a single one, or the list under `data`, as APIs answer.
    """
    where, items = "", document
    if isinstance(document, dict):
        where, items = ("data", document["data"]) if "data" in document else ("", [document])
    if isinstance(items, list) and items and isinstance(items[0], dict):
        return where, items
    return None


def span_of_tags(tags: Attributes, given_kind: Any = None, **fields: Any) -> Span:
    """Return a span with these fields, and with kind, status, scope and trace state from its tags.

    The status is `otel.status_code`, else ERROR if there is a tag `error`, which is true or a message. The
    tags that OpenTelemetry's exporters and Jaeger add are not kept as attributes.
    """
    attributes = dict(tags)

    def take(*names: str) -> Any:
        values = [attributes.pop(name, None) for name in names]
        return next((value for value in values if value is not None), None)

    take("internal.span.format")
    own_kind, code, error = take("span.kind"), take("otel.status_code"), attributes.get("error")
    message = first_text((take("otel.status_description"), None if error in _FLAGS else error))
    if code is not None or error in _FLAGS:
        take("error")
    failed = "ERROR" if error not in _NO_ERROR else "UNSET"
    return Span(
        **fields,
        kind=kind(own_kind if given_kind is None else given_kind),
        status=failed if code is None else status(code),
        status_message=message,
        scope_name=first_text((take("otel.scope.name"), take("otel.library.name"))),
        scope_version=first_text((take("otel.scope.version"), take("otel.library.version"))),
        trace_state=first_text((take("w3c.tracestate"),)),
        attributes=with_lists(attributes),
    )
