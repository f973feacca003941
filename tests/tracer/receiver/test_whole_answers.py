"""All that a receiver answers over HTTP and gRPC, counts, logs and stores, in `tests/cases/receiver`.

It runs in the test's own process. `WRITE_CASES=1 pytest` of this file writes them, to be read in the diff.
"""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import logging
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from cases import FOLDER, compare
from google.protobuf.json_format import MessageToDict, MessageToJson
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from made_once import new_database
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
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from receiving import request

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.receiver.limits import Limits
from spangrade.tracer.receiver.server import ReceiverSettings, Receiving, Reread, receive
from spangrade.tracer.redaction import redaction
from spangrade.tracer.store import Store

PROTOBUF, JSON = "application/x-protobuf", "application/json"
TRACES, LOGS, METRICS = "/v1/traces", "/v1/logs", "/v1/metrics"
PROFILES = "/v1development/profiles"
LIMITS = Limits(body_bytes=1500, decompressed_bytes=3000, records=7, value_chars=120, pending_bytes=4000)
HEADERS = ("content-type", "allow", "retry-after", "www-authenticate")
KINDS: dict[str, Any] = {
    LOGS: ExportLogsServiceResponse,
    METRICS: ExportMetricsServiceResponse,
    PROFILES: ExportProfilesServiceResponse,
}
Answer = list[Any]
Ask = Callable[[Receiving], dict[str, Answer]]


def spans(first: int, count: int, **attributes: str) -> bytes:
    return request(first, count, **attributes).SerializeToString()


def as_json(first: int, count: int, **attributes: str) -> bytes:
    return MessageToJson(request(first, count, **attributes), indent=None).encode()


def logs(count: int, trace: bytes = bytes(15) + b"\x01") -> ExportLogsServiceRequest:
    message = ExportLogsServiceRequest()
    records = message.resource_logs.add().scope_logs.add().log_records
    for number in range(count):
        one = records.add(trace_id=trace, span_id=bytes(7) + b"\x02", time_unix_nano=number + 1)
        one.body.string_value = f"call 415-555-0123 for order {number}"
    return message


def broken(count: int, bad: int) -> bytes:
    """Return spans of which some have an id that is too short."""
    message = request(500, count)
    for one in message.resource_spans[0].scope_spans[0].spans[:bad]:
        one.trace_id = b"short"
    return message.SerializeToString()


def padded(size: int) -> bytes:
    """Return a request in JSON of a size."""
    body = b'{"resourceSpans": []}'
    return body + b" " * (size - len(body))


def points() -> ExportMetricsServiceRequest:
    message = ExportMetricsServiceRequest()
    several = message.resource_metrics.add().scope_metrics.add().metrics
    several.add(name="a").sum.data_points.add(as_int=1)
    several[0].sum.data_points.add(as_int=2)
    several.add(name="b").gauge.data_points.add(as_int=3)
    several.add(name="none")
    return message


def profiles() -> ExportProfilesServiceRequest:
    message = ExportProfilesServiceRequest()
    for number in (1, 2):
        scope = message.resource_profiles.add().scope_profiles.add()
        for _ in range(number):
            scope.profiles.add()
    return message


