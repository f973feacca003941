"""From a request's body to its answer: decoded, redacted, on disk. The same for HTTP and gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from spangrade.tracer.otlp import json as otlp_json
from spangrade.tracer.otlp import protobuf as otlp_proto
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.limits import Limits, Memory, busy, malformed, too_large, too_long
from spangrade.tracer.receiver.queue import Backlog
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store.arrow import Table, rows_of
from spangrade.tracer.store.spool import framed

Record = Span | LogRecord
Response = ExportTraceServiceResponse | ExportLogsServiceResponse
Encoding = Literal["protobuf", "json"]

_MOST_SAID = 5  # reasons in one answer


class Decoded(NamedTuple):
    """A request's records as a frame, and what could not be taken of it."""

    frame: bytes
    records: int
    rejected: int
    reasons: str


class Intake:
    """Takes bodies in; its answer means that what it took is on disk."""

    def __init__(
        self,
        backlog: Backlog,
        limits: Limits,
        counters: Counters,
        redact: Callable[[Record], Record] | None = None,
    ) -> None:
        self.limits = limits
        self.counters = counters
        self.memory = Memory(limits.pending_bytes)
        self._backlog = backlog
        self._redact = redact
        # One at a time: decoding holds the interpreter, and its memory is the many times of the body's.
        self._decoder = ThreadPoolExecutor(1, "decode")

    async def take(self, signal: Table, body: bytes, encoding: Encoding) -> Response:
        """Return the answer to a request for spans or logs; raises Refusal."""
        if self._backlog.full():
            raise busy("the database has not taken in what came before: send again in 5 seconds", 5)
        loop = asyncio.get_running_loop()
        decoded = await loop.run_in_executor(
            self._decoder, decode, signal, body, encoding, self.limits, self._redact
        )
        if decoded.frame:
            await self._backlog.put(decoded.frame)
        self.counters.accepted.labels(signal).inc(decoded.records)
        self.counters.rejected.labels(signal).inc(decoded.rejected)
        return _response(signal, decoded.rejected, decoded.reasons)

    def close(self) -> None:
        """Let the decoder go."""
        self._decoder.shutdown()


def decode(
    signal: Table,
    body: bytes,
    encoding: Encoding,
    limits: Limits,
    redact: Callable[[Record], Record] | None = None,
) -> Decoded:
    """Return what a body holds; raises Refusal where it cannot be read at all."""
    found = _from_json(signal, body) if encoding == "json" else _from_protobuf(signal, body)
    records: list[Record] = []
    reasons: list[str] = []
    rejected = 0
    check = len(body) > limits.value_chars
    for record in found:
        only_odd = isinstance(record, Problem) and not record.dropped  # the record itself came before it
        if len(records) + rejected == limits.records and not only_odd:
            raise too_large(f"more than {limits.records} records in one request: send smaller batches")
        if isinstance(record, Problem):
            rejected += record.dropped
            if len(reasons) < _MOST_SAID:
                reasons.append(f"{record.where}: {record.message}")
            continue
        if check and (reason := too_long(record, limits.value_chars)):
            rejected += 1
            if len(reasons) < _MOST_SAID:
                reasons.append(reason)
            continue
        records.append(redact(record) if redact else record)
    frame = framed(rows_of(records)) if records else b""
    return Decoded(frame, len(records), rejected, "; ".join(reasons))


def _from_json(signal: Table, body: bytes) -> Iterable[Record | Problem]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise malformed(f"not JSON: {error}") from None
    expected, other = (
        ("resourceSpans", "resourceLogs") if signal == "spans" else ("resourceLogs", "resourceSpans")
    )
    if not isinstance(document, Mapping):
        raise malformed(f'a JSON value of another kind; right is an object {{"{expected}": [...]}}')
    named = {_camel(key): value for key, value in document.items()}
    if other in named:
        raise malformed(f"{other} where {expected} belong: it goes to another path")
    if not isinstance(named.get(expected, []), list | None):
        raise malformed(f"{expected} is no list")
    return otlp_json.decode({expected: named.get(expected)})


def _camel(key: str) -> str:
    return {"resource_spans": "resourceSpans", "resource_logs": "resourceLogs"}.get(key, key)


def _from_protobuf(signal: Table, body: bytes) -> Iterable[Record | Problem]:
    kind: Any = ExportTraceServiceRequest if signal == "spans" else ExportLogsServiceRequest
    try:
        message = kind.FromString(body)
    except DecodeError as error:
        raise malformed(f"not an {kind.DESCRIPTOR.name}: {error}") from None
    return otlp_proto.decode(message)


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
