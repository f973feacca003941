"""From a request's body to its answer: decode, redact, write to disk. The same for HTTP and gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import orjson
from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from spangrade.tracer.otlp import json as otlp_json
from spangrade.tracer.otlp import protobuf as otlp_proto
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.limits import (
    Limits,
    MemoryBudget,
    malformed,
    too_large,
    too_long,
    unavailable,
    unzipped,
)
from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store.arrow import Table, rows_of
from spangrade.tracer.store.spool import to_frames

Record = Span | LogRecord
Response = ExportTraceServiceResponse | ExportLogsServiceResponse
Encoding = Literal["protobuf", "json"]

_MAX_REASONS = 5  # in one answer
NotKept = Literal["metrics", "profiles"]
_REQUESTS: dict[NotKept, Any] = {
    "metrics": ExportMetricsServiceRequest,
    "profiles": ExportProfilesServiceRequest,
}


class Decoded(NamedTuple):
    """A request's records as a frame, and the reasons for those that were rejected."""

    frame: bytes
    records: int
    rejected: int
    reasons: str


class Ingest:
    """Accepts export requests. When it returns, the accepted records are on disk."""

    def __init__(
        self,
        queue: SpoolQueue,
        limits: Limits,
        counters: Counters,
        redact: Callable[[Record], Record] | None = None,
    ) -> None:
        self.limits = limits
        self.counters = counters
        self.memory = MemoryBudget(limits.pending_bytes)
        self._queue = queue
        self.redact = redact  # may be replaced at any time
        # One at a time: decoding holds the GIL, and needs many times the body's memory.
        self._decoder = ThreadPoolExecutor(1, "decode")

    async def __call__(self, signal: Table, body: bytes, encoding: Encoding, peer: str) -> Response:
        """Return the answer to a request that exports spans or logs; raise RejectedError if there is none."""
        if self._queue.full():
            raise unavailable("the spool is full: send again in 5 seconds", 5)
        loop = asyncio.get_running_loop()
        decoded = await loop.run_in_executor(
            self._decoder, decode, signal, body, encoding, self.limits, self.redact
        )
        if decoded.frame:
            await self._queue.put(decoded.frame)
        self.counters.accepted.labels(signal).inc(decoded.records)
        if decoded.rejected:
            self.counters.rejected.labels(signal).inc(decoded.rejected)
            self.counters.log_rejected_records(signal, decoded.rejected, peer, decoded.reasons)
        return _response(signal, decoded.rejected, decoded.reasons)

    async def unzip(self, body: bytes) -> bytes:
        """Return the content of a gzip body; raise RejectedError if it is broken or exceeds the limit."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._decoder, unzipped, body, self.limits.decompressed_bytes)

    def close(self) -> None:
        """Stop the decoder's thread."""
        self._decoder.shutdown()


def decode(
    signal: Table,
    body: bytes,
    encoding: Encoding,
    limits: Limits,
    redact: Callable[[Record], Record] | None = None,
) -> Decoded:
    """Return the content of a body; raise RejectedError if it cannot be read at all."""
    decoded = _from_json(signal, body) if encoding == "json" else _from_protobuf(signal, body)
    records: list[Record] = []
    reasons: list[str] = []
    rejected = 0
    check = len(body) > limits.value_chars
    for record in decoded:
        is_warning = isinstance(record, Problem) and not record.dropped  # about the record before it
        if len(records) + rejected == limits.records and not is_warning:
            raise too_large(f"more than {limits.records} records in one request: send smaller batches")
        if isinstance(record, Problem):
            rejected += record.dropped
            if len(reasons) < _MAX_REASONS:
                reasons.append(f"{record.where}: {record.message}")
            continue
        if check and (reason := too_long(record, limits.value_chars)):
            rejected += 1
            if len(reasons) < _MAX_REASONS:
                reasons.append(reason)
            continue
        records.append(redact(record) if redact else record)
    frame = to_frames(rows_of(records)) if records else b""
    return Decoded(frame, len(records), rejected, "; ".join(reasons))


def _from_json(signal: Table, body: bytes) -> Iterable[Record | Problem]:
    try:
        document, not_utf_8 = otlp_json.loads(body)
    except orjson.JSONDecodeError as error:
        raise malformed(f"not JSON: {error}") from None
    expected, other = (
        ("resourceSpans", "resourceLogs") if signal == "spans" else ("resourceLogs", "resourceSpans")
    )
    if not isinstance(document, Mapping):
        raise malformed(f'expected a JSON object {{"{expected}": [...]}}, found another JSON value')
    if not_utf_8 and any(not_utf_8 in key for key in document):
        raise malformed("not JSON: a key of the request is not UTF-8")
    named = {_camel(key): value for key, value in document.items()}
    if other in named:
        raise malformed(f"expected {expected}, found {other}: send it to the other path")
    if not isinstance(named.get(expected, []), list | None):
        raise malformed(f"{expected} is not a list")
    return otlp_json.decode({expected: named.get(expected)}, not_utf_8)


def _camel(key: str) -> str:
    return {"resource_spans": "resourceSpans", "resource_logs": "resourceLogs"}.get(key, key)


def _from_protobuf(signal: Table, body: bytes) -> Iterable[Record | Problem]:
    kind: Any = ExportTraceServiceRequest if signal == "spans" else ExportLogsServiceRequest
    try:
        return otlp_proto.decode(kind.FromString(body))
    except DecodeError as error:
        try:
            return otlp_proto.decode_leniently(body, signal)
        except DecodeError:
            raise malformed(f"not an {kind.DESCRIPTOR.name}: {error}") from None


def _response(signal: Table, rejected: int, reasons: str) -> Response:
    if signal == "spans":
        spans = ExportTraceServiceResponse()
        if reasons:
            spans.partial_success.rejected_spans = rejected
            spans.partial_success.error_message = reasons
        return spans
    logs = ExportLogsServiceResponse()
    if reasons:
        logs.partial_success.rejected_log_records = rejected
        logs.partial_success.error_message = reasons
    return logs


def answer_to(
    signal: NotKept, body: bytes, encoding: str
) -> ExportMetricsServiceResponse | ExportProfilesServiceResponse:
    """Return the answer that rejects all metrics or profiles of a request, which are counted and not kept.

    Raises RejectedError if the request cannot be read.
    """
    request = _REQUESTS[signal]()
    try:
        if encoding == "json":
            Parse(body, request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(body)
    except (DecodeError, ParseError, UnicodeDecodeError) as error:
        raise malformed(f"the request is not OTLP {signal}: {type(error).__name__}") from None
    message = f"spangrade keeps spans and logs: {signal} are dropped; do not send them here"
    if signal == "profiles":
        profiles = ExportProfilesServiceResponse()
        profiles.partial_success.rejected_profiles = sum(
            len(scope.profiles) for resource in request.resource_profiles for scope in resource.scope_profiles
        )
        profiles.partial_success.error_message = message
        return profiles
    metrics = ExportMetricsServiceResponse()
    metrics.partial_success.rejected_data_points = sum(
        len(getattr(metric, kind).data_points)
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if (kind := metric.WhichOneof("data"))
    )
    metrics.partial_success.error_message = message
    return metrics
