"""`spangrade import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spangrade.evaluator.cli.options import Db, Format, OutputFormat, Workers
from spangrade.evaluator.cli.output import database, print_json, warn_not_understood
from spangrade.tracer.terminal import counted, print_line, warn


def _remembered(metavar: str, text: str) -> Any:
    """Return an option whose values the database remembers."""
    return typer.Option(metavar=metavar, help=f'{text} The database remembers it; "" forgets it.')


SessionFrom = Annotated[
    list[str] | None,
    _remembered("ATTRIBUTE", "A span or resource attribute that holds the session's id, before any other."),
]
# What sessions may lack, by the code of lint's finding: what lacks it, and what it is.
_LACKING = {
    "no_user_input": ("turn", "the user's message"),
    "no_response": ("turn", "the agent's answer"),
    "no_tool_arguments": ("tool call", "arguments"),
    "no_tool_result": ("tool call", "result"),
    "no_tokens": ("model call", "tokens"),
}
IgnoreScope = Annotated[
    list[str] | None,
    _remembered("SCOPE", "Do not report spans of this instrumentation scope as not understood."),
]


def import_(
    paths: Annotated[
        list[Path], typer.Argument(help="Recorded spans, logs or sessions, in any of the formats above.")
    ],
    db: Db = None,
    strict: Annotated[bool, typer.Option(help="Import nothing if anything cannot be read.")] = False,
    session_from: SessionFrom = None,
    ignore_scope: IgnoreScope = None,
    workers: Workers = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Import recorded spans and logs, and derive sessions from them.

    The format is recognized by the content, gzip or zstd too:
    OTLP as JSON, JSON Lines or protobuf, and the Collector's files;
    traces of Tempo, Jaeger and Zipkin; exports of Langfuse and Phoenix;
    rows of spans in Parquet, CSV or another DuckDB file;
    debug traces and sessions of ADK.

    What can be read is kept, what cannot is listed, and the exit code is then 2.
    """
    with database(db) as opened:
        imported = opened.import_files(
            paths,
            strict=strict,
            session_from=_named(session_from),
            ignore_scopes=_named(ignore_scope),
            workers=workers,
        )
    if format is Format.JSON:
        print_json(imported._asdict())
    else:
        print_line(
            f"{counted(imported.spans, 'span')} and {counted(imported.logs, 'log')} imported into "
            f"{imported.db}; already there: {imported.duplicates}; "
            f"{counted(imported.sessions, 'session')} in it"
        )
    if imported.records_lost:
        warn(f"not read: {imported.records_lost} of the records; the rest is imported")
    warn_not_understood(imported.not_understood)
    if lacking := [
        f"{counted(imported.lacking[code], what)} without {part}"
        for code, (what, part) in _LACKING.items()
        if code in imported.lacking
    ]:
        warn(f"grades will miss something: {', '.join(lacking)}; what helps: spangrade lint")
    if imported.without_session and not imported.not_understood:
        warn(
            f"no session was found in {counted(imported.without_session, 'span')}: "
            "none of them is known to be an agent's; what helps: spangrade lint"
        )
    raise typer.Exit(imported.exit_code)


def _named(names: list[str] | None) -> list[str] | None:
    """Return the names that are not empty; None if the option is not given."""
    return None if names is None else [name for name in names if name]
