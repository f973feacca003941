"""A team's server that is killed and stopped while agents send, people label, and others write beside it.

    python tests/faults/team_server.py [SPANS] [AGENTS] [--more]

Agents send over OTLP with TLS, each request until it is acknowledged: OpenTelemetry's exporters of Python
over HTTP and gRPC and, with `--more`, that of JavaScript (npm) and a Collector in front (the package rotel),
where they can be had. Two people log in through a proxy under a base path, load pages and label sessions; a
second process writes beside the server. It is stopped three times and killed once, and starts again. A
backup is taken under load and restored elsewhere, and another at the end.

Prints what was acknowledged, stored and doubled, how long pages and writers waited, CPU and memory; fails if
a span or a label is lost or doubled, if a key does what it may not, if a restored table differs, or if memory
grew by more than a fifth since the fifth minute of the last process.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode, urlsplit

if __name__ == "__main__":  # as a script
    sys.path.insert(0, str(Path(__file__).parent.parent))

import duckdb
from faults.team_agents import (
    OF_SESSION,
    Where,
    collector,
    in_javascript,
    javascript_packages,
    over_grpc,
    over_http,
    run_all,
    through_collector,
)
from processes import cpu_s, pss_mb
from receiving import request, self_signed

from spangrade import StoreLockedError
from spangrade.tracer.receiver.keys import KeyFile, Role
from spangrade.tracer.store import Store

BASE = "/team"
PATHS = ("/", "/sessions", "/runs", "/runs?watch=1", "/trends", "/tools")
FORM = "application/x-www-form-urlencoded"
ENDS = (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGTERM)
MINUTE_FIVE_S = 300.0
MOST_GROWTH = 1.2


class Team:
    """A server that is started again, and what those who use it saw."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.data.mkdir()
        self.certificate, self._key = self_signed(folder)
        self.trust = ssl.create_default_context(cafile=str(self.certificate))
        self.keys = {role: KeyFile(self.data / "keys.json").create(str(role), role) for role in Role}
        self.ports: dict[str, int] = {"pages": 0, "http": 0, "grpc": 0}
        self.process: subprocess.Popen[str] | None = None
        self.acknowledged = 0
        self.cpu_s = 0.0  # of the processes that ended
        self.page_s: list[float] = []
        self.write_s: list[float] = []
        self.busy = 0  # pages that were answered with 503
        self.labelled: set[tuple[str, str]] = set()  # by whom, and which session
        self.memory_mb: list[tuple[float, float]] = []  # of the last process, by its age in seconds
        self.wrong: list[str] = []
        self.said: deque[str] = deque(maxlen=5)  # the last lines of the server
        self.over = threading.Event()
        self._lock = threading.Lock()

    @property
    def where(self) -> Where:
        """Where agents send."""
        at = [f"127.0.0.1:{self.ports[name]}" for name in ("http", "grpc")]
        return Where(f"https://{at[0]}", at[1], self.keys[Role.SEND], self.certificate)

    def start(self) -> None:
        """Start the server, on the ports that it had."""
        options = ["--data", str(self.data), "--port", str(self.ports["pages"])]
        for name in ("http", "grpc"):
            options += [f"--{name}-port", str(self.ports[name])]
        options += ["--metric", "latency_metrics<=20", "--idle", "1s", "--every", "1s"]
        command = [sys.executable, "-m", "spangrade", "serve", *options]
        settings = {
            "SPANGRADE_SERVE_BASE_PATH": BASE,
            "SPANGRADE_SERVE_TLS_CERT": str(self.certificate),
            "SPANGRADE_SERVE_TLS_KEY": str(self._key),
        }
        self.process = subprocess.Popen(
            command, env=os.environ | settings, stderr=subprocess.PIPE, text=True, cwd=self.data
        )
        self.memory_mb = []
        said = ""
        while line := self.process.stderr.readline():
            said += line
            if found := re.search(r"pages at (\S+), OTLP over HTTP at (\S+), over gRPC at (\S+)", line):
                pages, receiver, calls = (
                    urlsplit(one if "//" in one else f"//{one}").port for one in found.groups()
                )
                self.ports = {"pages": pages, "http": receiver, "grpc": calls}
                threading.Thread(target=self._drain, args=(self.process,), daemon=True).start()
                return
        raise SystemExit(said)

    def _drain(self, process: subprocess.Popen[str]) -> None:
        for line in process.stderr:
            self.said.append(line.strip())
            if "Traceback" in line or " ERROR " in line:
                self.wrong.append(line.strip())

    def stop(self, number: signal.Signals) -> None:
        """End the server by a signal."""
        self.cpu_s += cpu_s(self.process.pid)
        self.process.send_signal(number)
        code = self.process.wait(120)
        if number is signal.SIGTERM and code:
            self.wrong.append(f"exit code {code} after SIGTERM: {' / '.join(self.said)}")

    def sent(self, spans: int) -> None:
        """Count spans that were acknowledged."""
        with self._lock:
            self.acknowledged += spans

    def ask(
        self, port: str, method: str, path: str, key: str, body: bytes | None = None, kind: str = ""
    ) -> int:
        """Return the status of an answer, 0 if there was none."""
        headers = {"Authorization": f"Bearer {key}", **({"Content-Type": kind} if kind else {})}
        at = http.client.HTTPSConnection("127.0.0.1", self.ports[port], timeout=30, context=self.trust)
        return asked(at, method, path, headers, body)[0]

    def be_refused(self) -> None:
        """Try, again and again, what a key may not do."""
        body = request(0, 1).SerializeToString()
        while not self.over.wait(0.5):
            for port, path, role, wanted in (
                ("pages", f"{BASE}/runs", Role.SEND, 403),
                ("pages", f"{BASE}/session/x/labels", Role.READ, 403),
                ("pages", f"{BASE}/metrics", Role.SEND, 401),
                ("pages", "/runs", Role.ADMIN, 404),
                ("http", "/v1/traces", Role.READ, 401),
                ("http", "/v1/traces", Role.REVIEW, 401),
            ):
                method = "POST" if port == "http" or path.endswith("labels") else "GET"
                kind = "application/x-protobuf" if port == "http" else FORM
                status = self.ask(port, method, path, self.keys[role], body, kind)
                if status not in (0, 503, wanted):
                    self.wrong.append(f"{method} {path} as {role}: {status}")

    def label(self, proxy: int, role: Role, seed: int) -> None:
        """Log in through the proxy, load pages, and label a session now and then."""
        chance = random.Random(seed)
        cookie, sessions = "", []
        while not self.over.wait(0.2):
            if not cookie:
                cookie = self._login(proxy, role)
                continue
            if not sessions:
                path = "/sessions"
            elif not self.labelled or chance.random() < 0.3:
                path = f"/session/{chance.choice(sessions)}"
            else:
                path = chance.choice(PATHS)
            start_s = time.perf_counter()
            status, page, _ = through(proxy, "GET", f"{BASE}{path}", {"Cookie": cookie})
            with self._lock:
                if status == 200:
                    self.page_s.append(time.perf_counter() - start_s)
                self.busy += status == 503
            if status not in (0, 200, 400, 404, 502, 503):
                self.wrong.append(f"{path}: {status}")
            if status == 200:
                sessions = re.findall(rf'href="{BASE}/session/([^"/?#]+)"', page) or sessions
            token = re.search(r'name="token" value="([^"]+)"', page)
            if status == 200 and path.startswith("/session/") and token:
                form = urlencode({"token": token[1], "back": f"{BASE}/", "verdict": "pass"}).encode()
                headers = {"Cookie": cookie, "Content-Type": FORM}
                status = through(proxy, "POST", f"{BASE}{path}/labels", headers, form)[0]
                if status == 303:
                    self.labelled.add((str(role), path.removeprefix("/session/")))
                elif status not in (0, 502, 503):
                    self.wrong.append(f"a label of {path}: {status}")

    def _login(self, proxy: int, role: Role) -> str:
        form = urlencode({"key": self.keys[role], "back": ""}).encode()
        status, _, headers = through(proxy, "POST", f"{BASE}/login", {"Content-Type": FORM}, form)
        return headers.get("set-cookie", "").partition(";")[0] if status == 303 else ""

    def write_beside(self) -> None:
        """Write into the database from this process, as a second one, every two seconds."""
        number = 0
        while not self.over.wait(2):
            number += 1
            start_s = time.perf_counter()
            try:
                with Store.open(self.data / "spangrade.duckdb", wait_s=120) as store:
                    store.query("CREATE TABLE IF NOT EXISTS beside (number BIGINT)")
                    store.query("INSERT INTO beside VALUES ($number)", {"number": number})
            except Exception as error:  # noqa: BLE001 (it is what is looked for)
                self.wrong.append(f"a write beside the server: {error}")
            self.write_s.append(time.perf_counter() - start_s)

    def watch_memory(self) -> None:
        """Note the memory of the running process every five seconds."""
        process, began_s = self.process, time.monotonic()
        while not self.over.wait(5):
            if process is not self.process:
                process, began_s = self.process, time.monotonic()
            self.memory_mb.append((time.monotonic() - began_s, pss_mb(process.pid)))

    def growth(self) -> float | None:
        """Return the memory at the end over that of minute five; None if the process is younger."""
        at_five = [mb for age_s, mb in self.memory_mb if age_s >= MINUTE_FIVE_S and mb]
        return at_five[-1] / at_five[0] if len(at_five) > 1 else None


