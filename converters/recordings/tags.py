"""OpenTelemetry's kind, status, scope and trace state, which Jaeger and Zipkin store in tags."""

from __future__ import annotations

from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.spans.values import first_text
from spangrade.tracer.span import Attributes, Span

_NO_ERROR = (None, False, "", "false")
_FLAGS = (True, False, "true", "false")  # of the tag `error`, which has a failure's message elsewhere


def span_of_tags(tags: Attributes, kind: Any = None, **fields: Any) -> Span:
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
        kind=plain.kind(own_kind if kind is None else kind),
        status=failed if code is None else plain.status(code),
        status_message=message,
        scope_name=first_text((take("otel.scope.name"), take("otel.library.name"))),
        scope_version=first_text((take("otel.scope.version"), take("otel.library.version"))),
        trace_state=first_text((take("w3c.tracestate"),)),
        attributes=plain.with_lists(attributes),
    )
