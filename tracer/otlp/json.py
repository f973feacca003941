"""Decode OTLP/JSON into spans and log records: https://opentelemetry.io/docs/specs/otlp/#otlphttp."""

from __future__ import annotations

import math
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import orjson

from spangrade.tracer.base.canonical_json import encodable
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.otlp.common import (
    INT64,
    KINDS,
    NESTING,
    NONE,
    STATUSES,
    MalformedError,
    Record,
    ScopeGroup,
    checked_time,
    decoded,
    log_warnings,
    not_finite,
    span_warnings,
)
from spangrade.tracer.span import Attributes, LogRecord, Problem, Span

_KINDS: dict[Any, str] = {None: KINDS[0], "SPAN_KIND_UNSPECIFIED": KINDS[0]}
_KINDS |= dict(enumerate(KINDS)) | {f"SPAN_KIND_{name}": name for name in KINDS}
_STATUSES: dict[Any, str] = {None: STATUSES[0]}
_STATUSES |= dict(enumerate(STATUSES)) | {f"STATUS_CODE_{name}": name for name in STATUSES}
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")  # as `bytes.decode` escapes it
_MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # Unicode keeps them free of a meaning
_PADDING = {16: "==", 8: "="}
_URL_SAFE = str.maketrans("-_", "+/")
_CAMEL = {
    re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): name
    for name in (
        *("resourceSpans", "scopeSpans", "resourceLogs", "scopeLogs", "logRecords"),
        *("traceId", "spanId", "parentSpanId", "traceState", "startTimeUnixNano", "endTimeUnixNano"),
        *("timeUnixNano", "observedTimeUnixNano", "severityText", "eventName"),
        *("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue"),
    )
}
# Tempo's name, and those of OTLP before 0.15.
_CAMEL |= {
    "batches": "resourceSpans",
    "instrumentationLibrarySpans": "scopeSpans",
    "instrumentation_library_spans": "scopeSpans",
    "instrumentationLibraryLogs": "scopeLogs",
    "instrumentation_library_logs": "scopeLogs",
    "instrumentationLibrary": "scope",
    "instrumentation_library": "scope",
}


def loads(body: bytes) -> tuple[Any, str | None]:
    """Return a body's JSON value, and the character that stands in it for bytes that are not UTF-8, if any.

    Raises orjson.JSONDecodeError.
    """
    try:
        return orjson.loads(body), None
    except orjson.JSONDecodeError as error:
        text = body.decode(errors="surrogateescape")
        if _NOT_UTF_8.search(text):
            lower = text.lower()
            for mark in _MARKS:
                if mark not in text and f"\\u{ord(mark):04x}" not in lower:
                    with suppress(orjson.JSONDecodeError):
                        return orjson.loads(_NOT_UTF_8.sub(mark, text)), mark
                    break
        raise error


def decode(document: Mapping[str, Any], not_utf_8: str | None = None) -> Iterator[Span | LogRecord | Problem]:
    """Yield the records of an ExportTraceServiceRequest or ExportLogsServiceRequest, in their order.

    Names may be those of OTLP/JSON (`resourceSpans`), of protobuf (`resource_spans`), of Tempo (`batches`) or
    of OTLP before 0.15 (`instrumentationLibrarySpans`), ids hex or base64,
    64-bit integers text or numbers, enumerations numbers or names. A record that cannot be read becomes a
    Problem and the others are kept; an implausible one (it ends before it starts) is kept as it came and a
    Problem follows it. A Problem's `where` is the position: `resourceSpans[0].scopeSpans[0].spans[3]`.
    A record that contains the character `not_utf_8`, given by `loads`, cannot be read.
    """
    # 9 µs per span of nine attributes (1.8 kB), after 3.3 µs in orjson; half of it is in `_attributes`.
    mark = not_utf_8
    spans = _groups(document, "resourceSpans", "scopeSpans", "spans", mark)
    logs = _groups(document, "resourceLogs", "scopeLogs", "logRecords", mark)
    yield from decoded(spans, _span if mark is None else partial(_checked, _span, mark), span_warnings)
    yield from decoded(logs, _log if mark is None else partial(_checked, _log, mark), log_warnings)


def _checked(
    decode_record: Callable[[Any, ScopeGroup], Record], mark: str, record: Any, group: ScopeGroup
) -> Record:
    _check_text(record, mark)
    return decode_record(record, group)


def _check_text(part: Any, mark: str | None) -> None:
    """Raise MalformedError if a part of the document has the mark; one nested too deeply fails elsewhere."""
    with suppress(orjson.JSONEncodeError):
        if mark is not None and mark.encode() in orjson.dumps(part):
            raise MalformedError("not valid JSON (a string that is not UTF-8)")


def _unread(part: Mapping[str, Any], where: str, mark: str | None) -> Iterator[Problem]:
    """Yield a Problem if a key of a part has the mark."""
    if mark is not None and any(mark in key for key in part):
        yield Problem(where, "a key is not UTF-8; its value is not read")


