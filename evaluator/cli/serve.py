"""`spangrade serve`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, JudgeOptions
from spangrade.evaluator.cli.collect import ReceiverLimits, ReceiverOptions, deletion
from spangrade.evaluator.cli.declare import RARE, Only, WithDefault, commands_under
from spangrade.evaluator.cli.options import Logs, Printed, Selected
from spangrade.evaluator.cli.secrets import secret
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.evaluator.serve.keys import KeyFile, Role
from spangrade.evaluator.watch.options import WatchOptions
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import REQUIRED, argument, option
from spangrade.tracer.base.installation import to_install
from spangrade.tracer.base.terminal import print_line

_log = logging.getLogger("spangrade")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerData:
    """Where a server has its data."""

    data: Path = option(
        Path(),
        "The folder of the database, its spool and the keys.",
        metavar="FOLDER",
        variable="SPANGRADE_DATA",
    )

    @property
    def keys(self) -> KeyFile:
        """The file of its keys."""
        return KeyFile(self.data / "keys.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """Where a server's pages are, to whom, and by what sessions are graded."""

    port: int = option(4319, "For the pages; 0: any.", least=0, most=65535)
    base_path: str = option("", "The path under which the pages are.", metavar="/PATH")
    public_url: str | None = option(
        None, "The address at which people reach the server; its host is allowed.", metavar="URL"
    )
    allowed_host: Iterable[str] = option(
        (), "A name by which pages may be asked for, too; repeatable.", metavar="NAME", rare=True
    )
    trusted_proxy: Iterable[str] = option(
        (), "An address or network of proxies to believe; repeatable.", metavar="NETWORK", rare=True
    )
    login_header: str | None = option(
        None, "The header in which a trusted proxy names who is logged in.", metavar="HEADER", rare=True
    )
    login_role: Role = option(
        Role.READ, "The role of whom a proxy names: read, review, admin.", metavar="ROLE", rare=True
    )
    dataset: Path | None = option(None, "Golden questions that sessions may answer.", metavar="FILE")
    golden: Path | None = option(
        None, "The golden file to which reviewers add questions.", metavar="FILE", rare=True
    )
    webhook_file: Path | None = option(
        None, "A file with the URL of the webhook, which may be a secret.", metavar="FILE"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """Whose key it is, and what it may do."""

    name: str = argument(REQUIRED, "Who or what is to have it.")
    role: Role = option(
        REQUIRED, "send: spans; read: pages and metrics; review: labels, too; admin: all.", metavar="ROLE"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedKey:
    """Whose key it is."""

    name: str = argument(REQUIRED, "Whose key is to end.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Where a copy is."""

    folder: Path = argument(REQUIRED, "The folder of the copy.")


_RECEIVED = Only(
    "host", "http_port", "grpc_port", "allow_anonymous", "tls_cert", "tls_key", "retention", "redact"
)
_WATCHED = Only("idle_s", "every_s", "notify_since", "webhook", "webhook_format", "otlp", "send")


def serve(
    context: typer.Context,
    gates: Annotated[Gates, RARE],
    select: Annotated[Selected, RARE],
    judge: Annotated[JudgeOptions, RARE],
    options: Annotated[WatchOptions, _WATCHED, RARE],
    of: ServerData,
    to: Annotated[ReceiverOptions, _RECEIVED],
    most: ReceiverLimits,
    pages: PageOptions,
    logs: Logs,
) -> None:
    """Receive spans, grade sessions once they are idle, and serve pages, as one service over one database.

    Without keys it is for this machine alone, as `collect` and `view` are. Once `spangrade serve keys create`
    made one, everybody needs a key. Stop it with SIGTERM: what was acknowledged is stored.
    """
    try:
        from spangrade.evaluator.serve.entrance import Proxy
        from spangrade.evaluator.serve.serve import ServeOptions
        from spangrade.tracer.receiver.server import ReceiverSettings
    except ModuleNotFoundError as error:
        raise InputError(f"serve needs {error.name}: {to_install('collect', 'view')}") from None
    from spangrade import open as open_database
    from spangrade.evaluator.database import check_age
    from spangrade.tracer.redaction import redaction

    logs.begin()
    if not of.data.is_dir():
        raise InputError(f"--data {of.data}: no such folder")
    settings = loaded_settings(context)
    configured = settings.settings.redaction
    redact = (None if configured.mode == "off" else configured.text) if to.redact is None else to.redact
    keys = of.keys

    def allows(text: str, purpose: str) -> bool | None:
        return keys.allows(text, purpose) if keys.is_needed() else None

    receiver = ReceiverSettings(
        db=of.data / "spangrade.duckdb",
        host=to.host,
        http_port=to.http_port,
        grpc_port=to.grpc_port,
        allow_anonymous=to.allow_anonymous,
        allows=allows,
        certificate=to.tls_cert,
        key=to.tls_key,
        limits=most.limits(),
        redact=redaction(redact),
        maintenance_task=deletion(check_age(to.retention)) if to.retention else None,
    )
    serving = ServeOptions(
        receiver,
        keys,
        pages.port,
        pages.base_path.rstrip("/"),
        pages.public_url,
        tuple(pages.allowed_host),
        Proxy.of(tuple(pages.trusted_proxy), pages.login_header, pages.login_role),
        pages.golden,
    )
    url = secret(context, "webhook", options.webhook, pages.webhook_file)

    def ready(at: str, http: str, grpc: str) -> None:
        _log.info("pages at %s, OTLP over HTTP at %s, over gRPC at %s", at, http, grpc)

    open_database(receiver.db, settings=settings.file).serve(
        serving,
        pages.dataset,
        gates=gates,
        select=select,
        judge=judge,
        watching=replace(options, webhook=url, public_url=serving.public_address),
        on_ready=ready,
    )


def backup(copied: Copied, of: ServerData) -> None:
    """Copy the database and the keys while a server runs; the copy is opened and its rows are counted."""
    from spangrade.evaluator.serve.backup import backup

    _print_rows(copied.folder, backup(of.data, copied.folder))


def restore(copied: Copied, of: ServerData) -> None:
    """Copy a backup into a folder without a database, for a server to start on."""
    from spangrade.evaluator.serve.backup import restore

    _print_rows(of.data, restore(copied.folder, of.data))


def create(new: NewKey, of: ServerData) -> None:
    """Create a key, and print it: it is shown this once, and only its hash is stored."""
    print_line(of.keys.create(new.name, new.role))


def list_(of: ServerData, printed: Printed) -> None:
    """List who has which key."""
    rows = [{"name": one.name, "role": str(one.role), "created": one.created} for one in of.keys.all()]
    printed.write_rows(rows, ("name", "role", "created"))


def alerts(of: ServerData, printed: Printed) -> None:
    """List the alarms of the alerts in the settings: those that are on first, then what is over."""
    from spangrade import open as open_database

    alarms = open_database(of.data / "spangrade.duckdb").alarms()
    rows = [
        {"state": "on" if one.ended_ns is None else "over", "of": one.of, **one.to_json()} for one in alarms
    ]
    printed.write_rows(rows, ("state", "alert", "of", "text", "cause", "started_at", "ended_at"))


def revoke(named: NamedKey, of: ServerData) -> None:
    """Revoke a key: it, and logins with it, end at once."""
    of.keys.revoke(named.name)
    print_line(f"{named.name} has no key any more")


def _print_rows(folder: Path, rows: Mapping[str, int]) -> None:
    spans, sessions = rows.get("main.spans", 0), rows.get("derived.sessions", 0)
    print_line(f"{folder}: {spans:,} spans and {sessions:,} sessions, in {len(rows)} tables")


keys = commands_under(
    "Create, list and revoke the keys of a server; it need not be started again.",
    create,
    list_,
    revoke,
    no_args_is_help=True,
)
app = commands_under(
    "Receive, grade and show sessions as one service, for a team.",
    serve,
    alerts,
    backup,
    restore,
    cls=WithDefault,
)
app.add_typer(keys, name="keys")
