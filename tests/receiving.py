"""A receiver in a process of its own, as its users run it, and requests for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

from command_line import with_variables
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver(NamedTuple):
    """A running receiver and where it listens."""

    process: subprocess.Popen[str]
    http: str
    grpc: str
    db: Path

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.terminate()
        return self.process.wait(30)


def start(db: Path, *options: str, python: Sequence[str] = (sys.executable, "-m", "spangrade")) -> Receiver:
    """Start a receiver on free ports of the loopback; `python` runs the command line."""
    given, variables = with_variables(["serve", "--only", "receive", "--db", str(db), *options])
    process = subprocess.Popen(
        [*python, *given, "--http-port", "0", "--grpc-port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    said = ""
    while line := process.stderr.readline():
        said += line
        if found := re.search(r"HTTP at (\S+), over gRPC at (\S+)", line):
            return Receiver(process, found[1], found[2], db)
    process.wait()
    process.stderr.close()
    raise AssertionError(said)


@contextmanager
def receiver(db: Path, *options: str) -> Iterator[Receiver]:
    """Run a receiver as long as the block lasts."""
    running = start(db, *options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()
        running.process.stderr.close()


def request(first: int, count: int, **attributes: str) -> ExportTraceServiceRequest:
    """Return a request of `count` spans with the ids from `first` on."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "shop"
    spans = group.scope_spans.add().spans
    for number in range(first, first + count):
        span = spans.add(
            trace_id=(number // 8 + 1).to_bytes(16, "big"),
            span_id=(number + 1).to_bytes(8, "big"),
            name="chat",
            start_time_unix_nano=1_780_000_000_000_000_000 + number,
            end_time_unix_nano=1_780_000_001_000_000_000 + number,
        )
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
    return message


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1, signed by itself, and its key; return their files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(signed.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"
