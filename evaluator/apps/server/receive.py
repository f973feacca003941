"""What `spangrade serve` receives, from whom, where it is stored, and how much of it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from spangrade.evaluator.cli.secrets import secret
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.base.fields import OWN, option

if TYPE_CHECKING:
    from spangrade.tracer.receiver.limits import Limits
    from spangrade.tracer.receiver.server import Reread

_log = logging.getLogger("spangrade")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """Where spans are received, from whom, and where they are stored."""

    landing: str | None = option(
        None,
        "With --only receive: the landing folder of a lake, also s3://…, in place of a database.",
        metavar="FOLDER",
    )
    segment_seconds: float = option(
        60.0, "With --landing: how long records wait for others in one file.", least=0.1, setting=OWN
    )
    host: str = option("127.0.0.1", "The address to listen on.", setting=OWN)
    http_port: int = option(4318, "For OTLP over HTTP; 0: any.", least=0, most=65535)
    grpc_port: int = option(4317, "For OTLP over gRPC; 0: any.", least=0, most=65535)
    token: str | None = option(
        None, "What clients must send as a bearer token.", variable="SPANGRADE_TOKEN", setting=OWN
    )
    token_file: Path | None = option(None, "The same with the token in a file.", metavar="FILE", setting=OWN)
    allow_anonymous: bool = option(False, "Listen beyond this machine without a token.")
    tls_cert: Path | None = option(None, "A certificate (PEM) to serve TLS with.", setting=OWN)
    tls_key: Path | None = option(None, "The certificate's key (PEM).", setting=OWN)
    retention: str | None = option(
        None,
        "Delete sessions that ended and arrived, and runs, longer ago, once a day.",
        metavar="30d",
        setting=OWN,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverLimits:
    """How much is received at once, and how long it may take."""

    spool_mb: int = option(
        1024, "How much may wait on disk while the database is in use, in MiB.", least=1, setting=OWN
    )
    max_body_mb: int = option(16, "The largest body, as it is sent, in MiB.", least=1, setting=OWN)
    max_unzipped_mb: int = option(32, "The largest body, decompressed, in MiB.", least=1, setting=OWN)
    max_records: int = option(20_000, "The most spans or logs in a request.", least=1, setting=OWN)
    max_value_mb: int = option(
        4, "The longest name or value of a span, in Mi characters.", least=1, setting=OWN
    )
    max_pending_mb: int = option(
        64, "How much may be in memory, of all bodies together, in MiB.", least=1, setting=OWN
    )
    max_connections: int = option(
        512, "The most connections at once, over HTTP and over gRPC each.", least=1, setting=OWN
    )
    header_timeout: float = option(
        10.0, "How long a connection may take to send its headers, in seconds.", least=0.1, setting=OWN
    )
    body_timeout: float = option(
        30.0, "How long a body may take to arrive, in seconds.", least=0.1, setting=OWN
    )

    def limits(self) -> Limits:
        """Return them as the receiver has them."""
        from spangrade.tracer.receiver.limits import Limits

        return Limits(
            body_bytes=self.max_body_mb * 2**20,
            decompressed_bytes=self.max_unzipped_mb * 2**20,
            records=self.max_records,
            value_chars=self.max_value_mb * 2**20,
            pending_bytes=self.max_pending_mb * 2**20,
            spool_bytes=self.spool_mb * 2**20,
            read_s=self.body_timeout,
            headers_s=self.header_timeout,
            connections=self.max_connections,
        )


def reread(context: typer.Context, to: ReceiverOptions) -> Reread:
    """Return the token and the redaction that are in force, read again from their files."""
    from spangrade.tracer.base.settings import load_settings
    from spangrade.tracer.receiver.server import Reread
    from spangrade.tracer.redaction import redaction

    settings = load_settings(loaded_settings(context).file).settings.redaction
    found = None if settings.mode == "off" else settings.text
    return Reread(secret(to.token, to.token_file, "token"), redaction(found))


def deletion(age: str) -> Callable[[Path], None]:
    """Return a function that logs how much is older, then deletes it, in processes of their own.

    They derive sessions first. Age counts from the arrival too: an import of old recordings is kept. Runs of
    that age go as well.
    """

    def delete(db: Path) -> None:
        command = [sys.executable, "-m", "spangrade", "delete", "--db", str(db), "--before", age]
        command += ["--runs-before", age]
        for options in (["--by-arrival", "--dry-run"], ["--by-arrival"]):
            done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)  # noqa: S603 (our own)
            if done.returncode:
                raise StoreError(f"retention: {done.stderr.strip()}")
            _log.info("retention of %s: %s", age, done.stdout.strip())

    return delete
