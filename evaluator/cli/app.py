"""The commands and their options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli import converting
from spangrade.evaluator.cli.options import DB, DEFAULT_DB

app = typer.Typer(
    name="spangrade",
    help="Grade AI agents from the OpenTelemetry spans they emit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(converting.app, name="convert")


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


MetricsFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE",
        help="Metrics of your own: definitions.json, a query.sql, module.py.",
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="A table, or JSON alone on standard output.")]


@app.callback()
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from spangrade import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.command("import")
def import_(
    paths: Annotated[list[Path], typer.Argument(help="Recorded spans, logs, or sessions; .gz too.")],
    db: DB = DEFAULT_DB,
    strict: Annotated[bool, typer.Option(help="Import nothing if anything cannot be read.")] = False,
    session_from: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTRIBUTE",
            help="A span or resource attribute that holds the session's id, before any other; kept in the "
            "database, an empty one takes it back.",
        ),
    ] = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Import recorded spans and logs, and derive sessions from them.

    What can be read is kept, what cannot is listed, and the exit code is then 2.
    """
    from spangrade.evaluator.cli.importing import run

    run(paths, db, session_from or [], strict=strict, as_json=format is Format.JSON)


@app.command()
def grade(
    dataset: Annotated[
        Path,
        typer.Argument(
            help="Golden JSON, a folder of it and its spans, an ADK eval set, a simulation's CSV or JSONL."
        ),
    ],
    db: DB = DEFAULT_DB,
    spans: Annotated[
        list[Path] | None,
        typer.Option(help="Recorded spans to import and grade; without, all stored sessions are graded."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[>=T]", help="A metric to grade by; with a threshold it is a gate."),
    ] = None,
    metrics_file: MetricsFiles = None,
    out: Annotated[Path | None, typer.Option(help="A folder for results.json and sessions.jsonl.")] = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002
) -> None:
    """Grade stored sessions against a golden dataset.

    Exit codes: 0 all passed, 1 a session failed, 2 bad input, 3 a metric broke, 4 inconclusive.
    """
    from spangrade.evaluator.cli.grading import run

    run(
        dataset,
        db,
        spans or [],
        metric or [],
        out,
        metrics_files=metrics_file or [],
        as_json=format is Format.JSON,
    )


@app.command()
def sessions(db: DB = DEFAULT_DB, format: OutputFormat = Format.TABLE) -> None:  # noqa: A002
    """List the sessions."""
    from spangrade.evaluator.cli.showing import list_sessions

    list_sessions(db, as_json=format is Format.JSON)


@app.command()
def show(
    session: Annotated[str, typer.Argument(help="A session's id, or the beginning of one.")],
    db: DB = DEFAULT_DB,
    format: OutputFormat = Format.TABLE,  # noqa: A002
) -> None:
    """Show what an agent did in one session."""
    from spangrade.evaluator.cli.showing import show_session

    show_session(session, db, as_json=format is Format.JSON)


@app.command()
def lint(
    session: Annotated[str | None, typer.Argument(help="A session's id, or the beginning of one.")] = None,
    db: DB = DEFAULT_DB,
    format: OutputFormat = Format.TABLE,  # noqa: A002
) -> None:
    """Say what recordings lack, which metrics that makes inconclusive, and what would mend it.

    Exit codes: 0 all well, 2 bad input, 4 a metric is inconclusive for what could be mended.
    """
    from spangrade.evaluator.cli.linting import run

    run(session, db, as_json=format is Format.JSON)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="A query over spans, logs and the derived views.")],
    db: DB = DEFAULT_DB,
    format: OutputFormat = Format.TABLE,  # noqa: A002
) -> None:
    """Ask SQL of the spans and of what is derived from them; nothing can be written, no file read."""
    from spangrade.evaluator.cli.querying import run

    run(query, db, as_json=format is Format.JSON)


@app.command()
def collect(
    db: DB = DEFAULT_DB,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    http_port: Annotated[int, typer.Option(min=0, max=65535, help="For OTLP over HTTP; 0: any.")] = 4318,
    grpc_port: Annotated[int, typer.Option(min=0, max=65535, help="For OTLP over gRPC; 0: any.")] = 4317,
    token: Annotated[
        str | None,
        typer.Option(envvar="SPANGRADE_TOKEN", help="What clients must send as a bearer token."),
    ] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="Listen beyond this machine without a token.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="A certificate (PEM) to serve TLS with.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    spool_mb: Annotated[
        int, typer.Option(min=1, help="How much may wait on disk while the database is in use, in MiB.")
    ] = 1024,
    retention: Annotated[
        str | None, typer.Option(metavar="30d", help="Delete sessions that ended longer ago, once a day.")
    ] = None,
    redact: Annotated[
        str | None,
        typer.Option(
            envvar="SPANGRADE_REDACT",
            metavar="off|mask|hash[:KEYS]",
            help="Take e-mail addresses, card and phone numbers, secrets, and the values of KEYS out.",
        ),
    ] = None,
) -> None:
    """Receive spans and logs over OTLP, from any number of processes and machines, into one database.

    A success means that they are on disk. The database is free for others between two short writes.
    """
    from spangrade.evaluator.cli.collecting import run

    run(
        db,
        host,
        http_port,
        grpc_port,
        token=token,
        allow_anonymous=allow_anonymous,
        certificate=tls_cert,
        key=tls_key,
        spool_mb=spool_mb,
        redact=redact,
        retention=retention,
    )


class Schema(StrEnum):
    """What has a JSON Schema."""

    GOLDEN = "golden"


@app.command()
def schema(
    of: Annotated[Schema, typer.Argument(help="What to print the schema of.")],  # noqa: ARG001 (there is one)
) -> None:
    """Print the JSON Schema of a golden dataset file."""
    from spangrade.converters.datasets.golden import GoldenDataset
    from spangrade.evaluator.cli.output import print_json

    print_json(GoldenDataset.model_json_schema())


@app.command()
def delete(
    db: DB = DEFAULT_DB,
    session: Annotated[list[str] | None, typer.Option(help="The session of this id.")] = None,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Sessions that ended before 2026-01-31, or 30d ago.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Sessions in which this user.id is named.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing, only count.")] = False,
    format: OutputFormat = Format.TABLE,  # noqa: A002
) -> None:
    """Delete sessions for good: spans, logs, what is derived, scores; the file becomes smaller."""
    from spangrade.evaluator.cli.deleting import run

    run(db, session or [], before, user, dry_run=dry_run, as_json=format is Format.JSON)


@app.command()
def metrics(
    metrics_file: MetricsFiles = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002
) -> None:
    """List the metrics, and those of files beside them."""
    from spangrade.evaluator.cli.showing import list_metrics

    list_metrics(metrics_file or [], as_json=format is Format.JSON)
