"""No field of a record, at any depth, is stored without redaction: also not one that is added later."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from spangrade.tracer.redaction import KEPT, Redaction
from spangrade.tracer.span import LogRecord, Span

SECRET = "anna.nguyen@example.com"
PLANTED = f"planted {SECRET} here"
NESTINGS: tuple[Any, ...] = (
    PLANTED,
    {"a": PLANTED},
    {"a": {"b": [1, {"c": PLANTED}]}},
    [PLANTED],
    [["x", PLANTED]],
    {PLANTED: 1},
    json.dumps({"a": PLANTED}),
    json.dumps({"a": json.dumps([PLANTED])}),
    {"password": {"a": PLANTED}},
)
# What a field holds where it is not a JSON value; every field not named here takes any of them.
PARTS = {
    "events": {"name": "", "time_ns": 1, "attributes": {}},
    "links": {"trace_id": "a" * 32, "span_id": "b" * 16, "attributes": {}},
}
SPAN = Span("a" * 32, "b" * 16, None, "n", "CLIENT", 1, 2)
LOG = LogRecord(None, None, 1, None)
TEXTS = {"str", "str | None"}


def planted() -> Iterator[tuple[str, Any]]:
    for record in (SPAN, LOG):
        for field in record._fields:
            kind = type(record).__annotations__[field]
            if field in KEPT:
                continue
            if field in PARTS:
                for inner in PARTS[field].keys() - KEPT:
                    for value in NESTINGS if inner == "attributes" else [PLANTED]:
                        part = PARTS[field] | {inner: {"k": value} if inner == "attributes" else value}
                        yield f"{type(record).__name__}.{field}.{inner}", record._replace(**{field: [part]})
            else:
                for value in [PLANTED] if kind in TEXTS else NESTINGS:
                    held = {"k": value} if kind == "Attributes" else value
                    yield f"{type(record).__name__}.{field}", record._replace(**{field: held})


@pytest.mark.parametrize("mode", ["mask", "hash"])
def test_a_secret_is_redacted_in_every_field_and_nesting(mode: Any) -> None:
    redact = Redaction(mode, key="k")
    left = [where for where, record in planted() if SECRET in json.dumps(redact(record))]
    assert left == []


def test_the_fields_that_stay_hold_no_text_of_an_agent() -> None:
    kept = {
        (record.__name__, field): typing.get_type_hints(record)[field]
        for record in (Span, LogRecord)
        for field in record._fields
        if field in KEPT
    }
    assert set(kept) == {
        *(("Span", name) for name in ("trace_id", "span_id", "parent_span_id", "kind", "status")),
        *(("Span", name) for name in ("start_ns", "end_ns")),
        *(("LogRecord", name) for name in ("trace_id", "span_id", "time_ns")),
    }


def test_scopes_severity_and_trace_state_are_redacted() -> None:
    redact = Redaction("mask")
    span = redact(SPAN._replace(scope_name=PLANTED, scope_version=PLANTED, trace_state=PLANTED))
    log = redact(LOG._replace(scope_name=PLANTED, scope_version=PLANTED, severity=PLANTED))
    shown = "planted [email] here"
    assert (span.scope_name, span.scope_version, span.trace_state) == (shown, shown, shown)
    assert (log.scope_name, log.scope_version, log.severity) == (shown, shown, shown)


def test_a_record_without_secrets_stays_as_it_is() -> None:
    span = SPAN._replace(
        attributes={"gen_ai.usage.input_tokens": 5, "messages": '[{"role": "user"}]', "ok": True},
        events=[{"name": "exception", "time_ns": 1780000000000000000, "attributes": {"a": [1.5, None]}}],
        links=[{"trace_id": "4111" * 8, "span_id": "4111111111111111", "attributes": {}}],
        resource={"service.name": "shop"},
        scope_name="scope",
    )
    assert Redaction("mask")(span) == span
