"""`spangrade collect`."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from spangrade.evaluator.cli.deleting import AGE
from spangrade.evaluator.cli.output import warn
from spangrade.tracer.errors import InputError, StoreError
from spangrade.tracer.redaction import redaction


def run(
    db: Path,
    host: str,
    http_port: int,
    grpc_port: int,
    *,
    token: str | None,
    allow_anonymous: bool,
    certificate: Path | None,
    key: Path | None,
    spool_mb: int,
    redact: str | None,
    retention: str | None,
) -> None:
    """Receive spans and logs until the process is told to stop."""
    try:
        from spangrade.tracer.receiver.limits import Limits
        from spangrade.tracer.receiver.server import Settings, collect, is_loopback
    except ModuleNotFoundError as error:
        raise InputError(f"collect needs {error.name}: pip install 'spangrade[collect]'") from None
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    settings = Settings(
        db=db,
        host=host,
        http_port=http_port,
        grpc_port=grpc_port,
        token=token or None,
        open_to_all=allow_anonymous,
        certificate=certificate,
        key=key,
        limits=Limits(spool_bytes=spool_mb * 2**20),
        redact=redaction(redact),
        chore=_deletion(retention) if retention else None,
    )
    if token and not is_loopback(host) and certificate is None:
        warn("the token and the spans go over the network in the clear: give --tls-cert and --tls-key")

    def ready(http: str, grpc: str) -> None:
        print(
            f"collecting into {db}: OTLP over HTTP at {http}, over gRPC at {grpc}",
            file=sys.stderr,
            flush=True,
        )

    collect(settings, ready)


def _deletion(age: str) -> Callable[[Path], None]:
    """Return what deletes the sessions that are older, in a process of its own: it derives them first."""
    if not AGE.fullmatch(age):
        raise InputError(f"--retention {age!r}: write an age such as 30d or 12h")

    def delete(db: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "spangrade.evaluator.cli",
            "delete",
            "--db",
            str(db),
            "--before",
            age,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (our own)
        if done.returncode:
            raise StoreError(f"retention: {done.stderr.strip()}")

    return delete
