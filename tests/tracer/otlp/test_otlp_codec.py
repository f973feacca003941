"""OTLP in both encodings: what it becomes, and what is said of what cannot be read."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from spangrade.tracer.otlp import json as otlp_json
from spangrade.tracer.otlp import protobuf as otlp_proto
from spangrade.tracer.span import LogRecord, Problem, Span

TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
WHERE = "resourceSpans[0].scopeSpans[0].spans[0]"
PROTO_WHERE = "resource_spans[0].scope_spans[0].spans[0]"
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def spans(*records: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(records)}]}]}


def logs(*records: Any) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


def span(**changes: Any) -> dict[str, Any]:
    record = {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "n",
        "startTimeUnixNano": "10",
        "endTimeUnixNano": "20",
    }
    return {key: value for key, value in (record | changes).items() if value is not ...}


def attributes_of(value: Any) -> list[dict[str, Any]]:
    return [{"key": "a", "value": value}]


PLAIN = Span(TRACE, SPAN, None, "n", "INTERNAL", 10, 20)


def test_every_part_of_a_span_is_read() -> None:
    document = {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "my.scope", "version": "1.2"},
                        "spans": [
                            span(
                                parentSpanId=PARENT,
                                kind=3,
                                status={"code": 2, "message": "broke"},
                                traceState="a=b",
                                attributes=attributes_of({"intValue": "5"}),
                                events=[
                                    {
                                        "name": "exception",
                                        "timeUnixNano": "15",
                                        "attributes": attributes_of({"stringValue": "x"}),
                                    }
                                ],
                                links=[
                                    {
                                        "traceId": TRACE,
                                        "spanId": PARENT,
                                        "attributes": attributes_of({"boolValue": True}),
                                    }
                                ],
                            )
                        ],
                    }
                ],
            }
        ]
    }
    assert list(otlp_json.decode(document)) == [
        Span(
            trace_id=TRACE,
            span_id=SPAN,
            parent_span_id=PARENT,
            name="n",
            kind="CLIENT",
            start_ns=10,
            end_ns=20,
            status="ERROR",
            status_message="broke",
            attributes={"a": 5},
            events=[{"name": "exception", "time_ns": 15, "attributes": {"a": "x"}}],
            links=[{"trace_id": TRACE, "span_id": PARENT, "attributes": {"a": True}}],
            resource={"service.name": "shop"},
            scope_name="my.scope",
            scope_version="1.2",
            trace_state="a=b",
        )
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PLAIN),
        ({"name": ..., "endTimeUnixNano": 20}, PLAIN._replace(name="")),
        ({"startTimeUnixNano": 10}, PLAIN),
        ({"traceId": TRACE.upper(), "spanId": SPAN.upper()}, PLAIN),
        ({"traceId": b64encode(bytes.fromhex(TRACE)).decode()}, PLAIN),
        ({"spanId": b64encode(bytes.fromhex(SPAN)).decode().rstrip("=")}, PLAIN),
        ({"spanId": "-__7__v_-_8="}, PLAIN._replace(span_id="fbfffbfffbfffbff")),
        ({"parentSpanId": ""}, PLAIN),
        ({"parentSpanId": "0" * 16}, PLAIN),
        ({"parentSpanId": None, "attributes": None, "events": None, "status": None, "kind": None}, PLAIN),
        ({"kind": "SPAN_KIND_CLIENT"}, PLAIN._replace(kind="CLIENT")),
        ({"kind": "SPAN_KIND_UNSPECIFIED"}, PLAIN),
        ({"kind": 0}, PLAIN),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, PLAIN._replace(status="ERROR")),
        ({"status": {"code": 1}}, PLAIN._replace(status="OK")),
        ({"status": {}}, PLAIN),
        ({"name": "half \ud83d pair"}, PLAIN._replace(name="half \ufffd pair")),
    ],
)
def test_the_spellings_of_a_span_are_one(changes: dict[str, Any], expected: Span) -> None:
    assert list(otlp_json.decode(spans(span(**changes)))) == [expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "x"}, "x"),
        ({"stringValue": ""}, ""),
        ({"string_value": "x"}, "x"),
        ({"stringValue": "half \udc00 pair, whole \ud83d\ude00 pair"}, "half \ufffd pair, whole 😀 pair"),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": 7}, 7),
        ({"intValue": 7.0}, 7),
        ({"int_value": "7"}, 7),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "1.5"}, 1.5),
        ({"doubleValue": "NaN"}, "NaN"),
        ({"doubleValue": "-Infinity"}, "-Infinity"),
        ({"doubleValue": math.inf}, "Infinity"),
        ({"boolValue": False}, False),
        ({"bytesValue": "AAE="}, "AAE="),
        ({"arrayValue": {"values": [{"intValue": "1"}, {}, {"arrayValue": {}}]}}, [1, None, []]),
        (
            {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}, {"key": "e"}]}},
            {"k": True, "e": None},
        ),
        ({"kvlist_value": {}}, {}),
        ({}, None),
        (None, None),
        ({"stringValue": None}, None),
    ],
)
def test_a_value_of_every_kind_becomes_a_json_value(value: Any, expected: Any) -> None:
    [found] = otlp_json.decode(spans(span(attributes=attributes_of(value))))
    assert isinstance(found, Span)
    assert found.attributes == {"a": expected}
    assert type(found.attributes["a"]) is type(expected)


def test_an_attribute_without_a_value_is_null() -> None:
    assert list(otlp_json.decode(spans(span(attributes=[{"key": "a"}])))) == [
        PLAIN._replace(attributes={"a": None})
    ]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"intValue": 1}
    for _ in range(levels - 1):
        value = {"arrayValue": {"values": [value]}}
    return value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"traceId": ...}, "no traceId; expected 32 hexadecimal digits, not all zero"),
        ({"traceId": "0" * 32}, "no traceId; expected 32 hexadecimal digits, not all zero"),
        ({"traceId": "g" * 32}, "traceId is a text of 32 characters; expected 32 hexadecimal digits"),
        ({"traceId": 5}, "traceId is 5; expected 32 hexadecimal digits"),
        ({"spanId": "0af7"}, "spanId is a text of 4 characters; expected 16 hexadecimal digits"),
        (
            {"spanId": " " + SPAN[:14] + " "},
            "spanId is a text of 16 characters; expected 16 hexadecimal digits",
        ),
        ({"parentSpanId": "x"}, "parentSpanId is a text of 1 character; expected 16 hexadecimal digits"),
        (
            {"startTimeUnixNano": "1_0"},
            "startTimeUnixNano is a text of 3 characters; expected an integer of nanoseconds since 1970",
        ),
        ({"endTimeUnixNano": 1.5}, "endTimeUnixNano is 1.5; expected an integer of nanoseconds since 1970"),
        ({"endTimeUnixNano": True}, "endTimeUnixNano is True; expected an integer of nanoseconds since 1970"),
        (
            {"endTimeUnixNano": str(2**63)},
            "endTimeUnixNano is 9223372036854775808; expected nanoseconds since 1970, below 2^63",
        ),
        ({"startTimeUnixNano": -1}, "startTimeUnixNano is -1; expected nanoseconds since 1970, below 2^63"),
        ({"name": 5}, "name is 5; expected text"),
        ({"kind": 17}, "kind is 17; expected one of OTLP's numbers or names"),
        ({"kind": []}, "kind is a JSON list; expected one of OTLP's numbers or names"),
        ({"status": "OK"}, "status: expected a JSON object, found a text of 2 characters"),
        ({"attributes": "a"}, "attributes: expected a list, found a text of 1 character"),
        (
            {"attributes": ["a"]},
            """expected an attribute {"key": …, "value": …}, found a text of 1 character""",
        ),
        ({"attributes": [{"key": ["a"]}]}, "expected an attribute's key, found a JSON list"),
        ({"attributes": attributes_of("x")}, "a value: expected a JSON object, found a text of 1 character"),
        (
            {"attributes": attributes_of({"intValue": str(2**63)})},
            "expected an integer of 64 bits, found a text of 19 characters",
        ),
        ({"attributes": attributes_of({"intValue": 1e20})}, "expected an integer of 64 bits, found 1e+20"),
        (
            {"attributes": attributes_of({"intValue": "²"})},
            "expected an integer of 64 bits, found a text of 1 character",
        ),
        (
            {"attributes": attributes_of({"doubleValue": "x"})},
            "expected a number, found a text of 1 character",
        ),
        (
            {"attributes": attributes_of({"word": "x"})},
            "expected an attribute's value, found a text of 1 character as 'word'",
        ),
        (
            {"attributes": attributes_of({"stringValue": 5})},
            "expected an attribute's value, found 5 as 'stringValue'",
        ),
        ({"attributes": attributes_of(nested(101))}, "a value nested deeper than 100 levels"),
        ({"events": [5]}, "an event: expected a JSON object, found 5"),
        (
            {"links": [{"traceId": TRACE}]},
            "no spanId of a link; expected 16 hexadecimal digits, not all zero",
        ),
    ],
)
def test_a_span_that_cannot_be_read_is_a_problem_and_the_others_are_kept(
    changes: dict[str, Any], message: str
) -> None:
    assert list(otlp_json.decode(spans(span(**changes), span()))) == [Problem(WHERE, message), PLAIN]


def test_a_value_of_a_hundred_levels_is_kept() -> None:
    [found] = otlp_json.decode(spans(span(attributes=attributes_of(nested(100)))))
    assert isinstance(found, Span)


@pytest.mark.parametrize(
    ("changes", "kept", "message"),
    [
        (
            {"endTimeUnixNano": "4"},
            PLAIN._replace(end_ns=4),
            "the span ends before it starts, by 6 ns; it is kept as it came",
        ),
        (
            {"parentSpanId": SPAN},
            PLAIN._replace(parent_span_id=SPAN),
            "the span is its own parent; it is kept as it came",
        ),
        (
            {"startTimeUnixNano": ...},
            PLAIN._replace(start_ns=0),
            "the span has no start time; it is kept at 1970",
        ),
    ],
)
def test_an_odd_span_is_kept_as_it_came_and_told_of(
    changes: dict[str, Any], kept: Span, message: str
) -> None:
    assert list(otlp_json.decode(spans(span(**changes)))) == [kept, Problem(WHERE, message, dropped=False)]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"resourceSpans": 5}, [Problem("resourceSpans", "resourceSpans: expected a list, found 5")]),
        ({"resourceSpans": [5]}, [Problem("resourceSpans[0]", "expected a JSON object, found 5")]),
        (
            {"resourceSpans": [{"scopeSpans": [{"spans": {}}, {"spans": [span()]}]}]},
            [
                Problem("resourceSpans[0].scopeSpans[0]", "spans: expected a list, found a JSON object"),
                PLAIN,
            ],
        ),
        (
            {"resourceSpans": [{"resource": [], "scopeSpans": [{"spans": [span()]}]}]},
            [
                Problem(
                    "resourceSpans[0]",
                    "resource: expected a JSON object, found a JSON list; "
                    "its records are kept without a resource",
                    dropped=False,
                ),
                PLAIN,
            ],
        ),
        (
            {"resourceSpans": [{"scopeSpans": [{"scope": {"name": 5}, "spans": [span()]}]}]},
            [
                Problem(
                    "resourceSpans[0].scopeSpans[0]",
                    "name is 5; expected text; its records are kept without a scope",
                    dropped=False,
                ),
                PLAIN,
            ],
        ),
        ({"resourceSpans": [{}, {"scopeSpans": [{}, {"spans": None}]}]}, []),
        ({"resourceSpans": None}, []),
    ],
)
def test_a_part_of_another_shape_loses_nothing_but_itself(document: Any, expected: list[Any]) -> None:
    assert list(otlp_json.decode(document)) == expected


def test_all_spans_of_a_resource_share_one_object() -> None:
    first, second = otlp_json.decode(spans(span(), span()))
    assert isinstance(first, Span)
    assert isinstance(second, Span)
    assert first.resource is second.resource


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {
                "traceId": TRACE,
                "spanId": SPAN,
                "timeUnixNano": "7",
                "observedTimeUnixNano": "9",
                "severityText": "INFO",
                "eventName": "gen_ai.choice",
                "body": {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "1"}}]}},
            },
            LogRecord(TRACE, SPAN, 7, "gen_ai.choice", "INFO", {"k": 1}),
        ),
        (
            {"observedTimeUnixNano": 9, "attributes": [{"key": "event.name", "value": {"stringValue": "e"}}]},
            LogRecord(None, None, 9, "e", attributes={"event.name": "e"}),
        ),
        ({"time_unix_nano": "7", "body": {}, "trace_id": "0" * 32}, LogRecord(None, None, 7, None)),
        (
            {"timeUnixNano": "7", "attributes": [{"key": "event.name"}]},
            LogRecord(None, None, 7, None, attributes={"event.name": None}),
        ),
    ],
)
def test_a_log_record_is_read(record: dict[str, Any], expected: LogRecord) -> None:
    assert list(otlp_json.decode(logs(record))) == [expected]


def test_a_log_record_is_kept_without_a_time_and_dropped_with_a_bad_id() -> None:
    where = "resourceLogs[0].scopeLogs[0].logRecords"
    assert list(otlp_json.decode(logs({}, {"traceId": "x"}, 5))) == [
        LogRecord(None, None, 0, None),
        Problem(f"{where}[0]", "the log record has no time; it is kept at 1970", dropped=False),
        Problem(f"{where}[1]", "traceId is a text of 1 character; expected 32 hexadecimal digits"),
        Problem(f"{where}[2]", "a log record: expected a JSON object, found 5"),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trace_id": b""}, "no trace_id; expected 16 bytes, not all zero"),
        ({"span_id": bytes(8)}, "no span_id; expected 8 bytes, not all zero"),
        ({"span_id": b"abc"}, "span_id is 3 bytes; expected 8 bytes, not all zero"),
        ({"kind": 17}, "kind is 17; expected 0 to 5"),
        ({"kind": -1}, "kind is -1; expected 0 to 5"),
        (
            {"end_time_unix_nano": 2**63},
            "end_time_unix_nano is 9223372036854775808; expected nanoseconds since 1970, below 2^63",
        ),
    ],
)
def test_a_protobuf_span_that_cannot_be_read_is_a_problem_and_the_others_are_kept(
    changes: dict[str, Any], message: str
) -> None:
    request = ExportTraceServiceRequest()
    records = request.resource_spans.add().scope_spans.add().spans
    good = {
        "trace_id": bytes.fromhex(TRACE),
        "span_id": bytes.fromhex(SPAN),
        "name": "n",
        "start_time_unix_nano": 10,
        "end_time_unix_nano": 20,
    }
    records.add(**good | changes)
    records.add(**good)
    assert list(otlp_proto.decode(request)) == [Problem(PROTO_WHERE, message), PLAIN]


def test_a_protobuf_value_too_deep_is_a_problem_and_a_hundred_levels_are_kept() -> None:
    def request(levels: int) -> ExportTraceServiceRequest:
        message = ExportTraceServiceRequest()
        record = message.resource_spans.add().scope_spans.add().spans.add()
        record.trace_id, record.span_id, record.name = bytes.fromhex(TRACE), bytes.fromhex(SPAN), "n"
        record.start_time_unix_nano, record.end_time_unix_nano = 10, 20
        value = record.attributes.add(key="a").value
        for _ in range(levels - 1):
            value = value.array_value.values.add()
        value.int_value = 1
        return message

    assert list(otlp_proto.decode(request(101))) == [
        Problem(PROTO_WHERE, "a value nested deeper than 100 levels")
    ]
    [kept] = otlp_proto.decode(request(100))
    assert isinstance(kept, Span)


# What any two writers of OTLP may say: a JSON value, with bytes and numbers that are not finite.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
times = st.integers(0, 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | text | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
maps = st.dictionaries(text, values, max_size=4)


def any_value(value: Any) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
    message = AnyValue()
    if isinstance(value, list):
        message.array_value.SetInParent()
        message.array_value.values.extend(any_value(item) for item in value)
    else:
        message.kvlist_value.SetInParent()
        fill(message.kvlist_value.values, value)
    return message


def fill(attributes: Any, mapping: dict[str, Any]) -> None:
    for key, value in mapping.items():
        attributes.add(key=key, value=any_value(value))


def stored(value: Any) -> Any:
    """Return the JSON value that a span holds for a value."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return next(name for name, number in NOT_FINITE.items() if str(number) == str(value))
    if isinstance(value, list):
        return [stored(item) for item in value]
    if isinstance(value, dict):
        return {key: stored(item) for key, item in value.items()}
    return value


