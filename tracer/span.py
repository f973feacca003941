"""What is stored: a span and a log record, as they came."""

from __future__ import annotations

from typing import Any, NamedTuple

Attributes = dict[str, Any]


class Span(NamedTuple):
    """One finished span. Ids are lower-case hex, times are nanoseconds since the epoch.

    Attribute values are JSON values (bytes become base64 text, NaN and infinities become text).
    An event is `{"name", "time_ns", "attributes"}`, a link `{"trace_id", "span_id", "attributes"}`.
    `kind` is INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER; `status` is UNSET, OK or ERROR.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    status: str = "UNSET"
    status_message: str | None = None
    attributes: Attributes = {}  # noqa: RUF012 (never written to: a span is a value)
    events: list[Attributes] = []  # noqa: RUF012
    links: list[Attributes] = []  # noqa: RUF012
    resource: Attributes = {}  # noqa: RUF012
    scope_name: str | None = None
    scope_version: str | None = None
    trace_state: str | None = None


class LogRecord(NamedTuple):
    """One log record (an OpenTelemetry event), with the span it belongs to, if any.

    `body` is a JSON value. A record without a trace may still belong to a session, by the conversation
    id among its attributes: that is how a session's own log brings its state.
    """

    trace_id: str | None
    span_id: str | None
    time_ns: int
    event_name: str | None
    severity: str | None = None
    body: Any = None
    attributes: Attributes = {}  # noqa: RUF012
    resource: Attributes = {}  # noqa: RUF012
    scope_name: str | None = None
    scope_version: str | None = None


class Problem(NamedTuple):
    """Something odd in an input: where it stands, what was wrong, what would be right.

    `dropped` is false where the record was kept as it came, and true where it could not be.
    """

    where: str
    message: str
    dropped: bool = True
