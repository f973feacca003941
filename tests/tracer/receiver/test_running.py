"""What a receiver logs while it runs, and what SIGHUP lets it read again."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

import grpc
import pytest
import requests
from command_line import with_variables
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from receiving import Receiver, receiver, request, self_signed

from spangrade.tracer.base.terminal import LogFormat, LogLevel, log_of_service
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.store import Store

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def post(running: Receiver, token: str, *, bad_spans: int = 0) -> int:
    message = request(0, 3)
    for span in message.resource_spans[0].scope_spans[0].spans[:bad_spans]:
        span.trace_id = b"short"
    headers = {**PROTOBUF, "Authorization": f"Bearer {token}"}
    url = f"{running.http}/v1/traces"
    return requests.post(url, data=message.SerializeToString(), headers=headers, timeout=20).status_code


def line(running: Receiver) -> str:
    """Return the next line that the receiver logs."""
    return str(running.process.stderr.readline())


def after_sighup(running: Receiver) -> str:
    running.process.send_signal(signal.SIGHUP)
    return line(running)


def served(running: Receiver) -> str:
    """Return the certificate that HTTP is served with."""
    host, _, port = running.http.rpartition("/")[2].rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def grpc_answers(running: Receiver, certificate: Path) -> bool:
    """Return whether a new connection over gRPC is served with a certificate."""
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    with grpc.secure_channel(running.grpc, credentials) as channel:
        try:
            TraceServiceStub(channel).Export(request(0, 1), timeout=20)
        except grpc.RpcError:
            return False
    return True


def test_what_is_rejected_is_one_line_a_minute_with_what_from_where_and_how_many(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("right")
    options = ("--token-file", str(token), "--log-format", "json")
    with receiver(tmp_path / "s.duckdb", *options) as started:
        answers = [post(started, "wrong"), post(started, "wrong")]
        answers += [post(started, "right", bad_spans=2), post(started, "right", bad_spans=1)]
        assert started.stop() == 0
        lines = [json.loads(one) for one in started.process.stderr.read().splitlines()]
    where = "resource_spans[0].scope_spans[0].spans"
    reason = "trace_id is 5 bytes; expected 16 bytes, not all zero"
    reasons = f"{where}[0]: {reason}; {where}[1]: {reason}"
    assert answers == [401, 401, 200, 200]
    expected = "missing or wrong token: expected Authorization: Bearer TOKEN"
    assert [(one["level"], one["message"]) for one in lines] == [
        ("WARNING", f"rejected a request of 127.0.0.1 with 401: {expected}"),
        ("WARNING", f"rejected 2 spans of an accepted request of 127.0.0.1: {reasons}"),
        ("INFO", "stopped"),
    ]
    assert {tuple(one) for one in lines} == {("time", "level", "logger", "message")}


@pytest.mark.parametrize(
    ("options", "code", "levels"),
    [((), 0, ["INFO", "INFO"]), (("--host", "0.0.0.0"), 2, ["WARNING"])],
)
def test_each_line_of_a_log_in_json_is_json_also_the_first_and_what_is_refused(
    tmp_path: Path, options: tuple[str, ...], code: int, levels: list[str]
) -> None:
    ports = ("--http-port", "0", "--grpc-port", "0")
    given = ["serve", "--only", "receive", "--db", "s.duckdb", *ports, *options, "--log-format", "json"]
    given, variables = with_variables(given)
    command = [sys.executable, "-m", "spangrade", *given]
    environment = {name: value for name, value in os.environ.items() if name != "SPANGRADE_TOKEN"} | variables
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as process:
        first = process.stderr.readline()
        if not code:
            process.terminate()
        lines = [json.loads(one) for one in (first, *process.stderr)]
    assert (process.returncode, [one["level"] for one in lines]) == (code, levels)
    assert {tuple(one) for one in lines} == {("time", "level", "logger", "message")}


def test_what_went_unlogged_is_counted_in_the_next_line(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 1.0, 59.0, 60.0])
    counters = Counters(clock=lambda: next(times))
    with caplog.at_level("WARNING", "spangrade"):
        for count, peer in ((2, "10.0.0.1"), (3, "10.0.0.1"), (1, "10.0.0.1"), (5, "10.0.0.2")):
            counters.log_rejected_records("spans", count, peer, "why")
    assert caplog.messages == [
        "rejected 2 spans of an accepted request of 10.0.0.1: why",
        "rejected 5 spans of an accepted request of 10.0.0.2: why; 4 more since the last line",
    ]


def test_less_severe_lines_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr("sys.stderr", printed)
    for logger in (logging.getLogger(), logging.getLogger("spangrade")):
        monkeypatch.setattr(logger, "handlers", [])
        monkeypatch.setattr(logger, "level", logger.level)
    log_of_service(LogFormat.JSON, LogLevel.ERROR)
    for name in ("spangrade", "httpx"):
        logging.getLogger(name).warning("left out")
        logging.getLogger(name).error("printed")
    lines = [json.loads(one) for one in printed.getvalue().splitlines()]
    assert [(one["logger"], one["message"]) for one in lines] == [
        ("spangrade", "printed"),
        ("httpx", "printed"),
    ]


def test_sighup_reads_the_token_again_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    with receiver(tmp_path / "s.duckdb", "--token-file", str(file)) as started:
        assert (post(started, "first"), post(started, "second")) == (200, 401)
        assert "WARNING rejected a request of 127.0.0.1 with 401: missing or wrong token" in line(started)
        file.write_text("second")
        again = "INFO SIGHUP: read the token, the certificate and the settings again"
        assert again in after_sighup(started)
        assert (post(started, "first"), post(started, "second")) == (401, 200)
        for unusable in ("", "two lines\nof it"):
            file.write_text(unusable)
            assert f"stay as they were: {file}: expected one line" in after_sighup(started)
            assert post(started, "second") == 200
        file.unlink()
        assert f"stay as they were: {file}: cannot be read" in after_sighup(started)
        assert post(started, "second") == 200


def test_sighup_reads_the_certificate_again_and_keeps_it_if_the_key_is_of_another(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    (first, first_key), (second, second_key) = (self_signed(folder) for folder in folders)
    in_use, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    in_use.write_bytes(first.read_bytes())
    key.write_bytes(first_key.read_bytes())
    with receiver(tmp_path / "s.duckdb", "--tls-cert", str(in_use), "--tls-key", str(key)) as started:
        assert served(started) == first.read_text()
        in_use.write_bytes(second.read_bytes())
        assert f"{in_use} and {key} are not a certificate and its key: " in after_sighup(started)
        assert served(started) == first.read_text()
        assert grpc_answers(started, first)
        key.write_bytes(second_key.read_bytes())
        assert "INFO SIGHUP: read " in after_sighup(started)
        assert served(started) == second.read_text()
        assert (grpc_answers(started, second), grpc_answers(started, first)) == (True, False)


def readable_once(files: Mapping[Path, bytes]) -> None:
    """Make files that have their contents for the first reader, and others after that."""

    def write(file: Path, content: bytes) -> None:
        file.write_bytes(content)
        file.with_suffix(".other").write_bytes(b"other")
        file.with_suffix(".other").replace(file)

    for one in files.items():
        one[0].unlink(missing_ok=True)
        os.mkfifo(one[0])
        Thread(target=write, args=one, daemon=True).start()


def test_the_certificate_and_its_key_are_read_once_and_what_was_read_is_served(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    once = {tmp_path / "key.once": key.read_bytes(), tmp_path / "cert.once": certificate.read_bytes()}
    options = ("--tls-cert", str(tmp_path / "cert.once"), "--tls-key", str(tmp_path / "key.once"))
    readable_once(once)
    with receiver(tmp_path / "s.duckdb", *options) as started:
        assert (served(started), grpc_answers(started, certificate)) == (certificate.read_text(), True)
        readable_once(once)
        assert "INFO SIGHUP: read " in after_sighup(started)
        assert (served(started), grpc_answers(started, certificate)) == (certificate.read_text(), True)
        assert "ERROR SIGHUP: " in after_sighup(started)


def test_sighup_reads_the_redaction_of_the_settings_again(tmp_path: Path) -> None:
    file, db = tmp_path / "spangrade.toml", tmp_path / "s.duckdb"
    file.write_text("")
    addresses = [f"{number}@example.com" for number in range(3)]
    with receiver(db, "--config", str(file)) as started:
        for number, (settings, said) in enumerate(
            [
                ("", "INFO SIGHUP: read "),
                ('redaction = {mode = "mask"}', "INFO SIGHUP: read "),
                (
                    'redaction = {mode = "x"}',
                    "ERROR SIGHUP: the token, the certificate and the settings stay",
                ),
            ]
        ):
            file.write_text(settings)
            assert said in after_sighup(started)
            body = request(number, 1, text=addresses[number]).SerializeToString()
            assert requests.post(started.http + "/v1/traces", data=body, headers=PROTOBUF, timeout=20).ok
        assert started.stop() == 0
    with Store.open(db, read_only=True) as store:
        found = store.query("SELECT attributes->>'text' FROM spans ORDER BY span_id")
    assert [text for (text,) in found] == [addresses[0], "[email]", "[email]"]
