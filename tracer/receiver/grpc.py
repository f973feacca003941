"""OTLP over gRPC: https://opentelemetry.io/docs/specs/otlp/#otlpgrpc."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from spangrade.tracer.receiver.http import authorised
from spangrade.tracer.receiver.ingest import Intake
from spangrade.tracer.receiver.limits import Refusal, too_large
from spangrade.tracer.store.arrow import Table

_SERVICES: dict[str, Table] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "spans",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
}
_CALLS_AT_ONCE = 64


def server(intake: Intake, token: str | None) -> grpc.aio.Server:
    """Return a gRPC server without a port yet."""
    limits = intake.limits
    made = grpc.aio.server(
        options=[("grpc.max_receive_message_length", limits.body_bytes), ("grpc.so_reuseport", 0)],
        maximum_concurrent_rpcs=_CALLS_AT_ONCE,
    )
    made.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                name, {"Export": grpc.unary_unary_rpc_method_handler(_export(intake, signal, token))}
            )
            for name, signal in _SERVICES.items()
        ]
    )
    return made


def _export(intake: Intake, signal: Table, token: str | None) -> Any:
    def count(signal: Table, code: grpc.StatusCode) -> None:
        intake.counters.requests.labels("grpc", signal, code.name).inc()

    # Without a deserialiser the body arrives as bytes: it is parsed where HTTP's is.
    async def answer(body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            if token:
                _authorise(context, token)
            if len(body) > intake.limits.decompressed_bytes:
                raise too_large(f"the message is more than {intake.limits.decompressed_bytes} bytes")
            with intake.memory.share() as share:
                share.take(len(body))
                reply = (await intake.take(signal, body, "protobuf")).SerializeToString()
        except Refusal as refusal:
            count(signal, refusal.grpc)
            await context.abort(refusal.grpc, refusal.message, _details(refusal))  # raises
        count(signal, grpc.StatusCode.OK)
        return reply

    return answer


def _authorise(context: grpc.aio.ServicerContext[bytes, bytes], token: str) -> None:
    metadata = dict(context.invocation_metadata() or ())
    header = metadata.get("authorization")
    if not authorised(header if isinstance(header, str) else None, token):
        raise Refusal(
            401, grpc.StatusCode.UNAUTHENTICATED, "no token, or a wrong one: authorization: Bearer TOKEN"
        )


def _details(refusal: Refusal) -> tuple[tuple[str, bytes], ...]:
    """Return the metadata that tells an exporter when to send again."""
    if refusal.retry_after_s is None:
        return ()
    status = Status(code=refusal.grpc.value[0], message=refusal.message)
    detail = AnyMessage()
    detail.Pack(RetryInfo(retry_delay=Duration(seconds=refusal.retry_after_s)))
    status.details.append(detail)
    return (("grpc-status-details-bin", status.SerializeToString()),)
