"""The records that are stored: spans and log records, as they came."""

from __future__ import annotations

from typing import Any, NamedTuple

Attributes = dict[str, Any]


class Span(NamedTuple):
    """One finished span. Ids are lower-case hex, times are nanoseconds since the epoch.

    Attribute values are JSON values: bytes are base64 text, NaN and infinities are text.
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
    attributes: Attributes = {}  # noqa: RUF012 (never modified: a span is a value)
    events: list[Attributes] = []  # noqa: RUF012
    links: list[Attributes] = []  # noqa: RUF012
    resource: Attributes = {}  # noqa: RUF012
    scope_name: str | None = None
    scope_version: str | None = None
    trace_state: str | None = None


class LogRecord(NamedTuple):
    """One log record (an OpenTelemetry event), with the ids of its span, if it has one.

    `body` is a JSON value. A record without a trace may still belong to a session, by the conversation
    id in its attributes: ADK's sessions bring their state this way.
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
    """A problem in an input: where it is, what was wrong, and what was expected.

    `dropped` is true if the record was left out, false if it was kept as it came.
    """

    where: str
    message: str
    dropped: bool = True
