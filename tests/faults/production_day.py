"""A day of production: sessions through a receiver while `serve` grades them and is killed.

Some sessions fail, some are delivered twice, to some a turn or a user's feedback comes late. The webhook
refuses requests now and then, and loses answers. In the end each session must be graded once for each content
it had, its scores written once, each failure applied once by the webhook, and all counted by the metrics.

Run: `python tests/faults/production_day.py [SESSIONS] [KILLS] [SEED]`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import requests

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.outcome import Outcome
from otlp_sessions import Call, Said, write_sessions
from receiving import start
from sinks import Hook, Sink, hook, http_sink

from spangrade.evaluator.apps.server.grade.webhook import SECRET_VARIABLE, message_id
from spangrade.tracer.store import Store

GATES = ("tool_success_rate>=1", "trace_score:thumbs>=0.5")
_GATE_NAMES = ("tool_success_rate", "trace_score:thumbs")
_STEP_NS = 10**12  # between the starts of two sessions


class Plan(NamedTuple):
    """What happens to one session of the day."""

    session_id: str
    tool_fails: bool = False
    twice: bool = False
    thumbs: float | None = None  # a user's feedback, with the session
    late_turn_fails: bool | None = None  # a second turn comes once the session was graded
    late_thumbs: float | None = None  # feedback comes once the session was graded

    @property
    def verdicts(self) -> list[str]:
        """The verdicts that it must get, in order."""
        first = self.tool_fails or (self.thumbs or 1) < 0.5
        if self.late_turn_fails is None and self.late_thumbs is None:
            return [_verdict(first)]
        second = first or bool(self.late_turn_fails) or (self.late_thumbs or 1) < 0.5
        return [_verdict(first), _verdict(second)]


def _verdict(failed: bool) -> str:
    return "failed" if failed else "passed"


def plans(count: int, seed: int) -> list[Plan]:
    """Return the sessions of a day."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        plan = Plan(f"day-{number:05}", chance.random() < 0.1, chance.random() < 0.1)
        kind = chance.random()
        if kind < 0.1:
            plan = plan._replace(late_turn_fails=chance.random() < 0.3)
        elif kind < 0.15:
            plan = plan._replace(late_thumbs=chance.choice([0.1, 0.9]))
        elif kind < 0.3:
            plan = plan._replace(thumbs=chance.choice([0.1, 0.9]))
        made.append(plan)
    return made


class Requests(NamedTuple):
    """The bodies of the requests about a session: what comes first, and what comes late."""

    first: list[tuple[str, bytes]]
    late: list[tuple[str, bytes]]


def requests_of(plan: Plan, number: int, first_start_ns: int, folder: Path) -> Requests:
    """Return the OTLP requests, as (path, JSON), that a session makes."""
    start_ns = first_start_ns + number * _STEP_NS
    turns = [_turn("hello", plan.tool_fails)]
    first = [_spans(plan.session_id, turns, start_ns, folder)]
    if plan.thumbs is not None:
        first.append(_feedback(plan.session_id, plan.thumbs, start_ns + 1))
    if plan.twice:
        first *= 2
    late = []
    if plan.late_turn_fails is not None:
        late.append(
            _spans(plan.session_id, [*turns, _turn("and then?", plan.late_turn_fails)], start_ns, folder)
        )
    if plan.late_thumbs is not None:
        late.append(_feedback(plan.session_id, plan.late_thumbs, start_ns + 2))
    return Requests(first, late)


def _turn(text: str, fails: bool) -> Said:
    return Said(text, calls=[Call("lookup", {"q": text}, error="broke" if fails else None)])


def _spans(session_id: str, turns: Sequence[Said], start_ns: int, folder: Path) -> tuple[str, bytes]:
    file = write_sessions(folder / "request.jsonl", [(session_id, turns)], start_ns=start_ns)
    return "/v1/traces", file.read_bytes()


