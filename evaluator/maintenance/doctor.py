"""The state of an installation and its database on one screen."""

from __future__ import annotations

import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from spangrade.evaluator.grading.run_list import list_runs
from spangrade.evaluator.maintenance.lint import Finding
from spangrade.tracer.base.errors import SpangradeError
from spangrade.tracer.base.installation import is_installed, to_install
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store.spool import has_receiver, waiting
from spangrade.tracer.store.store import Stored

# What an extra brings, by the module that only it has.
EXTRAS = {
    "view": ("nh3", "pages"),
    "serve": ("prometheus_client", "the receiver"),
    "stats": ("scipy", "intervals of means, judges and trends"),
    "gemini": ("google.genai", "a judge on Gemini"),
    "openai": ("openai", "a judge on OpenAI's API"),
    "anthropic": ("anthropic", "a judge on Anthropic's API"),
    "grpc": ("opentelemetry.exporter.otlp.proto.grpc", "spans sent over gRPC"),
    "lake": ("obstore", "a lake"),
}
_RECEIVER = "http://127.0.0.1:4318"
_TIMEOUT_S = 0.3
_SKEW_NS = 60 * 10**9
_MOST = 5  # findings


class Checked(NamedTuple):
    """Something that was looked at: its state, and how to fix it if that is needed."""

    what: str
    state: str
    advice: str | None = None


def examine(
    stored: Stored, lint: Callable[[], Sequence[Finding]], settings_file: Path | None, endpoint: str | None
) -> Iterator[Checked]:
    """Yield checks of extras, settings, the database, the receiver and the instrumentation.

    `lint` finds what the recordings lack, `endpoint` is where spans are sent to.
    """
    import spangrade

    yield Checked("spangrade", f"{spangrade.__version__} at {Path(spangrade.__file__).parent}")
    yield Checked("python", f"{platform.python_version()} at {sys.executable}")
    yield Checked("duckdb", version("duckdb"))
    for extra, (module, what) in EXTRAS.items():
        there = is_installed(module)
        advice = None if there else to_install(extra)
        yield Checked(f"extra {extra}", f"{what}: {'installed' if there else 'not installed'}", advice)
    yield Checked(
        "settings",
        str(settings_file or "none"),
        None if settings_file else "spangrade init AGENT writes them",
    )
    yield _receiver(endpoint or _RECEIVER)
    yield from _of_database(stored, lint)


def _receiver(endpoint: str) -> Checked:
    """Return whether something listens where spans are sent to."""
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "127.0.0.1", port), _TIMEOUT_S):
            return Checked("receiver", f"{endpoint}: reachable")
    except OSError as error:
        reason = error.strerror or str(error)
        return Checked("receiver", f"{endpoint}: {reason}", "only if agents send spans: spangrade serve")


def _of_database(stored: Stored, lint: Callable[[], Sequence[Finding]]) -> Iterator[Checked]:
    path = stored.path
    if not stored.exists():
        yield Checked("database", f"{path}: not there yet", "spangrade run, or spangrade import FILE")
        return
    writer = "a receiver writes to it" if has_receiver(path) else "no receiver writes to it"
    spooled = len(waiting(path))
    try:
        with stored.reading() as store:
            sessions = int(store.query("SELECT count(*) FROM derived.sessions")[0][0])
            newest_ns = store.query("SELECT max(start_ns) FROM spans")[0][0]
            runs = len(list_runs(store))
            schema = store.query("SELECT max(version) FROM schema_version")[0][0]
    except SpangradeError as error:
        yield Checked("database", str(error), "stop the process that has it open")
        return
    size_mb = path.stat().st_size / 1e6 if path.exists() else 0.0
    holds = f"schema {schema}, {counted(sessions, 'session')}, {counted(runs, 'run')}, {size_mb:.1f} MB"
    yield Checked("database", f"{path}: {holds}; {writer}; {counted(spooled, 'file')} of its spool waiting")
    ahead = newest_ns is not None and newest_ns > time.time_ns() + _SKEW_NS
    advice = "set the clock of the machine that records" if ahead else None
    yield Checked("clock", "spans from the future" if ahead else "no span is from the future", advice)
    findings = lint()
    kinds = {(one.code, one.what, one.advice): 0 for one in findings}
    for one in findings:
        kinds[one.code, one.what, one.advice] += one.count
    for (_, what, fix), number in list(kinds.items())[:_MOST]:
        yield Checked("instrumentation", f"{what} ({number})", fix)
    if len(kinds) > _MOST:
        yield Checked("instrumentation", f"and {len(kinds) - _MOST} more: spangrade lint")
