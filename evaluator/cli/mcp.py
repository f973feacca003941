"""`spangrade mcp`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import (
    AllowLabels,
    Db,
    GoldenToWrite,
    LakeCatalog,
    LogFormatOption,
    LogLevelOption,
    Person,
    person_who_labels,
)
from spangrade.evaluator.cli.output import database_or_lake
from spangrade.evaluator.cli.secrets import secret
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import LogFormat, LogLevel, log_of_service

_log = logging.getLogger("spangrade")


def mcp(
    context: typer.Context,
    db: Db = None,
    lake: LakeCatalog = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Serve over HTTP at this port of this machine, not over the streams; 0: any.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="SPANGRADE_TOKEN", help="What clients must send as a bearer token.", hidden=True),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --port: a file with what clients must send as a bearer token."
        ),
    ] = None,
    allow_labels: AllowLabels = False,
    as_: Person = None,
    golden: GoldenToWrite = None,
    max_tokens: Annotated[
        int, typer.Option(min=1000, metavar="N", help="How many tokens an answer has at most.", hidden=True)
    ] = 5000,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Print a skill for coding agents, and exit.")
    ] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Let a coding agent ask about sessions, runs and metrics, over the Model Context Protocol.

    It changes nothing, unless --allow-labels lets it label sessions and draft golden questions for a person.
    """
    if instructions:
        from spangrade.evaluator.mcp.guides import SKILL, guide

        sys.stdout.write(guide(SKILL))
        return
    person = person_who_labels(allow_labels, as_, golden)
    if token_file is not None and port is None:
        raise InputError("--token-file is for clients over HTTP: expected --port, too")
    try:
        from spangrade.evaluator.mcp.server import serve_http, server_of
        from spangrade.evaluator.mcp.tools import Tools
    except ModuleNotFoundError as error:
        raise InputError(f"mcp needs {error.name}: pip install '.[mcp]' in its checkout") from None

    log_of_service(log_format, log_level)
    with database_or_lake(db, lake) as opened:
        tools = Tools(opened, person, golden, max_tokens)
        if port is None:
            server_of(tools).run("stdio")
        else:
            given = secret(context, "token", "token", token, token_file)
            serve_http(tools, port, given, ready=lambda url: _log.warning("%s at %s", opened.path, url))
