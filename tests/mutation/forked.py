"""Tests in forked children: pytest and what the tests import are loaded once."""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

# None imports what is mutated, or may start a thread when it is imported.
LOADED = (
    "duckdb",
    "genai_prices",
    "google.genai",
    "html5lib",
    "hypothesis",
    "jinja2",
    "opentelemetry.exporter.otlp.proto.common.trace_encoder",
    "opentelemetry.sdk.trace.export",
    "orjson",
    "pydantic",
    "pytest_asyncio.plugin",
    "pytest_cov.plugin",
    "requests",
    "rich.console",
    "scipy.stats",
    "starlette.applications",
    "typer.testing",
    "yaml",
)
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not exhaustive", "--tb=line")
MEMORY = 8 << 30  # bytes of addresses


class Outcome(NamedTuple):
    """What became of the tests."""

    durations: dict[str, float]  # CPU seconds of each test
    failed: list[str]  # tests, "collection" or "limit or crash"


class Recorder:
    """A plugin that runs the chosen tests in their order and keeps what became of each."""

    def __init__(self, chosen: Sequence[str] | None) -> None:
        self.order = None if chosen is None else {test: place for place, test in enumerate(chosen)}
        self.durations: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if (order := self.order) is not None:
            items[:] = sorted((item for item in items if item.nodeid in order), key=lambda i: order[i.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append("collection")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        started = cpu_s()
        try:
            return (yield)
        finally:
            self.durations[item.nodeid] = cpu_s() - started


def cpu_s() -> float:
    """Return the CPU seconds of this process and of those that it started and waited for."""
    return sum(os.times()[:4])


def load(checkout: Path) -> None:
    """Import what every child needs; `spangrade` will come from the checkout, in children's children too."""
    os.environ["CI"] = "true"  # hypothesis takes the same examples each time
    os.environ["PYTHONPATH"] = str(checkout / "src")
    sys.path.insert(0, str(checkout / "src"))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in LOADED:
        with suppress(ImportError):
            importlib.import_module(name)


def _child(checkout: Path, folder: Path, arguments: list[str], chosen: Sequence[str] | None) -> None:
    """Run pytest in this process, which ends with it."""
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(checkout)
    sys.modules["__main__"] = ModuleType("__main__")  # or each process that a test spawns runs it again
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    recorder = Recorder(chosen)
    code = pytest.main([*OPTIONS, *arguments], plugins=[recorder])
    failed = recorder.failed or ([] if code in (0, 5) else ["collection"])
    (folder / "outcome").write_text(json.dumps([recorder.durations, failed]))


def run(
    checkout: Path,
    arguments: list[str],
    chosen: Sequence[str] | None = None,
    *,
    limit_s: float,
    keep: Callable[[Path], Any] = lambda folder: None,
) -> Outcome:
    """Run pytest in a forked child, of the chosen tests alone if they are given.

    A child that takes more CPU than `limit_s` has failed, or 20 times as long by the clock: the machine may
    be busy. `keep` is called with the child's temporary folder before it is removed.
    """
    folder = Path(tempfile.mkdtemp(prefix="spangrade-mutation-"))
    sys.stdout.flush()
    if not (child := os.fork()):
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            _child(checkout, folder, arguments, chosen)
        finally:
            os._exit(0)
    end = time.monotonic() + 20 * limit_s
    ended = False
    try:
        while not ended and time.monotonic() < end:
            time.sleep(0.01)
            ended = os.waitpid(child, os.WNOHANG)[0] != 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what its tests started
        if not ended:
            os.waitpid(child, 0)
    try:
        outcome = Outcome(*json.loads((folder / "outcome").read_text()))
    except FileNotFoundError:
        outcome = Outcome({}, ["limit or crash"])
    keep(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return outcome
