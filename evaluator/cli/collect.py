"""`spangrade collect`."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, LogFormatOption, LogLevelOption
from spangrade.evaluator.cli.secrets import secret
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.tracer.errors import InputError, StoreError
from spangrade.tracer.loopback import is_loopback
from spangrade.tracer.terminal import LogFormat, LogLevel, log_of_service

_log = logging.getLogger("spangrade")


def collect(
    context: typer.Context,
    db: Db = None,
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            metavar="FOLDER",
            help="The landing folder of a lake, also s3://…; the spool is beside the path of --db.",
        ),
    ] = None,
    segment_seconds: Annotated[
        float,
        typer.Option(min=0.1, help="With --lake: how long records wait for others in one file.", hidden=True),
    ] = 60.0,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    http_port: Annotated[int, typer.Option(min=0, max=65535, help="For OTLP over HTTP; 0: any.")] = 4318,
    grpc_port: Annotated[int, typer.Option(min=0, max=65535, help="For OTLP over gRPC; 0: any.")] = 4317,
    token: Annotated[
        str | None,
        typer.Option(envvar="SPANGRADE_TOKEN", help="What clients must send as a bearer token.", hidden=True),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same with the token in a file.")
    ] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="Listen beyond this machine without a token.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="A certificate (PEM) to serve TLS with.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    spool_mb: Annotated[
        int,
        typer.Option(
            min=1, help="How much may wait on disk while the database is in use, in MiB.", hidden=True
        ),
    ] = 1024,
    max_body_mb: Annotated[
        int, typer.Option(min=1, help="The largest body, as it is sent, in MiB.", hidden=True)
    ] = 16,
    max_unzipped_mb: Annotated[
        int, typer.Option(min=1, help="The largest body, decompressed, in MiB.", hidden=True)
    ] = 32,
    max_records: Annotated[
        int, typer.Option(min=1, help="The most spans or logs in a request.", hidden=True)
    ] = 20_000,
    max_value_mb: Annotated[
        int, typer.Option(min=1, help="The longest name or value of a span, in Mi characters.", hidden=True)
    ] = 4,
    max_pending_mb: Annotated[
        int,
        typer.Option(min=1, help="How much may be in memory, of all bodies together, in MiB.", hidden=True),
    ] = 64,
    max_connections: Annotated[
        int,
        typer.Option(min=1, help="The most connections at once, over HTTP and over gRPC each.", hidden=True),
    ] = 512,
    header_timeout: Annotated[
        float,
        typer.Option(
            min=0.1, help="How long a connection may take to send its headers, in seconds.", hidden=True
        ),
    ] = 10.0,
    body_timeout: Annotated[
        float, typer.Option(min=0.1, help="How long a body may take to arrive, in seconds.", hidden=True)
    ] = 30.0,
    retention: Annotated[
        str | None,
        typer.Option(metavar="30d", help="Delete sessions that ended and arrived longer ago, once a day."),
    ] = None,
    redact: Annotated[
        str | None,
        typer.Option(
            envvar="SPANGRADE_REDACT",
            metavar="off|mask|hash[:KEYS]",
            help="Replace e-mail addresses, card and phone numbers, secrets, and the values of KEYS.",
        ),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Receive spans and logs over OTLP, from any number of processes and machines, into one database.

    A success means that they are on disk. The database is free for others between two short writes.
    """
    try:
        from spangrade.tracer.receiver.limits import Limits
        from spangrade.tracer.receiver.server import ReceiverSettings, Reread
        from spangrade.tracer.receiver.server import collect as serve
    except ModuleNotFoundError as error:
        raise InputError(f"collect needs {error.name}: pip install '.[collect]' in its checkout") from None
    from spangrade.evaluator.database import check_age, default_path
    from spangrade.tracer.receiver.server import landing_folder
    from spangrade.tracer.redaction import redaction
    from spangrade.tracer.settings import load_settings

    log_of_service(log_format, log_level)

    def reread() -> Reread:
        found = redact
        source = context.get_parameter_source("redact")
        if source is not None and source.name.startswith("DEFAULT"):  # of the settings, or none
            settings = load_settings(loaded_settings(context).file).settings.redaction
            found = None if settings.mode == "off" else settings.text
        return Reread(secret(context, "token", "token", token, token_file), redaction(found))

    given = reread()
    path = db or default_path()
    landing = None if lake is None else landing_folder(lake)
    if landing is not None and retention:
        raise InputError("--retention is for a database, not for a lake")
    settings = ReceiverSettings(
        db=path,
        host=host,
        http_port=http_port,
        grpc_port=grpc_port,
        token=given.token,
        allow_anonymous=allow_anonymous,
        certificate=tls_cert,
        key=tls_key,
        limits=Limits(
            body_bytes=max_body_mb * 2**20,
            decompressed_bytes=max_unzipped_mb * 2**20,
            records=max_records,
            value_chars=max_value_mb * 2**20,
            pending_bytes=max_pending_mb * 2**20,
            spool_bytes=spool_mb * 2**20,
            read_s=body_timeout,
            headers_s=header_timeout,
            connections=max_connections,
        ),
        redact=given.redact,
        reread=reread,
        maintenance_task=_deletion(check_age(retention)) if retention else None,
        landing=landing,
        segment_s=segment_seconds,
    )
    if given.token and not is_loopback(host) and tls_cert is None:
        _log.warning(
            "the token and the spans go over the network in the clear: give --tls-cert and --tls-key"
        )

    def ready(http: str, grpc: str) -> None:
        into = landing or path
        _log.info("collecting into %s: OTLP over HTTP at %s, over gRPC at %s", into, http, grpc)

    serve(settings, ready)


def _deletion(age: str) -> Callable[[Path], None]:
    """Return a function that logs how much is older, then deletes it, in processes of their own.

    They derive sessions first. Age counts from the arrival too: an import of old recordings is kept.
    """

    def delete(db: Path) -> None:
        command = [sys.executable, "-m", "spangrade", "delete", "--db", str(db), "--before", age]
        for options in (["--by-arrival", "--dry-run"], ["--by-arrival"]):
            done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)  # noqa: S603 (our own)
            if done.returncode:
                raise StoreError(f"retention: {done.stderr.strip()}")
            _log.info("retention of %s: %s", age, done.stdout.strip())

    return delete
