"""The answers of Google ADK's debug API: a session's spans as a JSON list, and the session itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spangrade.converters.datasets.adk_events import invocations, objects, spans_of
from spangrade.converters.datasets.files import separate
from spangrade.converters.recordings.conversations import made_id
from spangrade.converters.recordings.plain import json_value
from spangrade.converters.spans.values import either
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import encodable
from spangrade.tracer.otlp.common import (
    MalformedError,
    ScopeGroup,
    checked_time,
    decoded,
    log_warnings,
    span_warnings,
)
from spangrade.tracer.semconv import APP_NAME, CONVERSATION_ID, STATE
from spangrade.tracer.span import LogRecord, Problem, Span

_SCOPE = "gcp.vertex.agent"
_SPAN_KEYS = frozenset({"name", "span_id", "trace_id", "start_time", "end_time"})
_APP_KEYS = frozenset({"appName", "app_name"})


def read_trace(document: Any) -> Iterator[Span | Problem] | None:
    """Return the spans of `/debug/trace/session/…`, or None if the document is something else.

    ADK writes ids as integers and attributes as JSON; kind, status, events and resource are not recorded.
    """
    match document:
        # Other rows of spans have ids that are texts.
        case [dict() as first, *_] if first.keys() >= _SPAN_KEYS and not isinstance(first["trace_id"], str):
            return decoded([ScopeGroup("", document, {}, _SCOPE, None)], _span, span_warnings)
    return None


def read_session(document: Any) -> Iterator[Span | LogRecord | Problem] | None:
    """Return a session of ADK's session service, or None if the document is something else.

    A log record carries the name of its app and the session's state: `state`, or else the sum of the events'
    state deltas; the events become spans, which those that were recorded of the session take the place of.
    A list of events, as the API answers a run, is a session of its own. Keys may be in camelCase or
    snake_case.
    """
    match document:
        case {"id": _, "events": _} if not _APP_KEYS.isdisjoint(document):
            return _session(document)
        case [dict() as first, *_] if _is_event(first):
            return _events({"id": made_id("events", document), "events": document})
    return None


def _is_event(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("author"), str)
        and isinstance(either(value, "invocation_id"), str)
    )


read_session.__dict__["gathers"] = _is_event  # see `Reader`


def _span(item: Any, group: ScopeGroup) -> Span:
    if not isinstance(item, dict) or not item.keys() >= _SPAN_KEYS:
        raise MalformedError(f"not a span; expected a JSON object with {', '.join(sorted(_SPAN_KEYS))}")
    name, attributes, parent = item["name"], item.get("attributes") or {}, item.get("parent_span_id")
    if not isinstance(name, str) or not isinstance(attributes, dict):
        raise MalformedError("not a span; expected a text as its name and a JSON object as its attributes")
    return Span(
        trace_id=_id(item["trace_id"], 16, "trace_id"),
        span_id=_id(item["span_id"], 8, "span_id"),
        parent_span_id=_id(parent, 8, "parent_span_id") if parent else None,
        name=encodable(name),
        kind="INTERNAL",
        start_ns=_time(item["start_time"], "start_time"),
        end_ns=_time(item["end_time"], "end_time"),
        attributes=json_value(attributes),
        scope_name=group.scope_name,
    )


def _session(document: Mapping[str, Any]) -> Iterator[Span | LogRecord | Problem]:
    if type(document["id"]) is int:
        document = {**document, "id": str(document["id"])}
    try:
        log = _session_log(document)
    except MalformedError as error:
        yield Problem("", str(error))
        return
    yield log
    for oddity in log_warnings(log):
        yield Problem("", oddity, dropped=False)
    yield from _events(document)


def _events(session: Mapping[str, Any]) -> Iterator[Span | Problem]:
    said = [one for one in objects(session["events"]) if one.get("content") or either(one, "error_code")]
    turns, problems = separate(invocations({"events": said}, "session"))
    yield from problems
    yield from spans_of(session["id"], turns, None, scope=semconv.SCOPE_OF_MESSAGES)


def _session_log(document: Mapping[str, Any]) -> LogRecord:
    session_id, user_id, state = document["id"], either(document, "user_id"), _state(document)
    app_name = either(document, "app_name")
    if not isinstance(session_id, str) or not session_id:
        raise MalformedError("the session's id is not text")
    attributes = {
        CONVERSATION_ID: session_id,
        "user.id": user_id,
        APP_NAME: app_name if isinstance(app_name, str) and app_name else None,
        STATE: state,
    }
    return LogRecord(
        trace_id=None,
        span_id=None,
        time_ns=_last_update_ns(document),
        event_name="spangrade.session",
        attributes=json_value({key: value for key, value in attributes.items() if value is not None}),
        scope_name=_SCOPE,
    )


def _state(document: Mapping[str, Any]) -> dict[str, Any] | None:
    state = document.get("state")
    if state is None:
        actions = _objects([event.get("actions") or {} for event in _objects(document["events"])])
        deltas = _objects([either(action, "state_delta") or {} for action in actions])
        state = {key: value for delta in deltas for key, value in delta.items()} or None
    if not isinstance(state, dict | None):
        raise MalformedError("the session's state is not a JSON object")
    return state


def _last_update_ns(document: Mapping[str, Any]) -> int:
    seconds = either(document, "last_update_time")
    if seconds is None:
        seconds = next((event.get("timestamp") for event in reversed(_objects(document["events"]))), None)
    if seconds is None:
        return 0
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 2**33:
        raise MalformedError("the session's lastUpdateTime is not a number of seconds since 1970")
    return round(seconds * 1e6) * 1000  # a float holds today's seconds to the microsecond


def _objects(items: Any) -> list[dict[str, Any]]:
    if isinstance(items, list) and all(isinstance(item, dict) for item in items):
        return items
    raise MalformedError("a session whose events, actions or state deltas are not JSON objects")


def _id(number: Any, size: int, what: str) -> str:
    if type(number) is int and 0 < number < 1 << 8 * size:
        return f"{number:0{2 * size}x}"
    raise MalformedError(f"{what} is not an integer of {8 * size} bits, above zero")


def _time(number: Any, what: str) -> int:
    if type(number) is not int:
        raise MalformedError(f"{what} is not an integer of nanoseconds since 1970")
    return checked_time(number, what)
