"""The receiver: what it answers, and that a success means on disk."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
import requests
from google.protobuf.json_format import MessageToJson
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGRPC
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHTTP
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from receiving import Receiver, receiver, request, self_signed, start

from spangrade import InputError
from spangrade.tracer.base.sockets import is_loopback
from spangrade.tracer.receiver.access import Access
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.ingest import Ingest
from spangrade.tracer.receiver.limits import Limits, RejectedError, too_long, unzipped
from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.receiver.server import ReceiverSettings
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import folder_of, waiting

SHORT = Span("1" * 32, "1" * 16, None, "chat", "CLIENT", 1, 2)
PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
HOLD = """
import sys
from spangrade.tracer.store import Store
with Store.open(sys.argv[1], wait_s=5):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiver(tmp_path_factory.mktemp("receiver") / "s.duckdb") as started:
        yield started


def stored(db: Path) -> int:
    with Store.open(db, read_only=True, wait_s=10) as store:
        ((count, distinct),) = store.query("SELECT count(*), count(DISTINCT span_id) FROM spans")
    assert count == distinct
    return count


def post(to: Receiver, body: bytes, path: str = "/v1/traces", **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.post(to.http + path, data=body, headers=PROTOBUF | named, timeout=20)


def test_what_was_acknowledged_survives_a_kill_and_is_kept_once(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    for number in range(3):
        with receiver(db) as killed:
            for part in range(4):
                body = request(number * 40 + part * 10, 10).SerializeToString()
                for _ in range(2):  # a client that missed the answer sends again
                    assert post(killed, body).status_code == 200
            killed.process.kill()
            killed.process.wait()
    with receiver(db) as last:
        assert last.stop() == 0
    assert stored(db) == 120
    assert waiting(db) == []


def test_stopping_takes_in_what_waits_and_exits_with_0(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started:
        post(started, request(0, 100).SerializeToString())
        assert started.stop() == 0
    assert stored(db) == 100


def test_stock_exporters_are_served_over_both_protocols(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(OverHTTP(started.http + "/v1/traces")))
        provider.add_span_processor(SimpleSpanProcessor(OverGRPC(started.grpc, insecure=True)))
        provider.get_tracer("test").start_span("both").end()
        provider.shutdown()
        started.stop()
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT name FROM spans") == [("both",)]


def test_logs_are_taken_in_too(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    message = ExportLogsServiceRequest()
    record = message.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=5, event_name="e")
    record.body.string_value = "hello"
    with receiver(db) as started:
        for _ in range(2):
            assert post(started, message.SerializeToString(), "/v1/logs").status_code == 200
        started.stop()
    with Store.open(db, read_only=True) as store:
        assert store.query("SELECT time_ns, event_name, body::VARCHAR FROM logs") == [(5, "e", '"hello"')]


def test_a_success_is_answered_in_the_encoding_of_the_request(running: Receiver) -> None:
    message = request(0, 1)
    answer = post(running, gzip.compress(message.SerializeToString()), Content_Encoding="gzip")
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (
        200,
        "application/x-protobuf",
        b"",
    )
    answer = requests.post(running.http + "/v1/traces", data=b"{}", headers=JSON, timeout=20)
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (
        200,
        "application/json",
        {},
    )


def test_a_span_that_cannot_be_read_is_counted_and_the_others_are_kept(tmp_path: Path) -> None:
    message = request(0, 3)
    message.resource_spans[0].scope_spans[0].spans[1].trace_id = b"short"
    with receiver(tmp_path / "s.duckdb") as started:
        answer = ExportTraceServiceResponse.FromString(post(started, message.SerializeToString()).content)
        started.stop()
    assert answer.partial_success.rejected_spans == 1
    assert answer.partial_success.error_message == (
        "resource_spans[0].scope_spans[0].spans[1]: trace_id is 5 bytes; expected 16 bytes, not all zero"
    )
    assert stored(tmp_path / "s.duckdb") == 2


@pytest.mark.parametrize(
    ("code", "message", "body", "headers"),
    [
        (400, "not an ExportTraceServiceRequest: ", b"\xff", {}),
        (400, "not JSON: ", b'{"resourceSpans": [', JSON),
        (400, "expected a JSON object {", b"[]", JSON),
        (400, "expected resourceSpans, found resourceLogs: ", b'{"resourceLogs": []}', JSON),
        (400, "resourceSpans is not a list", b'{"resourceSpans": 1}', JSON),
        (400, "the body is not gzip: ", b"text", {"Content-Encoding": "gzip"}),
        (400, "the gzip body is cut short", gzip.compress(b"0" * 999)[:-9], {"Content-Encoding": "gzip"}),
        (
            413,
            "the body is more than 33554432 bytes when",
            gzip.compress(bytes(2**26), 1),
            {"Content-Encoding": "gzip"},
        ),
        (413, "more than 20000 records in one request: ", request(0, 20_001).SerializeToString(), {}),
        (
            413,
            "more than 20000 records",
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[%s0]}]}]}' % (b"0," * 20_000),
            JSON,
        ),
        (413, "the body is 16777217 bytes; ", bytes(2**24 + 1), {}),
        (415, "content type 'text/plain': send ", b"", {"Content-Type": "text/plain"}),
        (415, "content encoding 'br': send gzip", b"", {"Content-Encoding": "br"}),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_request_that_is_refused_is_told_why(
    running: Receiver, code: int, message: str, body: bytes, headers: dict[str, str]
) -> None:
    answer = requests.post(running.http + "/v1/traces", data=body, headers=PROTOBUF | headers, timeout=20)
    if answer.headers["content-type"] == "application/json":
        said = answer.json()["message"]
    else:
        said = Status.FromString(answer.content).message
    assert (answer.status_code, said[: len(message)]) == (code, message)


