"""`spangrade collect`."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from spangrade.evaluator.cli.options import InFile, Logs
from spangrade.evaluator.cli.secrets import secret
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.tracer.base.errors import InputError, StoreError
from spangrade.tracer.base.fields import option
from spangrade.tracer.base.installation import to_install
from spangrade.tracer.base.loopback import is_loopback

if TYPE_CHECKING:
    from spangrade.tracer.receiver.limits import Limits

_log = logging.getLogger("spangrade")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """Where spans are received, from whom, and where they are stored."""

    lake: str | None = option(
        None,
        "The landing folder of a lake, also s3://…; the spool is beside the path of --db.",
        metavar="FOLDER",
    )
    segment_seconds: float = option(
        60.0, "With --lake: how long records wait for others in one file.", least=0.1, rare=True
    )
    host: str = option("127.0.0.1", "The address to listen on.")
    http_port: int = option(4318, "For OTLP over HTTP; 0: any.", least=0, most=65535)
    grpc_port: int = option(4317, "For OTLP over gRPC; 0: any.", least=0, most=65535)
    token: str | None = option(
        None, "What clients must send as a bearer token.", variable="SPANGRADE_TOKEN", rare=True
    )
    token_file: Path | None = option(None, "The same with the token in a file.", metavar="FILE")
    allow_anonymous: bool = option(False, "Listen beyond this machine without a token.")
    tls_cert: Path | None = option(None, "A certificate (PEM) to serve TLS with.")
    tls_key: Path | None = option(None, "The certificate's key (PEM).")
    retention: str | None = option(
        None, "Delete sessions that ended and arrived, and runs, longer ago, once a day.", metavar="30d"
    )
    redact: str | None = option(
        None,
        "Replace e-mail addresses, card and phone numbers, secrets, and the values of KEYS.",
        metavar="off|mask|hash[:KEYS]",
        variable="SPANGRADE_REDACT",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverLimits:
    """How much is received at once, and how long it may take."""

    spool_mb: int = option(
        1024, "How much may wait on disk while the database is in use, in MiB.", least=1, rare=True
    )
    max_body_mb: int = option(16, "The largest body, as it is sent, in MiB.", least=1, rare=True)
    max_unzipped_mb: int = option(32, "The largest body, decompressed, in MiB.", least=1, rare=True)
    max_records: int = option(20_000, "The most spans or logs in a request.", least=1, rare=True)
    max_value_mb: int = option(
        4, "The longest name or value of a span, in Mi characters.", least=1, rare=True
    )
    max_pending_mb: int = option(
        64, "How much may be in memory, of all bodies together, in MiB.", least=1, rare=True
    )
    max_connections: int = option(
        512, "The most connections at once, over HTTP and over gRPC each.", least=1, rare=True
    )
    header_timeout: float = option(
        10.0, "How long a connection may take to send its headers, in seconds.", least=0.1, rare=True
    )
    body_timeout: float = option(
        30.0, "How long a body may take to arrive, in seconds.", least=0.1, rare=True
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


def collect(
    context: typer.Context, at: InFile, to: ReceiverOptions, most: ReceiverLimits, logs: Logs
) -> None:
    """Receive spans and logs over OTLP, from any number of processes and machines, into one database.

    A success means that they are on disk. The database is free for others between two short writes.
    """
    try:
        from spangrade.tracer.receiver.server import ReceiverSettings, Reread
        from spangrade.tracer.receiver.server import collect as serve
    except ModuleNotFoundError as error:
        raise InputError(f"collect needs {error.name}: {to_install('collect')}") from None
    from spangrade.evaluator.database import check_age, default_path
    from spangrade.tracer.base.settings import load_settings
    from spangrade.tracer.receiver.server import landing_folder
    from spangrade.tracer.redaction import redaction

    logs.begin()

    def reread() -> Reread:
        found = to.redact
        source = context.get_parameter_source("redact")
        if source is not None and source.name.startswith("DEFAULT"):  # of the settings, or none
            settings = load_settings(loaded_settings(context).file).settings.redaction
            found = None if settings.mode == "off" else settings.text
        return Reread(secret(context, "token", to.token, to.token_file), redaction(found))

    given = reread()
    path = at.db or default_path()
    landing = None if to.lake is None else landing_folder(to.lake)
    if landing is not None and to.retention:
        raise InputError("--retention is for a database, not for a lake")
    settings = ReceiverSettings(
        db=path,
        host=to.host,
        http_port=to.http_port,
        grpc_port=to.grpc_port,
        token=given.token,
        allow_anonymous=to.allow_anonymous,
        certificate=to.tls_cert,
        key=to.tls_key,
        limits=most.limits(),
        redact=given.redact,
        reread=reread,
        maintenance_task=deletion(check_age(to.retention)) if to.retention else None,
        landing=landing,
        segment_s=to.segment_seconds,
    )
    if given.token and not is_loopback(to.host) and to.tls_cert is None:
        _log.warning(
            "the token and the spans go over the network in the clear: give --tls-cert and --tls-key"
        )

    def ready(http: str, grpc: str) -> None:
        into = landing or path
        _log.info("collecting into %s: OTLP over HTTP at %s, over gRPC at %s", into, http, grpc)

    serve(settings, ready)


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
