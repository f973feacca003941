"""`spangrade serve`."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spangrade import Gates, JudgeOptions, Selection
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.receive import ReceiverLimits, ReceiverOptions, deletion, reread
from spangrade.evaluator.cli.declare import Only, WithDefault, commands_under
from spangrade.evaluator.cli.options import Logs, Printed, Selected, StoredIn
from spangrade.evaluator.cli.output import database
from spangrade.evaluator.cli.secrets import secret
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.tracer.base.errors import InputError, hint
from spangrade.tracer.base.fields import OWN, REQUIRED, argument, option
from spangrade.tracer.base.installation import needing
from spangrade.tracer.base.quantities import check_age
from spangrade.tracer.base.sockets import is_loopback, listen
from spangrade.tracer.base.terminal import print_line
from spangrade.tracer.receiver.keys import KeyFile, Role

if TYPE_CHECKING:
    from spangrade.tracer.receiver.server import ReceiverSettings

_log = logging.getLogger("spangrade")


class ServerPart(StrEnum):
    """A part of a server."""

    RECEIVE = "receive"
    GRADE = "grade"
    PAGES = "pages"


ALL = frozenset(ServerPart)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """Which parts of a server run in this process."""

    only: str = option(
        ",".join(ServerPart),
        "Run these parts alone: receive (spans and logs), grade (sessions once they are idle), pages.",
        metavar="PART,…",
        shown_default="all three",
    )

    @property
    def parts(self) -> frozenset[ServerPart]:
        """The parts. Raises InputError for another name."""
        names = [one.strip() for one in self.only.split(",") if one.strip()]
        for name in names:
            if name not in set(ServerPart):
                raise InputError(f"--only {name}: {hint(name, ServerPart)}")
        return frozenset(map(ServerPart, names)) or ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerData:
    """Where a server has its data."""

    data: Path = option(
        Path(),
        "The folder of the database, its spool and the keys.",
        metavar="FOLDER",
        variable="SPANGRADE_DATA",
    )

    def database(self, context: typer.Context, at: StoredIn) -> Path:
        """Return the database: that of the folder if one is given, else that of --db or the settings."""
        source = context.get_parameter_source("data")
        if at.file is None or (source is not None and not source.name.startswith("DEFAULT")):
            return self.data / "spangrade.duckdb"
        return at.file

    def keys(self, db: Path | None = None) -> KeyFile:
        """Return the file of the keys, beside the database."""
        return KeyFile((self.data if db is None else db.parent) / "keys.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """Where a server's pages are, to whom, and by what sessions are graded."""

    port: int = option(4319, "For the pages; 0: any.", least=0, most=65535)
    base_path: str = option("", "The path under which the pages are.", metavar="/PATH", setting=OWN)
    public_url: str | None = option(
        None, "The address at which people reach the server; its host is allowed.", metavar="URL", setting=OWN
    )
    allowed_host: Iterable[str] = option(
        (), "A name by which pages may be asked for, too; repeatable.", metavar="NAME", setting=OWN
    )
    trusted_proxy: Iterable[str] = option(
        (), "An address or network of proxies to believe; repeatable.", metavar="NETWORK", setting=OWN
    )
    login_header: str | None = option(
        None, "The header in which a trusted proxy names who is logged in.", metavar="HEADER", setting=OWN
    )
    login_role: Role = option(
        Role.READ, "The role of whom a proxy names: read, review, admin.", metavar="ROLE", setting=OWN
    )
    dataset: Path | None = option(None, "Golden questions that sessions may answer.", metavar="FILE")
    golden: Path | None = option(
        None,
        "The file to which reviewers add questions; golden.json beside the database.",
        metavar="FILE",
    )
    webhook_file: Path | None = option(
        None, "A file with the URL of the webhook, which may be a secret.", metavar="FILE", setting=OWN
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


_WATCHED = Only("idle_s", "every_s", "once", "notify_since", "webhook", "webhook_format", "otlp", "send")


def serve(
    context: typer.Context,
    gates: Annotated[Gates, Only("metrics", "metrics_files")],
    select: Selected,
    judge: JudgeOptions,
    options: Annotated[WatchOptions, _WATCHED],
    of: ServerData,
    only: ServerParts,
    to: ReceiverOptions,
    most: ReceiverLimits,
    pages: PageOptions,
    at: StoredIn,
    logs: Logs,
) -> None:
    """Receive spans, grade sessions once they are idle, and serve pages, as one service over one database.

    Without keys it is for this machine alone. Once `spangrade serve keys create` made one, everybody needs a
    key. Sessions of production are graded, unless --where names an origin, each once for what it is. Stop it
    with SIGTERM: what was acknowledged is stored. Limits, hosts, TLS, retention, redaction and messages are
    settings (docs/python.md).
    """
    logs.begin()
    parts = only.parts
    if to.landing is not None and parts != {ServerPart.RECEIVE}:
        raise InputError("--landing is for a lake, which `lake update` grades: expected --only receive")
    if options.once and parts != {ServerPart.GRADE}:
        raise InputError("--once grades what is idle now: expected --only grade")
    db = of.database(context, at)
    url = secret(options.webhook, pages.webhook_file, "webhook")
    watching = replace(options, webhook=url, public_url=pages.public_url)
    if not db.parent.is_dir():
        raise InputError(f"--data {db.parent}: no such folder")
    if parts == {ServerPart.GRADE}:
        _grade(db, gates, select, judge, watching, pages.dataset)
        return
    # Exporters wait for a port that is open, and give up at one that is not.
    with (
        closing(listen(to.host, to.http_port, "--http-port"))
        if ServerPart.RECEIVE in parts
        else nullcontext() as port
    ):
        _serve(context, gates, select, judge, watching, of, parts, to, most, pages, db, port)


def _serve(
    context: typer.Context,
    gates: Gates,
    select: Selection,
    judge: JudgeOptions,
    watching: WatchOptions,
    of: ServerData,
    parts: frozenset[ServerPart],
    to: ReceiverOptions,
    most: ReceiverLimits,
    pages: PageOptions,
    db: Path,
    listener: socket.socket | None,
) -> None:
    """Receive, and run the other parts beside it once they are imported."""
    with needing("serve", "serve", "view"):
        from spangrade.tracer.receiver.server import ReceiverSettings, landing_folder
    again = partial(reread, context, to)
    given, landing = again(), None if to.landing is None else landing_folder(to.landing)
    if landing is not None and to.retention:
        raise InputError("retention is for a database, not for a lake")
    keys = of.keys(db)
    receiver = ReceiverSettings(
        db=db,
        host=to.host,
        http_port=to.http_port,
        grpc_port=to.grpc_port,
        token=given.token,
        allow_anonymous=to.allow_anonymous,
        allows=lambda text, purpose: keys.allows(text, purpose) if keys.is_needed() else None,
        certificate=to.tls_cert,
        key=to.tls_key,
        limits=most.limits(),
        redact=given.redact,
        reread=again,
        maintenance_task=deletion(check_age(to.retention)) if to.retention else None,
        landing=landing,
        segment_s=to.segment_seconds,
        listener=listener,
    )
    if given.token and not is_loopback(to.host) and to.tls_cert is None:
        _log.warning("the token and the spans go over the network in the clear: set tls_cert and tls_key")
    if parts == {ServerPart.RECEIVE}:
        _receive(receiver)
        return
    with needing("serve", "serve", "view"):
        from spangrade.evaluator.apps.server.start import Proxy, ServedBy, ServeOptions
        from spangrade.evaluator.apps.server.start import serve as start

    serving = ServeOptions(
        receiver,
        keys,
        pages.port,
        pages.base_path.rstrip("/"),
        pages.public_url,
        tuple(pages.allowed_host),
        Proxy.of(tuple(pages.trusted_proxy), pages.login_header, pages.login_role),
        pages.golden or receiver.db.with_name("golden.json"),
        receives=ServerPart.RECEIVE in parts,
        grades=ServerPart.GRADE in parts,
        shows=ServerPart.PAGES in parts,
    )

    def ready(at: str, http: str, grpc: str) -> None:
        shown = [f"pages at {at}"] if at else []
        shown += [f"OTLP over HTTP at {http}, over gRPC at {grpc}"] if http else []
        _log.info("%s", ", ".join(shown))

    def grading() -> ServedBy:
        from spangrade import open as open_database

        opened = open_database(db, settings=loaded_settings(context).file)
        to_watch = replace(watching, public_url=serving.public_address)
        return opened.served_by(pages.dataset, gates, select, judge, to_watch)

    start(serving, grading, ready)


def _receive(settings: ReceiverSettings) -> None:
    """Receive alone."""
    from spangrade.tracer.receiver.server import collect

    def ready(http: str, grpc: str) -> None:
        into = settings.landing or settings.db
        _log.info("receiving into %s: OTLP over HTTP at %s, over gRPC at %s", into, http, grpc)

    collect(settings, ready)


def _grade(
    db: Path,
    gates: Gates,
    select: Selection,
    judge: JudgeOptions,
    options: WatchOptions,
    dataset: Path | None,
) -> None:
    """Grade alone, until it is stopped; the next start goes on where it stopped, also after a crash."""
    stop = threading.Event()
    _stop_at_signals(stop)
    with database(db) as opened:

        def started() -> None:
            if not options.once:
                _log.info("grading %s: sessions are graded when idle for %s", opened.path, options.idle_s)

        summary = opened.watch(
            dataset,
            gates=gates,
            select=select,
            judge=judge,
            options=options,
            stop=stop,
            on_start=started,
            on_round=lambda now: print_line(f"{datetime.now():%H:%M:%S} {now}"),
        )
    if not options.once:
        _log.info("stopped")
    print_line(str(summary))


def _stop_at_signals(stop: threading.Event) -> None:
    """Set `stop` at the first SIGTERM or Ctrl-C; a second Ctrl-C ends the process at once."""

    def handle(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        # In another thread: this one may hold the lock of `stop` while it waits for it.
        threading.Thread(target=stop.set, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def backup(copied: Copied, of: ServerData) -> None:
    """Copy the database and the keys while a server runs; the copy is opened and its rows are counted."""
    from spangrade.evaluator.apps.server.backup import backup

    _print_rows(copied.folder, backup(of.data, copied.folder))


def restore(copied: Copied, of: ServerData) -> None:
    """Copy a backup into a folder without a database, for a server to start on."""
    from spangrade.evaluator.apps.server.backup import restore

    _print_rows(of.data, restore(copied.folder, of.data))


def create(new: NewKey, of: ServerData) -> None:
    """Create a key, and print it: it is shown this once, and only its hash is stored."""
    print_line(of.keys().create(new.name, new.role))


def list_(of: ServerData, printed: Printed) -> None:
    """List who has which key."""
    rows = [{"name": one.name, "role": str(one.role), "created": one.created} for one in of.keys().all()]
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
    of.keys().revoke(named.name)
    print_line(f"{named.name} has no key any more")


def _print_rows(folder: Path, rows: Mapping[str, int]) -> None:
    spans, sessions = rows.get("main.spans", 0), rows.get("derived.sessions", 0)
    print_line(f"{folder}: {spans:,} spans and {sessions:,} sessions, in {len(rows)} tables")


keys = commands_under(
    "serve keys",
    "Create, list and revoke the keys of a server; it need not be started again.",
    create,
    list_,
    revoke,
    no_args_is_help=True,
)
app = commands_under(
    "serve",
    "Receive, grade and show sessions as one service, for a team.",
    serve,
    alerts,
    backup,
    restore,
    cls=WithDefault,
)
app.add_typer(keys, name="keys")