def with_hex_ids(document: Any) -> Any:
    """Return protobuf's own JSON mapping with its base64 ids as OTLP writes them."""
    if isinstance(document, list):
        return [with_hex_ids(item) for item in document]
    if not isinstance(document, dict):
        return document
    ids = {"traceId", "spanId", "parentSpanId"}
    return {
        key: b64decode(value).hex() if key in ids else with_hex_ids(value) for key, value in document.items()
    }


@st.composite
def exports(draw: st.DrawFn) -> tuple[ExportTraceServiceRequest, list[Span]]:
    request, expected = ExportTraceServiceRequest(), []
    ids = st.binary(min_size=8, max_size=8).filter(any)
    for _ in range(draw(st.integers(0, 2))):
        per_resource, resource = request.resource_spans.add(), draw(maps)
        fill(per_resource.resource.attributes, resource)
        per_scope = per_resource.scope_spans.add()
        per_scope.scope.name, per_scope.scope.version = draw(text), draw(text)
        for _ in range(draw(st.integers(0, 2))):
            record = per_scope.spans.add()
            record.trace_id, record.span_id = draw(ids) + draw(ids), draw(ids)
            record.parent_span_id = draw(
                st.just(b"") | ids.filter(lambda raw, own=record.span_id: raw != own)
            )
            record.name, record.trace_state = draw(text), draw(text)
            record.kind, record.status.code = draw(st.integers(0, 5)), draw(st.integers(0, 2))
            record.status.message = draw(text)
            record.start_time_unix_nano = draw(st.integers(1, 2**62))
            record.end_time_unix_nano = draw(st.integers(record.start_time_unix_nano, 2**63 - 1))
            attributes, event, link = draw(maps), draw(maps), draw(maps)
            fill(record.attributes, attributes)
            fill(record.events.add(name="e", time_unix_nano=draw(times)).attributes, event)
            fill(record.links.add(trace_id=record.trace_id, span_id=record.span_id).attributes, link)
            expected.append(
                Span(
                    trace_id=record.trace_id.hex(),
                    span_id=record.span_id.hex(),
                    parent_span_id=record.parent_span_id.hex() or None,
                    name=record.name,
                    kind=["INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"][record.kind],
                    start_ns=record.start_time_unix_nano,
                    end_ns=record.end_time_unix_nano,
                    status=["UNSET", "OK", "ERROR"][record.status.code],
                    status_message=record.status.message or None,
                    attributes=stored(attributes),
                    events=[
                        {"name": "e", "time_ns": record.events[0].time_unix_nano, "attributes": stored(event)}
                    ],
                    links=[
                        {
                            "trace_id": record.trace_id.hex(),
                            "span_id": record.span_id.hex(),
                            "attributes": stored(link),
                        }
                    ],
                    resource=stored(resource),
                    scope_name=per_scope.scope.name or None,
                    scope_version=per_scope.scope.version or None,
                    trace_state=record.trace_state or None,
                )
            )
    return request, expected


