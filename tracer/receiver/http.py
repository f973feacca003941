"""OTLP over HTTP: https://opentelemetry.io/docs/specs/otlp/#otlphttp."""

from __future__ import annotations

import asyncio
import hmac
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

from spangrade.tracer.receiver.ingest import Encoding, Intake
from spangrade.tracer.receiver.limits import Refusal, Share, too_large, unzipped
from spangrade.tracer.store.arrow import Table

_ENCODINGS: dict[str, Encoding] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_TYPES = {encoding: name for name, encoding in _ENCODINGS.items()}


def application(intake: Intake, token: str | None, health: Callable[[], Mapping[str, object]]) -> Starlette:
    """Return the ASGI application; with a token, all but /healthz ask for it."""

    def export(signal: Table) -> Route:
        async def answer(request: Request) -> Response:
            encoding: Encoding = "json"
            try:
                _authorise(request, token)
                encoding = _encoding(request)
                with intake.memory.share() as share:
                    body = await _body(request, intake, share)
                    reply: Message = await intake.take(signal, body, encoding)
                response = _encoded(reply, encoding, 200)
            except Refusal as refusal:
                response = _refused(refusal, encoding)
            except ClientDisconnect:
                response = Response(status_code=400)  # to nobody
            intake.counters.requests.labels("http", signal, response.status_code).inc()
            return response

        return Route(f"/v1/{'traces' if signal == 'spans' else 'logs'}", answer, methods=["POST"])

    async def healthz(_: Request) -> Response:
        state = health()
        return Response(
            json.dumps(state), 200 if state["status"] == "ok" else 503, media_type="application/json"
        )

    async def metrics(request: Request) -> Response:
        try:
            _authorise(request, token)
        except Refusal as refusal:
            return _refused(refusal, "json")
        return Response(intake.counters.text(), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[export("spans"), export("logs"), Route("/healthz", healthz), Route("/metrics", metrics)]
    )


def authorised(header: str | None, token: str) -> bool:
    """Tell whether an Authorization header names the token."""
    scheme, _, given = (header or "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def _authorise(request: Request, token: str | None) -> None:
    if token and not authorised(request.headers.get("authorization"), token):
        raise Refusal(
            401, StatusCode.UNAUTHENTICATED, "no token, or a wrong one: Authorization: Bearer TOKEN"
        )


def _encoding(request: Request) -> Encoding:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _ENCODINGS:
        return _ENCODINGS[kind]
    raise Refusal(
        415, StatusCode.INVALID_ARGUMENT, f"content type {kind[:80]!r}: send {' or '.join(_ENCODINGS)}"
    )


async def _body(request: Request, intake: Intake, share: Share) -> bytes:
    limits = intake.limits
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("gzip", "identity", ""):
        raise Refusal(
            415, StatusCode.INVALID_ARGUMENT, f"content encoding {coding[:80]!r}: send gzip or none"
        )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limits.body_bytes:
        raise too_large(f"the body is {length[:20]} bytes: at most {limits.body_bytes} are taken")
    whole = bytearray()
    try:
        async with asyncio.timeout(limits.read_s):
            async for chunk in request.stream():
                share.take(len(chunk))
                whole += chunk
                if len(whole) > limits.body_bytes:
                    raise too_large(f"the body is larger than {limits.body_bytes} bytes")
    except TimeoutError:
        raise Refusal(
            408, StatusCode.DEADLINE_EXCEEDED, f"the body did not arrive within {limits.read_s:g} s"
        ) from None
    if coding != "gzip":
        return bytes(whole)
    body = unzipped(bytes(whole), limits.decompressed_bytes)
    share.take(len(body))
    return body


def _encoded(message: Message, encoding: Encoding, code: int) -> Response:
    body = MessageToJson(message) if encoding == "json" else message.SerializeToString()
    return Response(body, code, media_type=_TYPES[encoding])


def _refused(refusal: Refusal, encoding: Encoding) -> Response:
    status = Status(code=refusal.grpc.value[0], message=refusal.message)
    response = _encoded(status, encoding, refusal.http)
    if refusal.retry_after_s is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.http == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