def _feedback(session_id: str, value: float, time_ns: int) -> tuple[str, bytes]:
    attributes = [
        {"key": "gen_ai.conversation.id", "value": {"stringValue": session_id}},
        {"key": "gen_ai.evaluation.name", "value": {"stringValue": "thumbs"}},
        {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": value}},
    ]
    record = {
        "timeUnixNano": str(time_ns),
        "eventName": "gen_ai.evaluation.result",
        "attributes": attributes,
    }
    scope = {"scope": {"name": "feedback"}, "logRecords": [record]}
    return "/v1/logs", json.dumps({"resourceLogs": [{"scopeLogs": [scope]}]}).encode()


def send(endpoint: str, bodies: Sequence[tuple[str, bytes]]) -> None:
    """Send requests as an exporter does: again until they are acknowledged."""
    with requests.Session() as session:
        for path, body in bodies:
            while True:
                try:
                    answer = session.post(
                        endpoint + path, data=body, headers={"Content-Type": "application/json"}, timeout=30
                    )
                except requests.RequestException:
                    continue
                if answer.ok:
                    break
                if answer.status_code not in (429, 503):
                    raise AssertionError(answer.text)
                time.sleep(0.1)


def unreliable(number: int) -> int:
    """Return how a webhook answers its n-th request: some fail, and of some the answer is lost."""
    if number % 7 == 0:
        return 503
    return 599 if number % 11 == 0 else 204


def query(db: Path, text: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query; wait for other processes to close the database."""
    with Store.open(db, read_only=True, wait_s=120) as store:
        return store.query(text)


def problems(db: Path, day: Sequence[Plan], hooked: Hook, sink: Sink) -> list[str]:
    """Return what is wrong in the end, as sentences."""
    found: list[str] = []
    graded = query(
        db, "SELECT session_id, content, gates, run_id, verdict FROM watched ORDER BY graded_ns, rowid"
    )
    by_session: dict[str, list[str]] = {}
    for session_id, _, _, _, verdict in graded:
        by_session.setdefault(session_id, []).append(verdict)
    expected = {plan.session_id: plan.verdicts for plan in day}
    found += [
        f"{session_id}: expected {expected.get(session_id)}, was {by_session.get(session_id)}"
        for session_id in sorted(expected.keys() | by_session.keys())
        if by_session.get(session_id) != expected.get(session_id)
    ]
    if doubled := len(graded) - len({row[:2] for row in graded}):
        found.append(f"{doubled} sessions were graded twice for the same content")
    # The run of a day has one verdict on a session: the last one that it gave.
    last = {(session_id, run_id): verdict for session_id, _, _, run_id, verdict in graded}
    saved = query(db, "SELECT session_id, run_id, verdict FROM verdicts ORDER BY ALL")
    if saved != sorted((*key, verdict) for key, verdict in last.items()):
        found.append("the verdicts are not the last ones that the run of each day gave")
    scores = query(
        db, "SELECT count(*), count(DISTINCT (run_id, session_id, metric)) FROM scores WHERE source = 'run'"
    )
    gated = query(db, "SELECT count(*) FROM scores WHERE metric = 'tool_success_rate'")
    if scores[0][0] != scores[0][1] or gated != [(len(last),)]:
        found.append(f"scores: {scores}, {gated} of the gate, {len(last)} verdicts")
    traced = query(db, "SELECT count(*) FROM scores WHERE source = 'trace'")
    feedback = sum((plan.thumbs is not None) + (plan.late_thumbs is not None) for plan in day)
    if traced != [(feedback,)]:
        found.append(f"{feedback} feedback events came, {traced} are scores")
    failed = {
        message_id(session_id, content, gates)
        for session_id, content, gates, _, verdict in graded
        if verdict == "failed"
    }
    if hooked.applied.keys() != failed:
        lost, extra = len(failed - hooked.applied.keys()), len(hooked.applied.keys() - failed)
        found.append(f"the webhook lacks {lost} failures and has {extra} that are none")
    counts = Counter(verdict for *_, verdict in graded)
    counted = {verdict: point.as_int for verdict, point in sink.points("spangrade.sessions").items()}
    if counted != dict(counts):
        found.append(f"the metrics count {counted}, graded were {dict(counts)}")
    measured = sink.points("spangrade.score")["tool_success_rate"].count
    if measured != len(graded):
        found.append(f"the histogram has {measured} scores of {len(graded)}")
    events = {(e["gen_ai.conversation.id"], e["gen_ai.evaluation.name"], e["time"]) for e in _events(sink)}
    of_gate = [event for event in events if event[1] == "tool_success_rate"]
    if len(of_gate) != len(graded):
        found.append(f"{len(of_gate)} events of {len(graded)} arrived")
    return found


def _events(sink: Sink) -> Iterator[dict[str, Any]]:
    for event, record in zip(sink.events(), sink.logs, strict=True):
        yield {**event, "time": record.time_unix_nano}


class Watching:
    """`spangrade serve --only grade` in a process of its own, which is killed and started again."""

    def __init__(self, db: Path, hooked: Hook, sink: Sink) -> None:
        self._command = [
            sys.executable,
            "-m",
            "spangrade",
            "serve",
            "--only",
            "grade",
            "--db",
            str(db),
        ]
        self._command += ["--idle", "4s", "--every", "0.3s"]
        self._command += [word for gate in GATES for word in ("--metric", gate)]
        self._environment = {
            **os.environ,
            "SPANGRADE_WEBHOOK": hooked.url,
            SECRET_VARIABLE: "a secret",
            "SPANGRADE_SERVE_OTLP": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
        }
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and return once it watches."""
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        line = self._process.stderr.readline()
        if not line.startswith("grading "):
            raise AssertionError(line + self._process.stderr.read())
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Stop it with SIGTERM, and return its exit code."""
        self._process.terminate()
        return self._process.wait(120)


@contextmanager
def killing(watching: Watching, kills: int, moments: random.Random) -> Iterator[list[int]]:
    """Kill it so often while the block runs, each time some moments after it started; yield the number."""
    done = [0]
    enough = threading.Event()

    def kill() -> None:
        while done[0] < kills:
            enough.wait(moments.uniform(0.0, 4.0))
            watching.kill()
            watching.start()
            done[0] += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield done
    finally:
        thread.join()


def wait_until_graded(db: Path, gradings: int, timeout_s: float) -> bool:
    """Return whether that number of gradings is in the database in time."""
    give_up_s = time.monotonic() + timeout_s
    while time.monotonic() < give_up_s:
        tables = query(db, "SELECT 1 FROM duckdb_tables() WHERE table_name = 'watched'")
        if tables and query(db, "SELECT count(*) FROM watched")[0][0] >= gradings:
            return True
        time.sleep(1)
    return False


def play(folder: Path, sessions: int, kills: int, seed: int) -> Outcome:
    """Play a day, and return what was lost or doubled."""
    day = plans(sessions, seed)
    first_start_ns = time.time_ns() - (sessions + 60) * _STEP_NS
    parts = [requests_of(plan, number, first_start_ns, folder) for number, plan in enumerate(day)]
    started = time.monotonic()
    receiving = start(folder / "day.duckdb")
    moments = random.Random(seed)
    with hook(unreliable) as hooked, http_sink() as sink:
        watching = Watching(receiving.db, hooked, sink)
        watching.start()
        with killing(watching, kills // 2, moments):
            send(receiving.http, [body for part in parts for body in part.first])
        first = wait_until_graded(receiving.db, sessions, 600)
        with killing(watching, kills - kills // 2, moments):
            send(receiving.http, [body for part in parts for body in part.late])
        gradings = sum(len(plan.verdicts) for plan in day)
        second = wait_until_graded(receiving.db, gradings, 600)
        give_up_s = time.monotonic() + 600
        while query(receiving.db, "FROM deliveries") and time.monotonic() < give_up_s:
            time.sleep(1)
        code = watching.stop()
        receiving.process.terminate()
        receiving.process.wait(60)
        receiving.process.stderr.close()
        found = problems(receiving.db, day, hooked, sink)
        if code or not (first and second):
            found.append(f"exit code {code}; all graded in time: {first}, {second}")
        with duckdb.connect(receiving.db, read_only=True) as connection:
            stored = connection.execute("SELECT count(*) FROM watched").fetchone()[0]
        note = (
            f"gradings; {len(hooked.requests)} requests to the webhook for {len(hooked.applied)} failures, "
            f"{len(sink.logs)} events; {time.monotonic() - started:.0f} s"
        )
    return Outcome(
        "`kill -9` of `spangrade serve --only grade`",
        kills,
        gradings,
        stored,
        max(0, gradings - stored),
        max(0, stored - gradings),
        note,
        problems=tuple(found[:20]),
    )


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    count, kill_count, chosen_seed = (*numbers, *(2_000, 10, 0)[len(numbers) :])
    with tempfile.TemporaryDirectory() as scratch:
        outcome = play(Path(scratch), count, kill_count, chosen_seed)
    print(outcome)
    sys.exit(not outcome.passed)
