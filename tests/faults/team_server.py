"""A team's server that is killed and stopped while agents send and people read.

    python tests/faults/team_server.py [SPANS]

Four agents send spans over OTLP, each request until it is acknowledged; two people load pages. The server is
killed once and stopped three times, and starts again each time. Prints what was acknowledged, stored and
doubled, and how long pages took; fails if a span is lost or doubled, or if a key sees what it may not.
"""

from __future__ import annotations

import http.client
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

if __name__ == "__main__":  # as a script
    sys.path.insert(0, str(Path(__file__).parent.parent))

from processes import pss_mb
from receiving import request

from spangrade.evaluator.serve.keys import KeyFile, Role
from spangrade.tracer.store import Store

AGENTS, COUNT = 4, 40  # spans in a request
PATHS = ("/", "/runs", "/runs?watch=1", "/trends", "/tools")
ATTRIBUTES = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1"}


class Team:
    """A server that is started again, and what those who use it saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = {role: KeyFile(folder / "keys.json").create(str(role), role) for role in Role}
        self.ports: dict[str, int] = {"pages": 0, "http": 0}
        self.process: subprocess.Popen[str] | None = None
        self.acknowledged = 0
        self.page_s: list[float] = []
        self.busy = 0  # pages that were answered with 503
        self.wrong: list[str] = []
        self.over = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the server, on the ports that it had."""
        ports = (
            "--port",
            str(self.ports["pages"]),
            "--http-port",
            str(self.ports["http"]),
            "--grpc-port",
            "0",
        )
        gates = ("--metric", "latency_metrics<=20", "--idle", "1s", "--every", "1s")
        command = [sys.executable, "-m", "spangrade", "serve", "--data", str(self.folder), *ports, *gates]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        said = ""
        while line := self.process.stderr.readline():
            said += line
            if found := re.search(r"pages at (\S+), OTLP over HTTP at (\S+),", line):
                urls = (urlsplit(found[1]).port, urlsplit(found[2]).port)
                self.ports = dict(zip(("pages", "http"), urls, strict=True))
                threading.Thread(target=self._drain, args=(self.process,), daemon=True).start()
                return
        raise SystemExit(said)

    def _drain(self, process: subprocess.Popen[str]) -> None:
        for line in process.stderr:
            if "Traceback" in line or " ERROR " in line:
                self.wrong.append(line.strip())

    def end(self, number: signal.Signals) -> None:
        """End the server by a signal, and start it again."""
        self.process.send_signal(number)
        code = self.process.wait(120)
        if number is signal.SIGTERM and code:
            self.wrong.append(f"exit code {code} after SIGTERM")
        self.start()

    def ask(
        self, port: str, method: str, path: str, key: str, body: bytes | None = None, kind: str = ""
    ) -> int:
        """Return the status of an answer, 0 if there was none."""
        headers = {"Authorization": f"Bearer {key}", **({"Content-Type": kind} if kind else {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def send(self, first: int, spans: int) -> None:
        """Send spans as an agent does: each request until it is acknowledged."""
        for start in range(first, first + spans, COUNT):
            body = request(start, COUNT, **ATTRIBUTES).SerializeToString()
            while self.ask("http", "POST", "/v1/traces", self.keys[Role.SEND], body) != 200:
                self.over.wait(0.1)
            with self._lock:
                self.acknowledged += COUNT

    def read(self, seed: int) -> None:
        """Load pages, and try what this key may not do."""
        chance = random.Random(seed)
        while not self.over.wait(0.2):
            path = chance.choice(PATHS)
            start_s = time.perf_counter()
            status = self.ask("pages", "GET", path, self.keys[Role.READ])
            with self._lock:
                if status == 200:
                    self.page_s.append(time.perf_counter() - start_s)
                self.busy += status == 503
                if status not in (0, 200, 400, 404, 503):
                    self.wrong.append(f"{path}: {status}")
            for role, wanted in ((Role.SEND, 403), (Role.READ, 200)):
                if (status := self.ask("pages", "GET", "/runs", self.keys[role])) not in (0, 503, wanted):
                    self.wrong.append(f"/runs as {role}: {status}")
            body = request(0, 1).SerializeToString()
            status = self.ask(
                "http", "POST", "/v1/traces", self.keys[Role.READ], body, "application/x-protobuf"
            )
            if status not in (0, 401):
                self.wrong.append(f"OTLP as {Role.READ}: {status}")


def main(spans: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        team = Team(Path(name))
        team.start()
        began_s = time.monotonic()
        each = spans // AGENTS // COUNT * COUNT
        agents = [threading.Thread(target=team.send, args=(one * each, each)) for one in range(AGENTS)]
        people = [threading.Thread(target=team.read, args=(one,)) for one in range(2)]
        for thread in (*agents, *people):
            thread.start()
        ends = [signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGTERM]
        memory_mb = []
        for number, how in enumerate(ends, 1):
            while team.acknowledged < each * AGENTS * number // (len(ends) + 1):
                time.sleep(0.1)
            memory_mb.append(pss_mb(team.process.pid))
            team.end(how)
        for thread in agents:
            thread.join()
        memory_mb.append(pss_mb(team.process.pid))
        sent_s = time.monotonic() - began_s
        team.over.set()
        for thread in people:
            thread.join()
        team.process.terminate()
        code = team.process.wait(120)
        with Store.open(Path(name) / "spangrade.duckdb", wait_s=5) as store:
            stored, distinct = store.query("SELECT count(*), count(DISTINCT span_id) FROM spans")[0]
    pages = sorted(team.page_s)
    print(
        f"{each * AGENTS:,} spans sent in {sent_s:.0f} s, {team.acknowledged:,} acknowledged, "
        f"{stored:,} stored,"
    )
    print(f"{team.acknowledged - distinct} lost, {stored - distinct} doubled; exit code at the end {code}")
    print(
        f"{len(pages)} pages: p50 {pages[len(pages) // 2]:.2f} s, p95 {pages[len(pages) * 95 // 100]:.2f} s, "
        f"{team.busy} answered busy; memory {', '.join(f'{one:.0f}' for one in memory_mb)} MB"
    )
    for one in dict.fromkeys(team.wrong):
        print(f"wrong: {one}")
    return int(bool(team.wrong) or code != 0 or stored != distinct or distinct != team.acknowledged)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