Request = tuple[str, str, bytes, dict[str, str]]
P, J = {"Content-Type": PROTOBUF}, {"Content-Type": JSON}
ZIPPED = {**J, "Content-Encoding": "gzip"}
OPEN: dict[str, Request] = {
    "spans": ("POST", TRACES, spans(0, 2), P),
    "the same again": ("POST", TRACES, spans(0, 2), P),
    "spans in JSON": ("POST", TRACES, as_json(2, 1), {"Content-Type": "Application/JSON; charset=utf-8"}),
    "nothing": ("POST", TRACES, b"", P),
    "nothing in JSON": ("POST", TRACES, b"{}", J),
    "null in JSON": ("POST", TRACES, b'{"resourceSpans": null}', J),
    "in snake case": ("POST", TRACES, b'{"resource_spans": []}', J),
    "not JSON": ("POST", TRACES, b"{", J),
    "no object": ("POST", TRACES, b"[]", J),
    "no list": ("POST", TRACES, b'{"resourceSpans": 1}', J),
    "logs as spans": ("POST", TRACES, b'{"resourceLogs": []}', J),
    "spans as logs": ("POST", LOGS, b'{"resource_spans": []}', J),
    "a key that is not UTF-8": ("POST", TRACES, b'{"a\xff": 1}', J),
    "a value that is not UTF-8": ("POST", TRACES, as_json(3, 1, note="a").replace(b'"a"', b'"\xff"'), J),
    "not protobuf": ("POST", TRACES, b"\xff", P),
    "most spans": ("POST", TRACES, spans(10, 7), P),
    "a span too many": ("POST", TRACES, spans(20, 8), P),
    "one bad": ("POST", TRACES, broken(3, 1), P),
    "all bad": ("POST", TRACES, broken(2, 2), P),
    "bad ones count": ("POST", TRACES, broken(8, 2), P),
    "six bad are five reasons": ("POST", TRACES, broken(7, 6), P),
    "longest value": ("POST", TRACES, spans(30, 1, note="x" * 120), P),
    "a value too long": ("POST", TRACES, spans(31, 2, note="x" * 121), P),
    "gzip": ("POST", TRACES, gzip.compress(spans(40, 1)), {**P, "Content-Encoding": " GZIP"}),
    "two members": (
        "POST",
        TRACES,
        gzip.compress(b"{") + gzip.compress(b"}"),
        {**J, "Content-Encoding": "gzip"},
    ),
    "no gzip": ("POST", TRACES, b"{}", ZIPPED),
    "gzip cut short": ("POST", TRACES, gzip.compress(b"{}")[:-9], ZIPPED),
    "largest": ("POST", TRACES, padded(1500), J),
    "too large": ("POST", TRACES, padded(1501), J),
    "largest unzipped": ("POST", TRACES, gzip.compress(padded(3000)), ZIPPED),
    "too large unzipped": ("POST", TRACES, gzip.compress(padded(3001)), ZIPPED),
    "brotli": ("POST", TRACES, b"{}", {**J, "Content-Encoding": "br"}),
    "identity": ("POST", TRACES, b"{}", {**J, "Content-Encoding": "identity"}),
    "no type": ("POST", TRACES, b"{}", {}),
    "another type": ("POST", TRACES, b"{}", {"Content-Type": "text/plain"}),
    "logs": ("POST", LOGS, logs(2).SerializeToString(), P),
    "logs in JSON": ("POST", LOGS, MessageToJson(logs(1)).encode(), J),
    "a bad log": ("POST", LOGS, logs(2, b"short").SerializeToString(), P),
    "metrics": ("POST", METRICS, points().SerializeToString(), P),
    "metrics in JSON": ("POST", METRICS, MessageToJson(points()).encode(), J),
    "no metrics": ("POST", METRICS, b"\xff", P),
    "no metrics in JSON": ("POST", METRICS, b"[", J),
    "profiles": ("POST", PROFILES, profiles().SerializeToString(), P),
    "GET": ("GET", TRACES, b"", {}),
    "PUT": ("PUT", LOGS, b"", P),
    "no path": ("POST", "/v1/other", b"", P),
    "no path, in JSON": ("GET", "/", b"", {}),
    "a page of another site": ("POST", TRACES, b"{}", {**J, "Origin": "https://evil.example"}),
    "an own page": ("POST", TRACES, b"{}", {**J, "Origin": "http://localhost:3000"}),
    "a rebound name": ("POST", TRACES, b"{}", {**J, "Host": "evil.example"}),
    "metrics for a rebound name": ("GET", "/metrics", b"", {"Host": "evil.example"}),
    "health for a rebound name": ("GET", "/healthz", b"", {"Host": "evil.example"}),
    "health": ("GET", "/healthz", b"", {}),
    "not posted": ("POST", "/healthz", b"", {}),
}
BEARER = {"Authorization": "Bearer right"}
WITH_TOKEN: dict[str, Request] = {
    "with it": ("POST", TRACES, b"{}", {**J, **BEARER}),
    "in another case": ("POST", TRACES, b"{}", {**J, "Authorization": "bearer  right "}),
    "without": ("POST", TRACES, b"{}", J),
    "a wrong one": ("POST", TRACES, b"{}", {**J, "Authorization": "Bearer wrong"}),
    "another scheme": ("POST", TRACES, b"{}", {**J, "Authorization": "Basic right"}),
    "another site with it": ("POST", TRACES, b"{}", {**J, **BEARER, "Origin": "https://evil.example"}),
    "logs without": ("POST", LOGS, logs(1).SerializeToString(), P),
    "metrics with it": ("POST", METRICS, points().SerializeToString(), {**P, **BEARER}),
    "health without": ("GET", "/healthz", b"", {"Host": "evil.example"}),
    "counters without": ("GET", "/metrics", b"", {}),
}
OF_KEYS: dict[str, Request] = {
    f"{key or 'nobody'} {path}": (
        "GET" if path == "/metrics" else "POST",
        path,
        b"{}" if path != "/metrics" else b"",
        {**J, "Authorization": f"Bearer {key}"},
    )
    for key in ("sender", "reader", "")
    for path in (TRACES, METRICS, "/metrics")
}