@given(exports())
def test_spans_are_the_same_from_protobuf_and_every_json_spelling(
    export: tuple[ExportTraceServiceRequest, list[Span]],
) -> None:
    request, expected = export
    document = MessageToDict(request)
    snake = MessageToDict(request, preserving_proto_field_name=True, use_integers_for_enums=True)
    assert list(otlp_proto.decode(request)) == expected
    assert list(otlp_json.decode(with_hex_ids(document))) == expected
    assert list(otlp_json.decode(document)) == expected
    assert list(otlp_json.decode(snake)) == expected


@given(maps, values, times.filter(bool), text, text, st.booleans())
def test_log_records_are_the_same_from_protobuf_and_every_json_spelling(
    attributes: dict[str, Any], body: Any, time: int, event_name: str, severity: str, observed: bool
) -> None:
    request = ExportLogsServiceRequest()
    record = (
        request.resource_logs.add()
        .scope_logs.add()
        .log_records.add(
            body=any_value(body), severity_text=severity, event_name=event_name, trace_id=bytes.fromhex(TRACE)
        )
    )
    fill(record.attributes, attributes)
    setattr(record, "observed_time_unix_nano" if observed else "time_unix_nano", time)
    expected = LogRecord(
        TRACE, None, time, event_name or None, severity or None, stored(body), stored(attributes)
    )
    document = MessageToDict(request)
    snake = MessageToDict(request, preserving_proto_field_name=True)
    assert list(otlp_proto.decode(request)) == [expected]
    assert list(otlp_json.decode(with_hex_ids(document))) == [expected]
    assert list(otlp_json.decode(document)) == [expected]
    assert list(otlp_json.decode(snake)) == [expected]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spans", "attributes", "key", "value", "traceId", "stringValue", "arrayValue", "values"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(json_values, json_values, json_values)