def test_other_paths_and_methods_are_answered_with_a_status(running: Receiver) -> None:
    wrong = requests.put(running.http + "/v1/traces", data=b"", headers=PROTOBUF, timeout=20)
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")
    assert Status.FromString(wrong.content) == Status(code=12, message="PUT is not allowed here")
    other = requests.post(running.http + "/v1/other", data=b"", headers=JSON, timeout=20)
    assert (other.status_code, other.headers["content-type"]) == (404, "application/json")
    assert other.json() == {
        "code": 12,
        "message": "no such path: expected one of /v1/traces, /v1/logs, /healthz, /readyz, /metrics",
    }


INVALID = b"\xff\xfe"


def with_invalid(message: ExportTraceServiceRequest | ExportLogsServiceRequest) -> bytes:
    """Return an encoded message in which the text `??` is not UTF-8."""
    return message.SerializeToString().replace(b"??", INVALID)


def test_a_span_with_invalid_utf_8_is_rejected_and_the_others_are_kept(tmp_path: Path) -> None:
    message = request(0, 4)
    spans = message.resource_spans[0].scope_spans[0].spans
    spans[1].name = "??"
    spans[2].attributes.add(key="text").value.array_value.values.add(string_value="??")
    with receiver(tmp_path / "s.duckdb") as started:
        answer = ExportTraceServiceResponse.FromString(post(started, with_invalid(message)).content)
        with grpc.insecure_channel(started.grpc) as channel:
            export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
            again = ExportTraceServiceResponse.FromString(export(with_invalid(message)))
        started.stop()
    assert answer == again
    assert answer.partial_success.rejected_spans == 2
    assert answer.partial_success.error_message == "; ".join(
        f"resource_spans[0].scope_spans[0].spans[{number}]: the Span is not valid protobuf "
        "(a string that is not UTF-8?)"
        for number in (1, 2)
    )
    with Store.open(tmp_path / "s.duckdb", read_only=True) as store:
        assert store.query("SELECT span_id, resource->>'$.\"service.name\"' FROM spans ORDER BY 1") == [
            (f"{1:016x}", "shop"),
            (f"{4:016x}", "shop"),
        ]


