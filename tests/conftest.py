"""Settings and fixtures of all tests."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import certifi
import command_line
import pytest
from short_form import load_profile, mark_exhaustive

# No test reads or writes the verdicts in the user's own cache, nor does a process that it starts.
os.environ["SPANGRADE_CACHE_DIR"] = tempfile.mkdtemp(prefix="spangrade-cache-")
atexit.register(shutil.rmtree, os.environ["SPANGRADE_CACHE_DIR"], ignore_errors=True)

# Nor the key of the user's own installation.
os.environ["SPANGRADE_OUTBOX_KEY"] = "of the tests"

# What tests share (`made_once.py`), in a folder that the workers inherit from the process that starts them.
if "MADE_ONCE_DIR" not in os.environ:
    os.environ["MADE_ONCE_DIR"] = tempfile.mkdtemp(prefix="spangrade-made-once-")
    atexit.register(shutil.rmtree, os.environ["MADE_ONCE_DIR"], ignore_errors=True)
    # Clients trust one authority: to load all takes them 20 ms, and no test leaves the machine.
    os.environ["SSL_CERT_FILE"] = f"{os.environ['MADE_ONCE_DIR']}/authority.pem"
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----\n")
    Path(os.environ["SSL_CERT_FILE"]).write_text(first + end, encoding="utf-8")


# Until all tests are collected, nothing that was made can be left: to look for it takes a third of that time.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    load_profile(_is_exhaustive(config))


def pytest_collection_finish() -> None:
    """Look for cycles as commands do from now on, and never among the tests themselves."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    gc.enable()


def _is_exhaustive(config: pytest.Config) -> bool:
    return str(config.option.markexpr) in {"exhaustive", ""}  # or all


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by `-m`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the long tests and end with quick ones: no worker has much left when the others are done."""
    mark_exhaustive(items, exhaustive=_is_exhaustive(config))
    if "TESTS_UNTIL" in os.environ:  # .ci/check gives the nearest first
        return

    def order(item: pytest.Item) -> tuple[bool, bool]:
        return item.get_closest_marker("exhaustive") is None, "converters/spans/" in item.nodeid

    items.sort(key=order)


def pytest_runtest_setup() -> None:
    """Skip what .ci/check has no time for; log as a new process does, whatever a test before has set."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("spangrade").setLevel(logging.NOTSET)
    if time.time() > float(os.environ.get("TESTS_UNTIL", "inf")):
        pytest.skip("no time was left: .ci/check --all")


@pytest.fixture
def install_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Return a function that installs a package with an entry point and the source of `acme_dialect`."""
    from spangrade.converters.spans.registry import GROUP, dialects

    packages = tmp_path / "packages"
    information = packages / "acme-1.0.dist-info"
    information.mkdir(parents=True)
    monkeypatch.syspath_prepend(packages)

    def installed(point: str, source: str) -> None:
        (packages / "acme_dialect.py").write_text(source)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[{GROUP}]\n{point}\n")
        dialects.cache_clear()

    yield installed
    monkeypatch.undo()
    sys.modules.pop("acme_dialect", None)
    dialects.cache_clear()


@pytest.fixture
def spangrade() -> command_line.Spangrade:
    """`spangrade` with arguments, run in the test's own process."""
    return command_line.run


@pytest.fixture(autouse=True)
def _new_databases_are_copies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what makes a database in a test's own process copy an empty one, which the run makes once.

    To make one takes 65 ms of CPU. Tests of how it is made are marked `makes_databases`.
    """
    if "duckdb" in sys.modules and request.node.get_closest_marker("makes_databases") is None:
        from made_once import copying_connect

        monkeypatch.setattr("spangrade.tracer.store.store.connect", copying_connect)