def _groups(
    document: Mapping[str, Any], signal: str, scopes: str, members: str, mark: str | None
) -> Iterator[ScopeGroup | Problem]:
    for outer in _parts(_camel(document), signal, ""):
        if isinstance(outer, Problem):
            yield outer
            continue
        where, per_resource = outer
        yield from _unread(per_resource, where, mark)
        resource: Attributes = {}
        try:
            _check_text(per_resource.get("resource"), mark)
            resource = _attributes(_object(per_resource.get("resource"), "resource").get("attributes"))
        except MalformedError as error:
            yield Problem(where, f"{error}; its records are kept without a resource", dropped=False)
        for inner in _parts(per_resource, scopes, where + "."):
            if isinstance(inner, Problem):
                yield inner
                continue
            place, per_scope = inner
            yield from _unread(per_scope, place, mark)
            name, version = "", ""
            try:
                _check_text(per_scope.get("scope"), mark)
                scope = _object(per_scope.get("scope"), "scope")
                name, version = _text(scope, "name"), _text(scope, "version")
            except MalformedError as error:
                yield Problem(place, f"{error}; its records are kept without a scope", dropped=False)
            try:
                records = _list(per_scope.get(members), members)
            except MalformedError as error:
                yield Problem(place, str(error))
            else:
                yield ScopeGroup(f"{place}.{members}", records, resource, name or None, version or None)


def _parts(
    parent: Mapping[str, Any], key: str, where: str
) -> Iterator[tuple[str, Mapping[str, Any]] | Problem]:
    try:
        parts = _list(parent.get(key), key)
    except MalformedError as error:
        yield Problem(where + key, str(error))
        return
    for i, part in enumerate(parts):
        place = f"{where}{key}[{i}]"
        if isinstance(part, dict):
            yield place, _camel(part)
        else:
            yield Problem(place, f"expected a JSON object, found {_shown(part)}")


def _span(record: Any, group: ScopeGroup) -> Span:
    if type(record) is not dict:
        raise MalformedError(f"expected a span, found {_shown(record)}")
    if "trace_id" in record:
        record = _camel(record)
    get = record.get
    status, message = STATUSES[0], None
    if given := _object(get("status"), "status"):
        status, message = _named(_STATUSES, given.get("code"), "status.code"), _text(given, "message") or None
    events, links = get("events"), get("links")
    # In the order of the fields: by name it takes three times as long.
    return Span._make(
        (
            _id(get("traceId"), 16, "traceId"),
            _id(get("spanId"), 8, "spanId"),
            _optional_id(get("parentSpanId"), 8, "parentSpanId"),
            _text(record, "name"),
            _named(_KINDS, get("kind"), "kind"),
            _time(get("startTimeUnixNano"), "startTimeUnixNano"),
            _time(get("endTimeUnixNano"), "endTimeUnixNano"),
            status,
            message,
            _attributes(get("attributes")),
            [_event(event) for event in _list(events, "events")] if events is not None else NONE,
            [_link(link) for link in _list(links, "links")] if links is not None else NONE,
            group.resource,
            group.scope_name,
            group.scope_version,
            _text(record, "traceState") or None,
        )
    )


def _event(record: Any) -> Attributes:
    event = _camel(_object(record, "an event"))
    return {
        "name": _text(event, "name"),
        "time_ns": _time(event.get("timeUnixNano"), "timeUnixNano of an event"),
        "attributes": _attributes(event.get("attributes")),
    }


def _link(record: Any) -> Attributes:
    link = _camel(_object(record, "a link"))
    return {
        "trace_id": _id(link.get("traceId"), 16, "traceId of a link"),
        "span_id": _id(link.get("spanId"), 8, "spanId of a link"),
        "attributes": _attributes(link.get("attributes")),
    }


def _log(record: Any, group: ScopeGroup) -> LogRecord:
    log = _camel(_object(record, "a log record"))
    attributes = _attributes(log.get("attributes"))
    event_name = _text(log, "eventName") or attributes.get("event.name")
    return LogRecord(
        trace_id=_optional_id(log.get("traceId"), 16, "traceId"),
        span_id=_optional_id(log.get("spanId"), 8, "spanId"),
        time_ns=_time(log.get("timeUnixNano"), "timeUnixNano")
        or _time(log.get("observedTimeUnixNano"), "observedTimeUnixNano"),
        event_name=event_name if isinstance(event_name, str) else None,
        severity=_text(log, "severityText") or None,
        body=_value(log.get("body"), NESTING),
        attributes=attributes,
        resource=group.resource,
        scope_name=group.scope_name,
        scope_version=group.scope_version,
    )