def test_a_resource_or_scope_with_invalid_utf_8_costs_no_span(tmp_path: Path) -> None:
    message = request(0, 2)
    message.resource_spans[0].resource.attributes.add(key="??")
    message.resource_spans[0].scope_spans[0].scope.name = "??"
    logs = ExportLogsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=5, event_name="kept")
    logs.resource_logs[0].resource.attributes.add(key="??")
    with receiver(tmp_path / "s.duckdb") as started:
        answer = ExportTraceServiceResponse.FromString(post(started, with_invalid(message)).content)
        assert post(started, with_invalid(logs), "/v1/logs").ok
        started.stop()
    assert answer.partial_success.rejected_spans == 0
    assert "its records are kept without a resource" in answer.partial_success.error_message
    assert "its records are kept without a scope" in answer.partial_success.error_message
    with Store.open(tmp_path / "s.duckdb", read_only=True) as store:
        assert store.query("SELECT event_name FROM logs") == [("kept",)]
    assert stored(tmp_path / "s.duckdb") == 2


def test_a_span_with_invalid_utf_8_in_json_is_rejected_and_the_others_are_kept(tmp_path: Path) -> None:
    def span(number: int, **fields: object) -> dict[str, object]:
        times = {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
        return {"traceId": "1" * 32, "spanId": f"{number:016x}", "name": "chat", **times, **fields}

    spans = [
        span(1, name="\ufdd0 and \ufffd are characters"),
        span(2, name="??"),
        span(3, attributes=[{"key": "text", "value": {"arrayValue": {"values": [{"stringValue": "??"}]}}}]),
        span(4, **{"unknown ??": 1}),
        span(5),
    ]
    attributes = [{"key": "service.name", "value": {"stringValue": "shop"}}]
    document = {
        "resourceSpans": [
            {
                "resource": {"attributes": attributes},
                "scopeSpans": [{"scope": {"name": "??"}, "spans": spans}],
            },
            {"resource": {"attributes": attributes}, "scope?? spans": [{"spans": [span(6)]}]},
        ]
    }
    bodies = [
        json.dumps(document, ensure_ascii=ascii_only).encode().replace(b"??", INVALID)
        for ascii_only in (True, False)
    ]
    with receiver(tmp_path / "s.duckdb") as started:
        first, again = (post(started, body, **JSON).json() for body in bodies)
        whole = json.dumps({"resource??": []}).encode().replace(b"??", INVALID)
        assert [post(started, body, **JSON).status_code for body in (whole, INVALID)] == [400, 400]
        started.stop()
    assert first == again
    where = "resourceSpans[0].scopeSpans[0]"
    invalid = "not valid JSON (a string that is not UTF-8)"
    assert first["partialSuccess"] == {
        "rejectedSpans": "4",
        "errorMessage": "; ".join(
            [
                f"{where}: {invalid}; its records are kept without a scope",
                *(f"{where}.spans[{number}]: {invalid}" for number in (1, 2, 3)),
                "resourceSpans[1]: a key is not UTF-8; its value is not read",
            ]
        ),
    }
    with Store.open(tmp_path / "s.duckdb", read_only=True) as store:
        query = "SELECT span_id, name, scope_name, resource->>'$.\"service.name\"' FROM spans ORDER BY 1"
        assert store.query(query) == [
            (f"{1:016x}", "\ufdd0 and \ufffd are characters", None, "shop"),
            (f"{5:016x}", "chat", None, "shop"),
        ]


def test_a_long_value_and_a_deep_one_cost_their_span_alone(running: Receiver) -> None:
    message = request(0, 3)
    spans = message.resource_spans[0].scope_spans[0].spans
    spans[0].attributes.add(key="long").value.string_value = "x" * (Limits().value_chars + 1)
    answer = ExportTraceServiceResponse.FromString(post(running, message.SerializeToString()).content)
    assert answer.partial_success.rejected_spans == 1
    assert answer.partial_success.error_message.startswith("the value of 'long' is 4194305 characters; ")
    deep = {"arrayValue": {"values": []}}
    for _ in range(150):
        deep = {"arrayValue": {"values": [deep]}}
    ids = {"traceId": "ab" * 16, "spanId": "cd" * 8, "startTimeUnixNano": 1, "endTimeUnixNano": 2}
    body = {
        "resourceSpans": [{"scopeSpans": [{"spans": [ids | {"attributes": [{"key": "d", "value": deep}]}]}]}]
    }
    said = requests.post(running.http + "/v1/traces", data=json.dumps(body), headers=JSON, timeout=20).json()
    assert said["partialSuccess"]["rejectedSpans"] == "1"
    assert "nested deeper than 100 levels" in said["partialSuccess"]["errorMessage"]


LONG = "x" * 101


@pytest.mark.parametrize(
    ("what", "record"),
    [
        ("the name", Span("1" * 32, "1" * 16, None, LONG, "CLIENT", 1, 2)),
        ("the status message", SHORT._replace(status_message=LONG)),
        ("the trace state", SHORT._replace(trace_state=LONG)),
        ("the scope name", SHORT._replace(scope_name=LONG)),
        ("the scope version", SHORT._replace(scope_version=LONG)),
        ("the name of an event", SHORT._replace(events=[{"name": LONG, "time_ns": 1, "attributes": {}}])),
        ("a key", SHORT._replace(attributes={LONG: 1})),
        ("the value of 'key'", SHORT._replace(resource={"key": LONG})),
        ("the event name", LogRecord(None, None, 1, LONG)),
        ("the severity", LogRecord(None, None, 1, None, LONG)),
        ("the value of 'body'", LogRecord(None, None, 1, None, None, LONG)),
    ],
)
def test_every_text_of_a_record_is_limited(what: str, record: Span | LogRecord) -> None:
    assert too_long(record, 101) is None
    assert too_long(record, 100) == f"{what} is 101 characters; the limit is 100"


def test_a_token_is_asked_for_on_every_path_but_healthz(tmp_path: Path) -> None:
    with receiver(tmp_path / "s.duckdb", "--token", "tops") as guarded:
        assert [
            post(guarded, b"", Authorization=f"Bearer {token}").status_code for token in ("tops", "top", "")
        ] == [
            200,
            401,
            401,
        ]
        assert post(guarded, b"").headers["WWW-Authenticate"] == "Bearer"
        assert requests.get(guarded.http + "/metrics", timeout=20).status_code == 401
        assert requests.get(guarded.http + "/healthz", timeout=20).status_code == 200
        with grpc.insecure_channel(guarded.grpc) as channel:
            export = TraceServiceStub(channel).Export
            export(request(0, 1), metadata=[("authorization", "Bearer tops")])
            with pytest.raises(grpc.RpcError) as refused:
                export(request(0, 1))
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, signed by itself, and its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_tls_is_spoken_over_both_protocols(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with (
        receiver(tmp_path / "s.duckdb", "--tls-cert", str(cert), "--tls-key", str(key)) as secure,
        requests.Session() as client,
    ):
        assert secure.http.startswith("https://")
        body = request(0, 1).SerializeToString()
        answer = client.post(
            secure.http + "/v1/traces", data=body, headers=PROTOBUF, verify=str(cert), timeout=20
        )
        assert answer.status_code == 200
        credentials = grpc.ssl_channel_credentials(cert.read_bytes())
        with grpc.secure_channel(secure.grpc, credentials) as channel:
            TraceServiceStub(channel).Export(request(1, 1))
        assert secure.stop() == 0  # without waiting for the connection that the client keeps
        assert secure.process.stderr.read().endswith("INFO stopped\n")
    assert stored(tmp_path / "s.duckdb") == 2


def test_half_of_a_key_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tls_cert and tls_key belong together"):
        ReceiverSettings(tmp_path / "s.duckdb", certificate=tmp_path / "cert.pem").check()


def test_a_bomb_over_grpc_is_refused(running: Receiver) -> None:
    bomb = request(0, 1, text="x" * 2**26)
    with grpc.insecure_channel(running.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
        TraceServiceStub(channel).Export(bomb, compression=grpc.Compression.Gzip)
    assert refused.value.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT)


def test_a_full_spool_asks_to_send_again_and_loses_nothing(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db, "--spool-mb", "1") as started:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(db)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout.readline() == "held\n"
        taken = 0
        while (answer := post(started, request(taken, 100, text="x" * 3000).SerializeToString())).ok:
            taken += 100
            assert taken < 1000
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert requests.get(started.http + "/healthz", timeout=20).status_code == 503
        with grpc.insecure_channel(started.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
            TraceServiceStub(channel).Export(request(taken, 1))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        details = Status.FromString(
            dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
        ).details
        retry = RetryInfo()
        assert details[0].Unpack(retry)
        assert retry.retry_delay.seconds == 5
        holder.communicate("\n")
        assert started.stop() == 0
    assert taken >= 300
    assert stored(db) == taken


def test_metrics_count_what_came(tmp_path: Path) -> None:
    with receiver(tmp_path / "s.duckdb") as started:
        post(started, request(0, 7).SerializeToString())
        text = requests.get(started.http + "/metrics", timeout=20).text
    assert 'spangrade_requests_total{code="200",signal="spans",transport="http"} 1.0' in text
    assert 'spangrade_accepted_records_total{signal="spans"} 7.0' in text


def test_one_receiver_has_a_spool(tmp_path: Path) -> None:
    with receiver(tmp_path / "s.duckdb"), pytest.raises(AssertionError, match="another receiver is writing"):
        start(tmp_path / "s.duckdb")


@pytest.mark.exhaustive
def test_one_receiver_has_a_spool_by_whatever_link(tmp_path: Path) -> None:
    db, link = tmp_path / "s.duckdb", tmp_path / "link.duckdb"
    link.symlink_to(db)
    with receiver(link) as started:
        assert post(started, request(0, 1).SerializeToString()).ok
        with pytest.raises(AssertionError, match="another receiver is writing"):
            start(db)
        assert started.stop() == 0
    assert stored(db) == 1
    assert folder_of(db).is_dir()
    assert link.is_symlink()


def test_the_spool_is_for_its_owner_alone(tmp_path: Path) -> None:
    with receiver(tmp_path / "s.duckdb"):
        assert folder_of(tmp_path / "s.duckdb").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_machines_are_let_in_with_a_token_or_when_told(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(InputError, match="open to other machines: set a token"):
        ReceiverSettings(Path("s.duckdb"), host=host).check()
    ReceiverSettings(Path("s.duckdb"), host=host, token="t").check()
    ReceiverSettings(Path("s.duckdb"), host=host, allow_anonymous=True).check()


def test_a_token_is_checked_before_a_message_is_read_over_grpc(tmp_path: Path) -> None:
    never = threading.Event()
    with receiver(tmp_path / "s.duckdb", "--token", "tops") as guarded:
        with grpc.insecure_channel(guarded.grpc) as channel:
            export = channel.stream_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
            with pytest.raises(grpc.RpcError) as rejected:
                export((b"" for _ in iter(never.wait, True)), timeout=60)  # no message is ever sent
        never.set()
    assert rejected.value.code() is grpc.StatusCode.UNAUTHENTICATED


def peak_memory(process: int) -> int:
    """Return the most memory that a process has had so far, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_messages_without_a_token_cost_no_memory_over_grpc(tmp_path: Path) -> None:
    message = bytes(15 << 20)
    with receiver(tmp_path / "s.duckdb", "--token", "tops") as guarded:
        before = peak_memory(guarded.process.pid)
        with ThreadPoolExecutor(20) as senders:
            codes = list(senders.map(lambda _: export_code(guarded, message), range(20)))
        assert codes == [grpc.StatusCode.UNAUTHENTICATED] * 20
        assert peak_memory(guarded.process.pid) - before < 48 << 20  # 300 MiB were sent


def export_code(to: Receiver, message: bytes) -> grpc.StatusCode | None:
    """Return how a message over a connection of its own is answered, None for a success."""
    with grpc.insecure_channel(to.grpc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")(
                message, timeout=60
            )
        except grpc.RpcError as error:
            return error.code()
    return None


def test_connections_over_grpc_are_limited(tmp_path: Path) -> None:
    with receiver(tmp_path / "s.duckdb", "--max-connections", "2") as started:
        address = (started.grpc.split(":")[0], int(started.grpc.rpartition(":")[2]))
        with socket.create_connection(address, 60) as first, socket.create_connection(address, 60) as second:
            assert first.recv(1)  # the server's settings: it is accepted
            assert second.recv(1)
            assert export_code(started, b"") is grpc.StatusCode.UNAVAILABLE
        # As soon as it notices that they are closed.
        assert any(export_code(started, b"") is None for _ in range(1_000))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "localhost:4318"}, 200),
        ({"Host": "[::1]:4318", "Origin": "http://localhost:3000"}, 200),
        ({"Host": "rebound.example:4318"}, 403),
        ({"Host": "127.0.0.1.rebound.example"}, 403),
        ({"Host": "[broken"}, 403),
        ({"Origin": "https://rebound.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_a_web_page_of_another_site_is_rejected_without_a_token(
    running: Receiver, headers: dict[str, str], code: int
) -> None:
    answer = requests.post(running.http + "/v1/traces", data=b"", headers=PROTOBUF | headers, timeout=20)
    assert answer.status_code == code
    for path in ("/healthz", "/metrics"):
        assert requests.get(running.http + path, headers=headers, timeout=20).status_code == code
    if code == 403:
        assert Access("token").check_page(headers) is None
        assert requests.post(running.http + "/v1/logs", headers=headers, timeout=20).json()["code"] == 7


def test_a_receiver_for_other_machines_is_called_by_any_name_but_not_by_pages() -> None:
    open_to_all = Access(loopback=False)
    open_to_all.check({"host": "spans.example:4318"})
    with pytest.raises(RejectedError, match=r"the header Origin is \'https://pages\.example\'"):
        open_to_all.check({"host": "spans.example:4318", "origin": "https://pages.example"})


def test_connections_without_a_request_are_limited_and_closed(tmp_path: Path) -> None:
    with receiver(tmp_path / "s.duckdb", "--max-connections", "2", "--header-timeout", "1") as started:
        address = (started.http.partition("//")[2].split(":")[0], int(started.http.rpartition(":")[2]))
        with (
            socket.create_connection(address, 60) as silent,
            socket.create_connection(address, 60) as slow,
            socket.create_connection(address, 60) as third,
        ):
            slow.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: ")
            assert third.recv(1000).startswith(b"HTTP/1.1 503 ")
            assert silent.recv(1) == b""  # closed, without an answer
            assert slow.recv(1) == b""
        with socket.create_connection(address, 60) as kept:
            for _ in range(2):
                kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while not answer.endswith(b"}"):
                    answer += kept.recv(1000)
                assert answer.startswith(b"HTTP/1.1 200 ")
            kept.sendall(b"GET ")
            assert kept.recv(1) == b""
        half_open = (started.grpc.split(":")[0], int(started.grpc.rpartition(":")[2]))
        with socket.create_connection(half_open, 60) as silent:
            while silent.recv(1000):  # the server's settings, then the end
                pass
        assert post(started, request(0, 1).SerializeToString()).status_code == 200


def test_limits_are_settings(tmp_path: Path) -> None:
    options = ("--max-body-mb", "1", "--max-unzipped-mb", "2", "--max-records", "3", "--max-value-mb", "1")
    with receiver(tmp_path / "s.duckdb", *options) as started:
        assert post(started, request(0, 3).SerializeToString()).status_code == 200
        answers = [
            post(started, request(0, 4).SerializeToString()),
            post(started, bytes(2**20 + 1)),
            post(started, gzip.compress(bytes(2**21 + 1)), Content_Encoding="gzip"),
        ]
        long = gzip.compress(request(0, 1, text="x" * (2**20 + 1)).SerializeToString())
        partly = ExportTraceServiceResponse.FromString(
            post(started, long, Content_Encoding="gzip").content
        ).partial_success
    assert [answer.status_code for answer in answers] == [413, 413, 413]
    assert partly.error_message == "the value of 'text' is 1048577 characters; the limit is 1048576"


def test_a_gzip_body_of_very_many_members_is_rejected_in_linear_time() -> None:
    empty = gzip.compress(b"")
    assert unzipped(empty * 999 + gzip.compress(b"a"), 1) == b"a"
    with pytest.raises(RejectedError, match="the gzip body has more than 1000 members"):
        unzipped(empty * 100_000, 1)


async def test_the_receiver_answers_others_while_it_decompresses(tmp_path: Path) -> None:
    body = gzip.compress(bytes(64 << 20), 1)
    queue = SpoolQueue(tmp_path / "s.duckdb", 1 << 20)
    ingest = Ingest(queue, Limits(decompressed_bytes=64 << 20), Counters())
    try:
        content = asyncio.create_task(ingest.unzip(body))
        await asyncio.sleep(0)  # it begins
        await asyncio.sleep(0)  # the event loop is free
        assert not content.done()
        assert len(await content) == 64 << 20
    finally:
        ingest.close()
        queue.close()


def test_a_gzip_member_may_end_anywhere_in_a_chunk() -> None:
    parts = [random.Random(size).randbytes(size) for size in (16_370, 1, 40_000, 16_384, 0, 7)]
    whole = b"".join(parts)
    assert unzipped(b"".join(map(gzip.compress, parts)), len(whole)) == whole


def test_members_of_a_gzip_body_are_bounded_together() -> None:
    body = gzip.compress(b"a" * 60) + gzip.compress(b"b" * 60)
    assert unzipped(body, 120) == b"a" * 60 + b"b" * 60
    with pytest.raises(RejectedError, match="more than 119 bytes"):
        unzipped(body, 119)


def test_metrics_and_profiles_are_answered_with_what_is_not_kept(running: Receiver) -> None:
    metrics = ExportMetricsServiceRequest()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    metric.sum.data_points.add(as_int=1)
    metric.sum.data_points.add(as_int=2)
    message = "spangrade keeps spans and logs: metrics are dropped; do not send them here"
    answer = post(running, metrics.SerializeToString(), "/v1/metrics")
    partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, partial.rejected_data_points, partial.error_message) == (200, 2, message)
    body = MessageToJson(metrics).encode()
    as_json = requests.post(running.http + "/v1/metrics", data=body, headers=JSON, timeout=20).json()
    assert as_json == {"partialSuccess": {"rejectedDataPoints": "2", "errorMessage": message}}
    with grpc.insecure_channel(running.grpc) as channel:
        over_grpc = MetricsServiceStub(channel).Export(metrics, timeout=20)  # type: ignore[no-untyped-call]
    assert over_grpc.partial_success == partial
    profiles = ExportProfilesServiceRequest()
    profiles.resource_profiles.add().scope_profiles.add().profiles.add()
    answer = post(running, profiles.SerializeToString(), "/v1development/profiles")
    rejected = ExportProfilesServiceResponse.FromString(answer.content).partial_success.rejected_profiles
    assert (answer.status_code, rejected) == (200, 1)
    assert post(running, b"\xff", "/v1/metrics").status_code == 400


@pytest.mark.exhaustive
def test_a_receiver_whose_loader_fails_is_alive_and_not_ready(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    with receiver(db) as started:
        ready = requests.get(started.http + "/readyz", timeout=20)
        assert (ready.status_code, ready.json()["status"], ready.json()["reason"]) == (200, "ready", None)
        db.unlink()
        db.mkdir()
        post(started, request(0, 1).SerializeToString())
        while (failing := requests.get(started.http + "/readyz", timeout=20)).status_code == 200:
            pass
        state = failing.json()
        assert (failing.status_code, state["status"]) == (503, "not ready")
        assert str(db) in state["reason"]
        assert state["spool_bytes"] > 0
        assert state["spool_age_s"] >= 0
        assert requests.get(started.http + "/healthz", timeout=20).status_code == 200


def test_a_folder_that_is_missing_is_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for landing in (None, str(tmp_path)):
        with pytest.raises(InputError, match=f"^{missing}: no such folder: the spool is made in it$"):
            ReceiverSettings(db=missing / "x", landing=landing).check()


@pytest.mark.exhaustive
def test_a_connection_over_tls_that_waits_for_its_client_to_close_does_not_hinder_the_end(
    tmp_path: Path,
) -> None:
    certificate, key = self_signed(tmp_path)
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with receiver(tmp_path / "s.duckdb", *tls) as started:
        trust = ssl.create_default_context(cafile=str(certificate))
        address = ("127.0.0.1", urlsplit(started.http).port)
        with (
            socket.create_connection(address) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=True) as client,
        ):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"
            assert started.stop() == 0