def ours(message: str) -> str:
    """Return a message without the words of a library."""
    return re.sub(r"(?<=not JSON: ).*|(?<=Request: ).*", "WHY", message)


def over_http(running: Receiving, one: Request) -> Answer:
    """Return the status, the headers that matter, and the body, as JSON if it is a message."""
    method, path, body, headers = one
    connection = http.client.HTTPConnection(running.http.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    shown = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
    if "allow" in shown:
        shown["allow"] = ", ".join(sorted(shown["allow"].split(", ")))
    if shown.get("content-type") == PROTOBUF:
        kinds: dict[str, Any] = {
            METRICS: ExportMetricsServiceResponse,
            PROFILES: ExportProfilesServiceResponse,
        }
        kind = kinds.get(path, ExportTraceServiceResponse) if answer.status == 200 else Status
        read: Any = MessageToDict(kind.FromString(content))
    elif shown.get("content-type") == JSON:
        read = json.loads(content)
        read = {name: value for name, value in read.items() if not name.endswith(("bytes", "_s", "_load"))}
    else:
        read = [line for line in content.decode().splitlines() if not line.startswith("#")]
        read = [line for line in read if "_created" not in line and "spool_bytes" not in line]
    if "message" in read:
        read["message"] = ours(read["message"])
    return [answer.status, shown, read]


def over_grpc(running: Receiving, service: str, body: bytes, metadata: dict[str, str]) -> Answer:
    """Return the status, its message, when to send again, and the answer."""
    with grpc.insecure_channel(running.grpc) as channel:
        call = channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")
        try:
            content = call(body, timeout=30, metadata=tuple(metadata.items()))
        except grpc.RpcError as error:
            details = dict(error.trailing_metadata()).get("grpc-status-details-bin")
            retry = RetryInfo()
            if details:
                Status.FromString(details).details[0].Unpack(retry)
            return [
                error.code().name,
                re.sub("(?<=Request: ).*", "WHY", error.details()),
                retry.retry_delay.seconds,
            ]
    kind: Any = ExportMetricsServiceResponse if "metrics" in service else ExportTraceServiceResponse
    return ["OK", MessageToDict(kind.FromString(content))]


TRACE_SERVICE, LOGS_SERVICE = "trace.v1.TraceService", "logs.v1.LogsService"
METRICS_SERVICE = "metrics.v1.MetricsService"


def grpc_answers(running: Receiving) -> dict[str, Answer]:
    asked: dict[str, tuple[str, bytes, dict[str, str]]] = {
        "spans": (TRACE_SERVICE, spans(60, 2), {}),
        "with a bad one": (TRACE_SERVICE, broken(2, 1), {}),
        "a span too many": (TRACE_SERVICE, spans(70, 8), {}),
        "not protobuf": (TRACE_SERVICE, b"\xff", {}),
        "logs": (LOGS_SERVICE, logs(1).SerializeToString(), {}),
        "metrics": (METRICS_SERVICE, points().SerializeToString(), {}),
        "another site": (TRACE_SERVICE, b"", {"origin": "https://evil.example"}),
    }
    return {f"gRPC: {name}": over_grpc(running, *one) for name, one in asked.items()}


def of_all(asked: dict[str, Request], more: Ask = lambda _: {}) -> Ask:
    return lambda running: {
        **{name: over_http(running, one) for name, one in asked.items()},
        **more(running),
        "counters": over_http(running, ("GET", "/metrics", b"", {**BEARER, "X": "reader"})),
        "ready": [
            {name: value for name, value in running.readiness().items() if name in ("status", "reason")}
        ],
    }


def when_full(running: Receiving) -> dict[str, Answer]:
    """Fill the spool, and send once more."""
    found = {name: over_http(running, ("POST", TRACES, spans(0, 1), P)) for name in ("first", "second")}
    found["over gRPC"] = over_grpc(running, TRACE_SERVICE, spans(900, 1), {})
    found["metrics"] = over_http(running, ("POST", METRICS, points().SerializeToString(), P))
    found["health"] = over_http(running, ("GET", "/healthz", b"", {}))
    found["ready"] = over_http(running, ("GET", "/readyz", b"", {}))
    return found


def asked_of(settings: ReceiverSettings, ask: Ask) -> dict[str, Answer]:
    """Run a receiver as long as it is asked; return what it answered."""

    async def run() -> dict[str, Answer]:
        stop = asyncio.Event()
        ready: asyncio.Future[Receiving] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(receive(settings, ready.set_result, stop))
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        try:
            return await asyncio.to_thread(ask, ready.result())
        finally:
            stop.set()
            await serving

    return asyncio.run(run())


def rows_of(db: Path) -> dict[str, list[Any]]:
    with Store.open(db, read_only=True) as store:
        found = {
            "spans": store.query("SELECT * EXCLUDE (seq) FROM spans ORDER BY trace_id, span_id"),
            "logs": store.query("SELECT * EXCLUDE (seq) FROM logs WHERE time_ns < 1000 ORDER BY ALL"),
        }
    return {table: [" | ".join(map(str, row)) for row in rows] for table, rows in found.items()}


ALLOWED = {"sender": "send", "reader": "read"}
RECEIVERS: dict[str, tuple[dict[str, Any], Ask]] = {
    "open": ({"redact": redaction("mask")}, of_all(OPEN, grpc_answers)),
    "token": ({"token": "right"}, of_all(WITH_TOKEN, lambda running: {
        "gRPC: with it": over_grpc(running, TRACE_SERVICE, b"", {"authorization": "Bearer right"}),
        "gRPC: without": over_grpc(running, TRACE_SERVICE, b"", {}),
    })),
    "keys": (
        {"allows": lambda key, purpose: ALLOWED.get(key) == purpose},
        lambda running: {name: over_http(running, one) for name, one in OF_KEYS.items()},
    ),
    "full": ({"limits": Limits(spool_bytes=1)}, when_full),
}  # fmt: skip


@pytest.mark.parametrize("name", RECEIVERS)
def test_a_receiver_answers_counts_logs_and_stores_what_it_is_to(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, ask = RECEIVERS[name]
    db = new_database(tmp_path / "s.duckdb")
    with caplog.at_level(logging.INFO, "spangrade"):
        answers = asked_of(
            ReceiverSettings(db, http_port=0, grpc_port=0, **{"limits": LIMITS, **settings}), ask
        )
    logged = [
        f"{one.levelname} {ours(one.getMessage())}" for one in caplog.records if one.name == "spangrade"
    ]
    logged = [re.sub(r"ipv[46]:\S+:\d+", "PEER", line).replace(f"{tmp_path}/", "") for line in logged]
    compare(
        FOLDER / "receiver" / f"{name}.json", {"answers": answers, "after": {"log": logged, **rows_of(db)}}
    )


GONE = "the token's file is gone"


def test_a_signal_lets_it_read_the_token_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = iter([Reread("second", None)])

    def ask(running: Receiving) -> dict[str, Answer]:
        found = {}
        for turn in ("before", "after", "once more"):
            for token in ("right", "second"):
                one = ("POST", TRACES, b"{}", {**J, "Authorization": f"Bearer {token}"})
                found[f"{turn} {token}"] = [over_http(running, one)[0]]
            os.kill(os.getpid(), signal.SIGHUP)
            over_http(running, ("GET", "/healthz", b"", {}))  # the signal is handled before it
        return found

    def reread() -> Reread:
        found = next(tokens, None)
        if found is None:
            raise InputError(GONE)
        return found

    with caplog.at_level(logging.INFO, "spangrade"):
        found = asked_of(
            ReceiverSettings(
                new_database(tmp_path / "s.duckdb"), http_port=0, grpc_port=0, token="right", reread=reread
            ),
            ask,
        )
    assert found == {
        "before right": [200],
        "before second": [401],
        "after right": [401],
        "after second": [200],
        "once more right": [401],
        "once more second": [200],
    }
    signalled = [one.getMessage() for one in caplog.records if "SIGHUP" in one.getMessage()]
    assert signalled == [
        "SIGHUP: read the token, the certificate and the settings again",
        *["SIGHUP: the token, the certificate and the settings stay as they were: the token's file is gone"]
        * 2,
    ]