def _attributes(items: Any, depth: int = NESTING) -> Attributes:
    attributes: Attributes = {}
    if not items:
        return attributes
    for item in _list(items, "attributes"):
        if type(item) is not dict:
            raise MalformedError(f'expected an attribute {{"key": …, "value": …}}, found {_shown(item)}')
        key, value = item.get("key", ""), item.get("value")
        if type(key) is not str:
            raise MalformedError(f"expected an attribute's key, found {_shown(key)}")
        if type(value) is dict:  # most values are text or integers: they need no call
            text = value.get("stringValue")
            if type(text) is str:
                attributes[key] = text if text.isascii() else encodable(text)
                continue
            number = value.get("intValue") if len(value) == 1 else None
            if type(number) is str and len(number) < 19 and number.isdigit() and number.isascii():
                attributes[key] = int(number)
                continue
        attributes[key] = _value(value, depth)
    if not "".join(attributes).isascii():
        return {encodable(key): value for key, value in attributes.items()}
    return attributes


def _value(value: Any, depth: int) -> Any:
    """Return an AnyValue as a JSON value; a missing or empty one is None."""
    if not depth:
        raise MalformedError(f"a value nested deeper than {NESTING} levels")
    for kind, content in _object(value, "a value").items():
        if content is None:
            continue
        match _CAMEL.get(kind, kind):
            case "intValue":
                return _int64(content)
            case "stringValue" | "bytesValue" if isinstance(content, str):
                return encodable(content)
            case "boolValue" if isinstance(content, bool):
                return content
            case "doubleValue":
                return _double(content)
            case "arrayValue":
                values = _list(_object(content, kind).get("values"), kind)
                return [_value(item, depth - 1) for item in values]
            case "kvlistValue":
                return _attributes(_object(content, kind).get("values"), depth - 1)
        raise MalformedError(f"expected an attribute's value, found {_shown(content)} as {kind[:40]!a}")
    return None


def _int64(content: Any) -> int:
    number = content
    if type(content) is str and len(content) <= 20 and content.isascii():
        number = int(content) if content.removeprefix("-").isdigit() else None
    elif type(content) is float and content.is_integer() and abs(content) < 2**53:
        number = int(content)  # 5.0 or 1e5: the same number to JSON
    if type(number) is int and number in INT64:
        return number
    raise MalformedError(f"expected an integer of 64 bits, found {_shown(content)}")


def _double(content: Any) -> float | str:
    if type(content) in (float, int, str):
        try:
            number = float(content)
        except (ValueError, OverflowError):
            pass
        else:
            return number if math.isfinite(number) else not_finite(number)
    raise MalformedError(f"expected a number, found {_shown(content)}")


def _time(content: Any, what: str) -> int:
    if type(content) is str and content.isascii() and content.isdigit() and len(content) <= 20:
        return checked_time(int(content), what)
    if content is None:
        return 0
    if type(content) is int:
        return checked_time(content, what)
    raise MalformedError(f"{what} is {_shown(content)}; expected an integer of nanoseconds since 1970")


def _id(content: Any, size: int, what: str) -> str:
    raw = b""
    if isinstance(content, str):
        try:
            if len(content) == 2 * size:
                raw = bytes.fromhex(content)
            else:  # protobuf's own JSON mapping; padding and the last two letters of the alphabet vary
                raw = b64decode(content.translate(_URL_SAFE).rstrip("=") + _PADDING[size], validate=True)
        except ValueError:
            pass
    if len(raw) == size and any(raw):
        return raw.hex()
    if not content or len(raw) == size:
        raise MalformedError(f"no {what}; expected {2 * size} hexadecimal digits, not all zero")
    raise MalformedError(f"{what} is {_shown(content)}; expected {2 * size} hexadecimal digits")


def _optional_id(content: Any, size: int, what: str) -> str | None:
    if not content or content == "0" * (2 * size):
        return None
    return _id(content, size, what)


def _named(names: Mapping[Any, str], content: Any, what: str) -> str:
    try:
        return names[content]
    except (KeyError, TypeError):
        raise MalformedError(
            f"{what} is {_shown(content)}; expected one of OTLP's numbers or names"
        ) from None


def _text(record: Mapping[str, Any], key: str) -> str:
    text = record.get(key)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise MalformedError(f"{key} is {_shown(text)}; expected text")
    return text if text.isascii() else encodable(text)


def _list(content: Any, what: str) -> list[Any]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise MalformedError(f"{what}: expected a list, found {_shown(content)}")
    return content


def _object(content: Any, what: str) -> dict[str, Any]:
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise MalformedError(f"{what}: expected a JSON object, found {_shown(content)}")
    return content


def _camel(record: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in record:
        if key in _CAMEL:
            return {_CAMEL.get(name, name): value for name, value in record.items()}
    return record


def _shown(content: Any) -> str:
    """Return a value as shown in a message: short, without the content of texts, objects and lists."""
    if isinstance(content, dict):
        return "a JSON object"
    if isinstance(content, list):
        return "a JSON list"
    if isinstance(content, str):
        return f"a text of {counted(len(content), 'character')}"
    text = ascii(content)
    return text if len(text) <= 42 else f"{text[:38]} …"
