"""`spangrade mcp`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spangrade.evaluator.cli.options import Labelling, Logs, StoredIn
from spangrade.evaluator.cli.secrets import secret
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import OWN, option
from spangrade.tracer.base.installation import needing
from spangrade.tracer.base.terminal import LogLevel

_log = logging.getLogger("spangrade")


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningLogs(Logs):
    """How it logs: the streams are for answers."""

    log_level: LogLevel = option(
        LogLevel.WARNING, "The least severe log lines that are printed.", setting=OWN
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """How answers are given, and to whom."""

    port: int | None = option(
        None,
        "Serve over HTTP at this port of this machine, not over the streams; 0: any.",
        least=0,
        most=65535,
    )
    token: str | None = option(
        None, "What clients must send as a bearer token.", variable="SPANGRADE_TOKEN", setting=OWN
    )
    token_file: Path | None = option(
        None,
        "With --port: a file with what clients must send as a bearer token.",
        metavar="FILE",
        setting=OWN,
    )
    keys: Path | None = option(
        None,
        "With --port: the folder of `spangrade serve` whose keys clients send; they must be ones that may "
        "read or, with --allow-labels, review.",
        metavar="FOLDER",
    )
    max_tokens: int = option(
        5000, "How many tokens an answer has at most.", least=1000, metavar="N", setting=OWN
    )
    instructions: bool = option(False, "Print a skill for coding agents, and exit.")


def mcp(to: McpOptions, labelling: Labelling, at: StoredIn, logs: WarningLogs) -> None:
    """Let a coding agent ask about sessions, runs and metrics, over the Model Context Protocol.

    It changes nothing, unless --allow-labels lets it label sessions and draft golden questions for a person.
    """
    if to.instructions:
        from spangrade.evaluator.apps.mcp.guides import SKILL, guide

        sys.stdout.write(guide(SKILL))
        return
    person = labelling.person()
    for name, value in (("token_file", to.token_file), ("--keys", to.keys)):
        if value is not None and to.port is None:
            raise InputError(f"{name} is for clients over HTTP: expected --port, too")
    with needing("mcp", "mcp"):
        from spangrade.evaluator.apps.mcp.server import serve_http, server_of
        from spangrade.evaluator.apps.mcp.tools import Tools
        from spangrade.tracer.receiver.access import Access

    logs.begin()
    with at.opened() as opened:
        tools = Tools(opened, person, labelling.golden, to.max_tokens)
        if to.port is None:
            server_of(tools).run("stdio")
        else:
            given = secret(to.token, to.token_file, "token")
            access = Access(given or None) if to.keys is None else Access(allows=_by_keys(to.keys))
            serve_http(tools, to.port, access, ready=lambda url: _log.warning("%s at %s", opened.path, url))


def _by_keys(folder: Path) -> Callable[[str, str], bool]:
    """Return whether a key of a server may do something. Raises InputError if the server has no keys."""
    from spangrade.tracer.receiver.keys import KeyFile

    keys = KeyFile(folder / "keys.json")
    if not keys.is_needed():
        raise InputError(f"--keys {folder}: no keys there: spangrade serve keys create NAME --role read")
    return keys.allows