def test_no_json_breaks_the_decoder_and_no_good_span_is_lost(one: Any, two: Any, three: Any) -> None:
    document = {
        "resourceSpans": [
            one,
            {
                "resource": two,
                "scopeSpans": [three, {"spans": [one, span(attributes=two), span(events=three), span()]}],
            },
        ],
        "resourceLogs": two,
    }
    assert [record for record in otlp_json.decode(document) if isinstance(record, Span)][-1][:7] == PLAIN[:7]


@given(st.binary(max_size=200))
def test_bytes_at_random_are_no_export_request_or_decode_without_an_error(body: bytes) -> None:
    message = otlp_proto.parse(body)
    assert message is None or list(otlp_proto.decode(message))


@given(exports())
def test_the_bytes_of_an_export_request_are_known_for_spans(
    export: tuple[ExportTraceServiceRequest, list[Span]],
) -> None:
    request, expected = export
    assert otlp_proto.parse(request.SerializeToString()) == (request if expected else None)


@given(values, times.filter(bool), st.booleans())
def test_the_bytes_of_an_export_request_are_known_for_logs(body: Any, time: int, observed: bool) -> None:
    request = ExportLogsServiceRequest()
    record = (
        request.resource_logs.add()
        .scope_logs.add()
        .log_records.add(
            body=any_value(body),
            trace_id=bytes.fromhex(TRACE),
            span_id=bytes.fromhex(SPAN),
            severity_number=9,
        )
    )
    setattr(record, "observed_time_unix_nano" if observed else "time_unix_nano", time)
    assert otlp_proto.parse(request.SerializeToString()) == request
