"""OTLP over gRPC: https://opentelemetry.io/docs/specs/otlp/#otlpgrpc."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from spangrade.tracer.receiver.access import Access
from spangrade.tracer.receiver.ingest import Ingest, NotKept, answer_to
from spangrade.tracer.receiver.limits import Limits, RejectedError, malformed, too_large
from spangrade.tracer.store.arrow import Table

_SERVICES: dict[str, Table | NotKept] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "spans",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
    "opentelemetry.proto.collector.profiles.v1development.ProfilesService": "profiles",
}
_CONCURRENT_CALLS = 64
_IDLE_MS = 300_000  # exporters connect again


def server(ingest: Ingest, access: Access) -> grpc.aio.Server:
    """Return a gRPC server that does not listen yet."""
    limits = ingest.limits
    made = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", limits.body_bytes),
            ("grpc.max_allowed_incoming_connections", limits.connections),  # also those in their handshake
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", int(limits.headers_s * 1000)),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.http2.bdp_probe", 0),  # otherwise MiBs are received before a message is read
        ],
        maximum_concurrent_rpcs=_CONCURRENT_CALLS,
    )
    # On the wire a call with one message is a call with a stream of them: as a stream, the message is read by
    # the handler, after the token was checked. Without a deserializer it arrives as bytes.
    made.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                name, {"Export": grpc.stream_unary_rpc_method_handler(_export(ingest, signal, access))}
            )
            for name, signal in _SERVICES.items()
        ]
    )
    return made


def _export(ingest: Ingest, signal: Table | NotKept, access: Access) -> Any:
    limits = ingest.limits

    def count(code: grpc.StatusCode) -> None:
        ingest.counters.requests.labels("grpc", signal, code.name).inc()

    async def answer(
        messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> bytes:
        try:
            metadata = context.invocation_metadata() or ()
            access.check({key: value for key, value in metadata if isinstance(value, str)})
            body = await _message(messages, limits)
            if len(body) > limits.decompressed_bytes:
                raise too_large(f"the message is more than {limits.decompressed_bytes} bytes")
            with ingest.memory.reservation() as reservation:
                reservation.add(len(body))
                message: Message
                if signal == "spans" or signal == "logs":
                    message = await ingest(signal, body, "protobuf", context.peer())
                else:
                    message = await asyncio.to_thread(answer_to, signal, body, "protobuf")
                reply = message.SerializeToString()
        except RejectedError as rejected:
            count(rejected.grpc)
            ingest.counters.log_rejected(rejected.http, context.peer(), rejected.message)
            await context.abort(rejected.grpc, rejected.message, _details(rejected))  # raises
        count(grpc.StatusCode.OK)
        return reply

    return answer


async def _message(messages: AsyncIterator[bytes], limits: Limits) -> bytes:
    try:
        async with asyncio.timeout(limits.read_s):
            async for message in messages:
                return message
    except TimeoutError:
        raise RejectedError(
            408, grpc.StatusCode.DEADLINE_EXCEEDED, f"no message arrived within {limits.read_s:g} s"
        ) from None
    raise malformed("the call has no message")


def _details(rejected: RejectedError) -> tuple[tuple[str, bytes], ...]:
    """Return the metadata from which an exporter reads when to send again."""
    if rejected.retry_after_s is None:
        return ()
    status = Status(code=rejected.grpc.value[0], message=rejected.message)
    detail = AnyMessage()
    detail.Pack(RetryInfo(retry_delay=Duration(seconds=rejected.retry_after_s)))
    status.details.append(detail)
    return (("grpc-status-details-bin", status.SerializeToString()),)
