"""OTLP over HTTP: https://opentelemetry.io/docs/specs/otlp/#otlphttp."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from spangrade.tracer.receiver.access import Access
from spangrade.tracer.receiver.ingest import Encoding, Ingest, NotKept, answer_to
from spangrade.tracer.receiver.limits import RejectedError, Reservation, too_large
from spangrade.tracer.store.arrow import Table

_ENCODINGS: dict[str, Encoding] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_TYPES = {encoding: name for name, encoding in _ENCODINGS.items()}


def application(
    ingest: Ingest,
    access: Access,
    health: Callable[[], Mapping[str, object]],
    readiness: Callable[[], Mapping[str, object]],
) -> Starlette:
    """Return the ASGI application; with a token, every path but /healthz and /readyz requires it."""

    def export(signal: Table | NotKept, path: str) -> Route:
        async def answer(request: Request) -> Response:
            encoding: Encoding = "json"
            peer = request.client.host if request.client else "an unknown address"
            try:
                access.check(request.headers)
                encoding = _encoding(request)
                with ingest.memory.reservation() as reservation:
                    body = await _body(request, ingest, reservation)
                    reply: Message
                    if signal == "spans" or signal == "logs":
                        reply = await ingest(signal, body, encoding, peer)
                    else:
                        reply = await asyncio.to_thread(answer_to, signal, body, encoding)
                response = _encoded(reply, encoding, 200)
            except RejectedError as rejected:
                response = _rejection(rejected, encoding)
                ingest.counters.log_rejected(response.status_code, peer, rejected.message)
            except ClientDisconnect:
                response = Response(status_code=400)  # nobody receives it
            ingest.counters.requests.labels("http", signal, response.status_code).inc()
            return response

        return Route(path, answer, methods=["POST"])

    def states(path: str, state_of: Callable[[], Mapping[str, object]], good: str) -> Route:
        async def answer(request: Request) -> Response:
            try:
                access.check_page(request.headers)
            except RejectedError as rejected:
                return _rejection(rejected, "json")
            state = state_of()
            code = 200 if state["status"] == good else 503
            return Response(json.dumps(state), code, media_type="application/json")

        return Route(path, answer)

    async def metrics(request: Request) -> Response:
        try:
            access.check(request.headers, "read")
        except RejectedError as rejected:
            return _rejection(rejected, "json")
        return Response(ingest.counters.text(), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            export("spans", "/v1/traces"),
            export("logs", "/v1/logs"),
            export("metrics", "/v1/metrics"),
            export("profiles", "/v1development/profiles"),
            states("/healthz", health, "ok"),
            states("/readyz", readiness, "ready"),
            Route("/metrics", metrics),
        ],
        exception_handlers={404: _no_such_path, 405: _wrong_method},
    )


def _no_such_path(request: Request, _: Exception) -> Response:
    paths = "/v1/traces, /v1/logs, /healthz, /readyz, /metrics"
    rejected = RejectedError(404, StatusCode.UNIMPLEMENTED, f"no such path: expected one of {paths}")
    return _rejection(rejected, _encoding_or_json(request))


def _wrong_method(request: Request, error: Exception) -> Response:
    rejected = RejectedError(405, StatusCode.UNIMPLEMENTED, f"{request.method} is not allowed here")
    response = _rejection(rejected, _encoding_or_json(request))
    response.headers.update(getattr(error, "headers", None) or {})  # Allow
    return response


def _encoding(request: Request) -> Encoding:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _ENCODINGS:
        return _ENCODINGS[kind]
    raise RejectedError(
        415, StatusCode.INVALID_ARGUMENT, f"content type {kind[:80]!r}: send {' or '.join(_ENCODINGS)}"
    )


def _encoding_or_json(request: Request) -> Encoding:
    try:
        return _encoding(request)
    except RejectedError:
        return "json"


async def _body(request: Request, ingest: Ingest, reservation: Reservation) -> bytes:
    limits = ingest.limits
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("gzip", "identity", ""):
        raise RejectedError(
            415, StatusCode.INVALID_ARGUMENT, f"content encoding {coding[:80]!r}: send gzip or none"
        )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limits.body_bytes:
        raise too_large(f"the body is {length[:20]} bytes; the limit is {limits.body_bytes}")
    whole = bytearray()
    try:
        async with asyncio.timeout(limits.read_s):
            async for chunk in request.stream():
                reservation.add(len(chunk))
                whole += chunk
                if len(whole) > limits.body_bytes:
                    raise too_large(f"the body is larger than {limits.body_bytes} bytes")
    except TimeoutError:
        raise RejectedError(
            408, StatusCode.DEADLINE_EXCEEDED, f"the body did not arrive within {limits.read_s:g} s"
        ) from None
    if coding != "gzip":
        return bytes(whole)
    body = await ingest.unzip(bytes(whole))
    reservation.add(len(body))
    return body


def _encoded(message: Message, encoding: Encoding, code: int) -> Response:
    body = MessageToJson(message) if encoding == "json" else message.SerializeToString()
    return Response(body, code, media_type=_TYPES[encoding])


def _rejection(rejected: RejectedError, encoding: Encoding) -> Response:
    status = Status(code=rejected.grpc.value[0], message=rejected.message)
    response = _encoded(status, encoding, rejected.http)
    if rejected.retry_after_s is not None:
        response.headers["Retry-After"] = str(rejected.retry_after_s)
    if rejected.http == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
