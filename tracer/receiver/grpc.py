"""OTLP over gRPC: https://opentelemetry.io/docs/specs/otlp/#otlpgrpc."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from spangrade.tracer.receiver.http import has_token
from spangrade.tracer.receiver.ingest import Ingest
from spangrade.tracer.receiver.limits import RejectedError, too_large
from spangrade.tracer.store.arrow import Table

_SERVICES: dict[str, Table] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "spans",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
}
_CONCURRENT_CALLS = 64


def server(ingest: Ingest, token: str | None) -> grpc.aio.Server:
    """Return a gRPC server that does not listen yet."""
    limits = ingest.limits
    made = grpc.aio.server(
        options=[("grpc.max_receive_message_length", limits.body_bytes), ("grpc.so_reuseport", 0)],
        maximum_concurrent_rpcs=_CONCURRENT_CALLS,
    )
    made.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                name, {"Export": grpc.unary_unary_rpc_method_handler(_export(ingest, signal, token))}
            )
            for name, signal in _SERVICES.items()
        ]
    )
    return made


def _export(ingest: Ingest, signal: Table, token: str | None) -> Any:
    limits = ingest.limits

    def count(code: grpc.StatusCode) -> None:
        ingest.counters.requests.labels("grpc", signal, code.name).inc()

    # Without a deserializer the body arrives as bytes, and is parsed like a body over HTTP.
    async def answer(body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            if token:
                _authorise(context, token)
            if len(body) > limits.decompressed_bytes:
                raise too_large(f"the message is more than {limits.decompressed_bytes} bytes")
            with ingest.memory.reservation() as reservation:
                reservation.add(len(body))
                reply = (await ingest(signal, body, "protobuf")).SerializeToString()
        except RejectedError as rejected:
            count(rejected.grpc)
            await context.abort(rejected.grpc, rejected.message, _details(rejected))  # raises
        count(grpc.StatusCode.OK)
        return reply

    return answer


def _authorise(context: grpc.aio.ServicerContext[bytes, bytes], token: str) -> None:
    metadata = dict(context.invocation_metadata() or ())
    header = metadata.get("authorization")
    if not has_token(header if isinstance(header, str) else None, token):
        raise RejectedError(
            401,
            grpc.StatusCode.UNAUTHENTICATED,
            "missing or wrong token: expected authorization: Bearer TOKEN",
        )


def _details(rejected: RejectedError) -> tuple[tuple[str, bytes], ...]:
    """Return the metadata from which an exporter reads when to send again."""
    if rejected.retry_after_s is None:
        return ()
    status = Status(code=rejected.grpc.value[0], message=rejected.message)
    detail = AnyMessage()
    detail.Pack(RetryInfo(retry_delay=Duration(seconds=rejected.retry_after_s)))
    status.details.append(detail)
    return (("grpc-status-details-bin", status.SerializeToString()),)
