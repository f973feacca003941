"""Recordings of other programs: what becomes of each part, and of parts that cannot be read."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from spangrade import InputError
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store.arrow import rows_of

TRACE, TRACE_64 = "0af7651916cd43dd8448eb211c80319c", "d3a30228b377bc9c"
CHILD, ROOT = "b7ad6b7169203331", "00f067aa0ba902b7"
START = 1_795_291_527_967_000_000

JAEGER = {
    "data": [
        {
            "traceID": TRACE_64,
            "spans": [
                {
                    "traceID": TRACE_64,
                    "spanID": CHILD,
                    "operationName": "chat gpt-4o",
                    "references": [
                        {"refType": "CHILD_OF", "traceID": TRACE_64, "spanID": ROOT[2:]},
                        {"refType": "FOLLOWS_FROM", "traceID": TRACE, "spanID": ROOT},
                    ],
                    "startTime": START // 1000,
                    "duration": 1500,
                    "tags": [
                        {"key": "gen_ai.request.model", "type": "string", "value": "gpt-4o"},
                        {"key": "gen_ai.response.finish_reasons", "type": "string", "value": '["stop"]'},
                        {"key": "gen_ai.usage.input_tokens", "type": "int64", "value": "20"},
                        {"key": "stream", "type": "bool", "value": True},
                        {"key": "temperature", "type": "float64", "value": 0.5},
                        {"key": "span.kind", "type": "string", "value": "client"},
                        {"key": "otel.scope.name", "type": "string", "value": "shop"},
                        {"key": "otel.scope.version", "type": "string", "value": "1.2"},
                        {"key": "otel.status_code", "type": "string", "value": "ERROR"},
                        {"key": "otel.status_description", "type": "string", "value": "too slow"},
                        {"key": "error", "type": "bool", "value": True},
                        {"key": "w3c.tracestate", "type": "string", "value": "a=1"},
                        {"key": "internal.span.format", "type": "string", "value": "otlp"},
                    ],
                    "logs": [
                        {
                            "timestamp": START // 1000 + 5,
                            "fields": [
                                {"key": "event", "type": "string", "value": "exception"},
                                {"key": "exception.type", "type": "string", "value": "KeyError"},
                            ],
                        }
                    ],
                    "processID": "p1",
                    "warnings": None,
                }
            ],
            "processes": {
                "p1": {
                    "serviceName": "shop",
                    "tags": [{"key": "host.name", "type": "string", "value": "a"}],
                }
            },
        }
    ],
    "total": 0,
}
FROM_JAEGER = Span(
    trace_id=TRACE_64.zfill(32),
    span_id=CHILD,
    parent_span_id=ROOT,
    name="chat gpt-4o",
    kind="CLIENT",
    start_ns=START,
    end_ns=START + 1_500_000,
    status="ERROR",
    status_message="too slow",
    attributes={
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 20,
        "stream": True,
        "temperature": 0.5,
    },
    events=[
        {"name": "exception", "time_ns": START + 5000, "attributes": {"exception.type": "KeyError"}},
    ],
    links=[{"trace_id": TRACE, "span_id": ROOT, "attributes": {}}],
    resource={"host.name": "a", "service.name": "shop"},
    scope_name="shop",
    scope_version="1.2",
    trace_state="a=1",
)
ZIPKIN = [
    {
        "traceId": TRACE,
        "id": CHILD,
        "parentId": ROOT,
        "name": "execute_tool search",
        "kind": "CLIENT",
        "timestamp": START // 1000,
        "duration": 1500,
        "localEndpoint": {"serviceName": "shop"},
        "tags": {"gen_ai.tool.name": "search", "error": "no soil", "otel.scope.name": "shop"},
        "annotations": [
            {"timestamp": START // 1000, "value": "retry"},
            {"timestamp": START // 1000, "value": '{"exception": {"exception.type": "KeyError"}}'},
        ],
    }
]
FROM_ZIPKIN = Span(
    trace_id=TRACE,
    span_id=CHILD,
    parent_span_id=ROOT,
    name="execute_tool search",
    kind="CLIENT",
    start_ns=START,
    end_ns=START + 1_500_000,
    status="ERROR",
    status_message="no soil",
    attributes={"gen_ai.tool.name": "search", "error": "no soil"},
    events=[
        {"name": "retry", "time_ns": START, "attributes": {}},
        {"name": "exception", "time_ns": START, "attributes": {"exception.type": "KeyError"}},
    ],
    resource={"service.name": "shop"},
    scope_name="shop",
)
LANGFUSE = [
    {
        "id": "my-trace",
        "sessionId": "c1",
        "userId": "u1",
        "name": "shop",
        "observations": [
            {
                "id": "2f0e4d8e-5b6f-4b5e-9d3c-7d1a0f1c2b3a",
                "traceId": "my-trace",
                "type": "GENERATION",
                "name": "answer",
                "startTime": "2026-11-21T20:05:27.967Z",
                "endTime": None,
                "parentObservationId": None,
                "level": "ERROR",
                "statusMessage": "too slow",
                "model": "gpt-4o",
                "input": [{"role": "user", "content": "Any soil?"}],
                "output": "Yes, 5 l.",
                "usageDetails": {"input": 20, "output": 5, "total": 25},
                "metadata": {"tier": 1},
            }
        ],
    }
]
FROM_LANGFUSE = Span(
    trace_id=sha256(b"my-trace").hexdigest()[:32],
    span_id=sha256(b"2f0e4d8e-5b6f-4b5e-9d3c-7d1a0f1c2b3a").hexdigest()[:16],
    parent_span_id=None,
    name="answer",
    kind="INTERNAL",
    start_ns=START,
    end_ns=START,
    status="ERROR",
    status_message="too slow",
    attributes={
        "session.id": "c1",
        "user.id": "u1",
        "langfuse.trace.name": "shop",
        "langfuse.observation.type": "generation",
        "langfuse.observation.level": "ERROR",
        "langfuse.observation.status_message": "too slow",
        "langfuse.observation.model.name": "gpt-4o",
        "langfuse.observation.input": '[{"role":"user","content":"Any soil?"}]',
        "langfuse.observation.output": "Yes, 5 l.",
        "langfuse.observation.usage_details": '{"input":20,"output":5,"total":25}',
        "langfuse.observation.metadata.tier": "1",
    },
)
PHOENIX = [
    {
        "name": "search",
        "span_kind": "TOOL",
        "parent_id": ROOT,
        "start_time": START // 10**6,
        "end_time": "2026-11-21T20:05:28.067123456+00:00",
        "status_code": "ERROR",
        "status_message": "no soil",
        "events": [
            {
                "name": "exception",
                "timestamp": "2026-11-21T20:05:27.967+00:00",
                "attributes": {"exception.type": "KeyError"},
            }
        ],
        "context.span_id": CHILD,
        "context.trace_id": TRACE,
        "attributes.tool.name": "search",
        "attributes.tool.parameters": {"q": "soil", "size": None},
        "attributes.llm.token_count.prompt": 20.0,
        "attributes.llm.input_messages": [{"message.role": "user", "message.content": None}],
        "attributes.llm.model_name": None,
    }
]
FROM_PHOENIX = Span(
    trace_id=TRACE,
    span_id=CHILD,
    parent_span_id=ROOT,
    name="search",
    kind="INTERNAL",
    start_ns=START,
    end_ns=START + 100_123_456,
    status="ERROR",
    status_message="no soil",
    attributes={
        "tool.name": "search",
        "tool.parameters": '{"q":"soil"}',
        "llm.token_count.prompt": 20,
        "llm.input_messages.0.message.role": "user",
        "openinference.span.kind": "TOOL",
    },
    events=[{"name": "exception", "time_ns": START, "attributes": {"exception.type": "KeyError"}}],
)
STORED = Span(
    trace_id=TRACE,
    span_id=CHILD,
    parent_span_id=None,
    name="chat",
    kind="CLIENT",
    start_ns=10,
    end_ns=30,
    status="OK",
    attributes={"gen_ai.usage.input_tokens": 20},
    events=[{"name": "e", "time_ns": 12, "attributes": {"n": 1}}],
    links=[{"trace_id": TRACE, "span_id": ROOT, "attributes": {}}],
    resource={"service.name": "shop"},
    scope_name="shop",
)
ROWS = [
    {
        **STORED._asdict(),
        "attributes": '{"gen_ai.usage.input_tokens":20}',
        "events": '[{"name":"e","time_ns":12,"attributes":{"n":1}}]',
        "seq": 1,
    }
]
CLICKHOUSE = [
    {
        "Timestamp": "1970-01-01 00:00:00.000000010",
        "TraceId": TRACE,
        "SpanId": CHILD,
        "ParentSpanId": "",
        "SpanName": "chat",
        "SpanKind": "Client",
        "ServiceName": "shop",
        "ResourceAttributes": {"service.name": "shop"},
        "ScopeName": "shop",
        "ScopeVersion": "",
        "SpanAttributes": {"gen_ai.usage.input_tokens": "20"},
        "Duration": 20,
        "StatusCode": "Ok",
        "StatusMessage": "",
        "Events": {"Timestamp": ["12"], "Name": ["e"], "Attributes": [{"n": "1"}]},
        "Links": [{"TraceId": TRACE, "SpanId": ROOT, "TraceState": "", "Attributes": {}}],
    }
]
DUCKDB_OTLP = [
    {
        "start_time_unix_nano": 10,
        "duration_time_unix_nano": 20,
        "trace_id": TRACE,
        "span_id": CHILD,
        "parent_span_id": None,
        "service_name": "shop",
        "name": "chat",
        "kind": 3,
        "status_code": 1,
        "status_status_message": None,
        "resource_attributes": '{"service.name":"shop"}',
        "scope_name": "shop",
        "span_attributes": '{"gen_ai.usage.input_tokens":20}',
        "events_json": '[{"name":"e","time_unix_nano":12,"attributes":{"n":1}}]',
        "links_json": f'[{{"trace_id":"{TRACE}","span_id":"{ROOT}"}}]',
    }
]
LOG = LogRecord(
    TRACE, CHILD, 12, "gen_ai.choice", "INFO", {"n": 1}, {"a": 1}, {"service.name": "shop"}, "shop"
)
LOGS = [LOG._asdict() | {"body": '{"n":1}', "attributes": '{"a":1}'}]
SAMPLES: dict[str, tuple[Any, Span | LogRecord]] = {
    "Jaeger": (JAEGER, FROM_JAEGER),
    "Jaeger, one trace": (JAEGER["data"][0], FROM_JAEGER),
    "Zipkin": (ZIPKIN, FROM_ZIPKIN),
    "Zipkin, traces": ([ZIPKIN], FROM_ZIPKIN),
    "Langfuse": (LANGFUSE, FROM_LANGFUSE),
    "Phoenix": (PHOENIX, FROM_PHOENIX),
    "Phoenix, one row": (PHOENIX[0], FROM_PHOENIX),
    "rows": (ROWS, STORED),
    "ClickHouse": (
        CLICKHOUSE,
        STORED._replace(
            attributes={"gen_ai.usage.input_tokens": "20"},
            events=[{"name": "e", "time_ns": 12, "attributes": {"n": "1"}}],
        ),
    ),
    "duckdb-otlp": (DUCKDB_OTLP, STORED),
    "logs": (LOGS, LOG),
}


def found_in(document: Any, folder: Path) -> list[Span | LogRecord | Problem]:
    path = folder / "recording"
    path.write_text(json.dumps(document))
    return list(read(path))


@pytest.mark.parametrize(("document", "expected"), SAMPLES.values(), ids=SAMPLES.keys())
def test_every_part_of_a_span_is_read(document: Any, expected: Span | LogRecord, tmp_path: Path) -> None:
    assert found_in(document, tmp_path) == [expected]


def test_a_bad_span_is_lost_alone(tmp_path: Path) -> None:
    trace = JAEGER["data"][0]
    (span,) = trace["spans"]
    document = {"data": [{**trace, "spans": [{**span, "startTime": "soon"}, span]}]}
    problem = Problem("data[0].spans[0]", "startTime: expected a number of 64 bits, not below zero")
    found = found_in(document, tmp_path)
    assert found == [problem._replace(where=f"{tmp_path / 'recording'} {problem.where}"), FROM_JAEGER]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    part = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return changed


DEEP: Any = 1
for _ in range(200):
    DEEP = [DEEP]
HOSTILE = [
    None,
    True,
    -1,
    2**63,
    10**30,
    1e300,
    math.nan,
    math.inf,
    "",
    "x" * 3,
    "\x00",
    [],
    {},
    [1],
    {"a": {"b": [None]}},
    [[]],
    DEEP,
]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.short_form("name", 9)
def test_no_value_breaks_a_reader(name: str, tmp_path: Path) -> None:
    document, _ = SAMPLES[name]
    for path in places(document):
        for value in HOSTILE:
            try:
                found = found_in(replaced(document, path, value), tmp_path)
            except InputError as error:
                assert "\n" not in str(error)  # noqa: PT017 (most values leave the format recognizable)
                continue
            rows_of(record for record in found if not isinstance(record, Problem))