def asked(
    at: http.client.HTTPConnection, method: str, path: str, headers: Mapping[str, str], body: bytes | None
) -> tuple[int, bytes, Mapping[str, str]]:
    """Return the status, the body and the headers of an answer, the status 0 if there was none."""
    try:
        at.request(method, path, body, dict(headers))
        answer = at.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    except (OSError, http.client.HTTPException):
        return 0, b"", {}
    finally:
        at.close()


def through(
    proxy: int, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> tuple[int, str, Mapping[str, str]]:
    """Ask the proxy, and return the status, the page and the headers."""
    at = http.client.HTTPConnection("127.0.0.1", proxy, timeout=60)
    status, page, found = asked(at, method, path, headers, body)
    return status, page.decode(errors="replace"), found


@contextmanager
def proxied(team: Team) -> Iterator[int]:
    """Run a proxy in front of the pages; give its port. It answers 502 while the server is away."""

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            at = http.client.HTTPSConnection("127.0.0.1", team.ports["pages"], timeout=30, context=team.trust)
            status, answer, found = asked(at, self.command, self.path, headers, body)
            self.send_response(status or 502)
            for name, value in found.items():
                if name not in ("content-length", "transfer-encoding", "connection", "date"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = forward  # noqa: N815 (the base class names them)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it)
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def contents(db: Path) -> Mapping[str, object]:
    """Return, by table, the number of its rows and a digest of them in any order."""
    with duckdb.connect(db, read_only=True) as connection:
        tables = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal ORDER BY ALL"
        ).fetchall()
        return {
            f"{schema}.{name}": connection.execute(
                f'SELECT count(*), bit_xor(hash(t)) FROM "{schema}"."{name}" t'
            ).fetchone()
            for schema, name in tables
        }


def copied(team: Team, name: str) -> float:
    """Back the server's data up and restore it elsewhere; return the seconds of the backup."""
    backup, elsewhere = (team.data.with_name(f"{kind}-{name}") for kind in ("backup", "restored"))
    start_s, took_s = time.perf_counter(), []
    for arguments in (("backup", backup, "--data", team.data), ("restore", backup, "--data", elsewhere)):
        command = [sys.executable, "-m", "spangrade", "serve", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            team.wrong.append(f"serve {arguments[0]}: {done.stderr.strip()}")
            return 0.0
        took_s.append(time.perf_counter() - start_s)
    found = [contents(folder / "spangrade.duckdb") for folder in (backup, elsewhere)]
    if found[0] != found[1]:
        team.wrong.append(f"what was restored of {name} differs")
    if team.process.poll() is not None and contents(team.data / "spangrade.duckdb") != found[0]:
        team.wrong.append(f"the backup {name} differs from what it is of")
    return took_s[0]


def senders_of(
    team: Team, agents: int, packages: Path | None, url: str | None
) -> Sequence[tuple[str, Callable[..., None]]]:
    """Return as many agents as asked for, by kind."""
    kinds: list[tuple[str, Callable[..., None]]] = [
        ("Python HTTP", partial(over_http, team.where)),
        ("Python gRPC", partial(over_grpc, team.where)),
    ]
    if packages is not None:
        kinds.append(("JavaScript", partial(in_javascript, packages, team.where)))
    if url is not None:
        kinds.append(("Collector", partial(through_collector, url)))
    return [kinds[number % len(kinds)] for number in range(agents)]


def play(spans: int, agents: int, ends: Sequence[signal.Signals] = ENDS, *, more: bool = False) -> list[str]:
    """Play it, print figures, and return what was wrong.

    The ends come in the first part, each after a twentieth of the spans, so that the last process lives long.
    """
    with tempfile.TemporaryDirectory() as name:
        team = Team(Path(name))
        team.start()
        packages = javascript_packages(Path(name) / "npm") if more else None
        with proxied(team) as proxy:
            with collector(team.where, free_port()) if more else without() as url:
                kinds = senders_of(team, agents, packages, url)
                counted = Counter(kind for kind, _ in kinds)
                print(f"{agents} agents: {', '.join(f'{many} {kind}' for kind, many in counted.items())}")
                began_s = time.monotonic()
                sending = run_all([sender for _, sender in kinds], spans, team.sent)
                total = spans // agents // OF_SESSION * OF_SESSION * agents
                others = threads(
                    partial(team.label, proxy, Role.REVIEW, 1),
                    partial(team.label, proxy, Role.ADMIN, 2),
                    team.be_refused,
                    team.write_beside,
                    team.watch_memory,
                )
                for number, how in enumerate(ends, 1):
                    wait(lambda share=number / 20: team.acknowledged >= total * share)
                    team.stop(how)
                    team.start()
                wait(lambda: team.acknowledged >= total / 2)
                backup_s = copied(team, "under-load")
                for thread in sending:
                    thread.join()
            sent_s = time.monotonic() - began_s
            wait(lambda: is_done(team), for_s=1800, every_s=1 if spans < 10_000 else 10)  # it takes the file
            all_s = time.monotonic() - began_s
            team.over.set()
            for thread in others:
                thread.join()
        team.stop(signal.SIGTERM)
        db = team.data / "spangrade.duckdb"
        gb = db.stat().st_size / 1e9
        with Store.open(db, wait_s=5) as store:
            stored, distinct = store.query("SELECT count(*), count(DISTINCT span_id) FROM spans")[0]
            graded = store.query("SELECT count(DISTINCT session_id) FROM verdicts")[0][0]
            labels = set(store.query("SELECT author, session_id FROM scores WHERE source = 'person'"))
            beside = store.query("SELECT count(*) FROM beside")[0][0]
        copied(team, "at the end")
    if not team.labelled:
        team.wrong.append("nobody could label a session")
    if lost := team.labelled - labels:
        team.wrong.append(f"{len(lost)} labels are lost")
    if beside != len(team.write_s):
        team.wrong.append(f"{beside} of {len(team.write_s)} writes beside the server are stored")
    if stored != distinct or distinct != team.acknowledged:
        team.wrong.append("spans are lost or doubled")
    if graded * OF_SESSION != distinct:
        team.wrong.append(f"{distinct // OF_SESSION - graded:,} sessions are not graded")
    growth = team.growth()
    if growth is not None and growth > MOST_GROWTH:
        team.wrong.append(f"memory grew to {growth:.2f} times that of minute five")
    print(
        f"{team.acknowledged:,} spans acknowledged in {sent_s:.0f} s, waited {all_s:.0f} s for the grades; "
        f"{team.acknowledged - distinct} lost, {stored - distinct} doubled; {graded:,} sessions graded, "
        f"{len(labels)} labels; {len(ends)} ends"
    )
    print(
        f"{len(team.page_s)} pages: {figures(team.page_s)}, {team.busy} answered busy; "
        f"{len(team.write_s)} writes beside: {figures(team.write_s)}; backup under load {backup_s:.1f} s"
    )
    memory_mb = team.memory_mb[-1][1] if team.memory_mb else 0.0
    print(
        f"server: {team.cpu_s / team.acknowledged * 1e6:.0f} CPU seconds and "
        f"{gb / team.acknowledged * 1e6:.2f} GB per million spans; memory {memory_mb:.0f} MB at the end, "
        f"{'an unknown number of' if growth is None else f'{growth:.2f}'} times that of minute five"
    )
    for one in dict.fromkeys(team.wrong):
        print(f"wrong: {one}")
    return team.wrong


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def threads(*functions: Callable[[], None]) -> list[threading.Thread]:
    """Run functions, each in a thread."""
    started = [threading.Thread(target=one) for one in functions]
    for thread in started:
        thread.start()
    return started


@contextmanager
def without() -> Iterator[None]:
    """Run no Collector."""
    yield None


def is_done(team: Team) -> bool:
    """Return whether all that was received is stored, and no session waits to be graded."""
    at = http.client.HTTPSConnection("127.0.0.1", team.ports["pages"], timeout=30, context=team.trust)
    status, answer, _ = asked(at, "GET", "/readyz", {}, None)
    state = json.loads(answer) if status == 200 else None
    if state is None or state["receive"]["spool_bytes"] or state["grade"]["waiting"]:
        return False
    counted = "SELECT count(DISTINCT trace_id) - (SELECT count(DISTINCT session_id) FROM verdicts) FROM spans"
    with suppress(StoreLockedError), Store.open(team.data / "spangrade.duckdb", wait_s=5) as store:
        return bool(store.query(counted)[0][0] == 0)
    return False


def wait(until: Callable[[], bool], for_s: float = 3 * 3600.0, every_s: float = 0.2) -> None:
    """Wait until a function returns true, or give up."""
    give_up_s = time.monotonic() + for_s
    while not until() and time.monotonic() < give_up_s:
        time.sleep(every_s)


def figures(seconds: Sequence[float]) -> str:
    """Return percentiles of seconds."""
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    p50, p95 = (ordered[len(ordered) * share // 100] for share in (50, 95))
    return f"p50 {p50:.2f} s, p95 {p95:.2f} s, longest {ordered[-1]:.2f} s"


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:] if one.isdigit()]
    size, number = (*given, *(100_000, 20)[len(given) :])
    sys.exit(int(bool(play(size, number, more="--more" in sys.argv))))
