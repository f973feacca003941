"""`spangrade import`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from spangrade.evaluator.cli.options import Printed, Readers, StoredIn
from spangrade.tracer.base.fields import REQUIRED, argument, option
from spangrade.tracer.base.terminal import counted, print_line, warn

# What sessions may lack, by the code of lint's finding: what lacks it, and what it is.
_LACKING = {
    "no_user_input": ("turn", "the user's message"),
    "no_response": ("turn", "the agent's answer"),
    "no_tool_arguments": ("tool call", "arguments"),
    "no_tool_result": ("tool call", "result"),
    "no_tokens": ("model call", "tokens"),
}
_REMEMBERED = 'The database remembers it; "" forgets it.'


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What is imported, and how it is read."""

    paths: tuple[Path, ...] = argument(
        REQUIRED, "Recorded spans, logs or sessions, in any of the formats above.", metavar="PATHS..."
    )
    strict: bool = option(False, "Import nothing if anything cannot be read.")
    session_from: tuple[str, ...] | None = option(
        None,
        f"A span or resource attribute that holds the session's id, before any other. {_REMEMBERED}",
        metavar="ATTRIBUTE",
    )
    ignore_scopes: tuple[str, ...] | None = option(
        None,
        f"Do not report spans of this instrumentation scope as not understood. {_REMEMBERED}",
        name="--ignore-scope",
        metavar="SCOPE",
    )


def import_(what: ImportOptions, at: StoredIn, by: Readers, printed: Printed) -> None:
    """Import recorded spans and logs, and derive sessions from them.

    The format is recognized by the content, gzip or zstd too:
    OTLP as JSON, JSON Lines or protobuf, and the Collector's files;
    traces of Tempo, Jaeger and Zipkin; exports of Langfuse and Phoenix;
    rows of spans in Parquet, CSV or another DuckDB file;
    debug traces and sessions of ADK; logs of Inspect;
    chat messages, ATIF trajectories and transcripts of Claude Code.

    What can be read is kept, what cannot is listed, and the exit code is then 2.
    From 20,000 spans on as many processes read as there are CPUs, up to 4, or SPANGRADE_WORKERS.
    """
    with at.opened() as opened:
        imported = opened.import_files(
            what.paths,
            strict=what.strict,
            session_from=_named(what.session_from),
            ignore_scopes=_named(what.ignore_scopes),
            workers=by.workers,
        )
    if not printed.as_table:
        printed.write(imported._asdict() | {"not_read": imported.not_read._asdict()})
    else:
        print_line(
            f"{counted(imported.spans, 'span')} and {counted(imported.logs, 'log')} imported into "
            f"{imported.db}; already there: {imported.duplicates}; "
            f"{counted(imported.sessions, 'session')} in it"
        )
    if imported.records_lost:
        warn(f"not read: {imported.records_lost} of the records; the rest is imported")
    if lacking := [
        f"{counted(imported.lacking[code], what)} without {part}"
        for code, (what, part) in _LACKING.items()
        if code in imported.lacking
    ]:
        warn(f"grades will miss something: {', '.join(lacking)}; what helps: spangrade lint")
    if not_read := imported.not_read.in_words:
        warn(f"not understood: {not_read}; examples, and what helps: spangrade lint")
    raise typer.Exit(imported.exit_code)


def _named(names: tuple[str, ...] | None) -> list[str] | None:
    """Return the names that are not empty; None if the option is not given."""
    return None if names is None else [name for name in names if name]
