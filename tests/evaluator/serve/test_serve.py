"""`spangrade serve` in a process of its own: spans in, graded, seen, and stopped in every way."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc
import pytest
from alert_streams import DAY_NS, START_NS, Stream, alerts, new_database
from alert_streams import add as add_stream
from command_line import Spangrade, with_variables
from faults import planned_restarts, trickle
from faults.team_server import play
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from otlp_sessions import Call, Said, recorded_sessions, write_sessions
from paths import SAMPLE
from receiving import request, self_signed

import spangrade as package
from spangrade import StoreLockedError
from spangrade.evaluator.apps.server.backup import DATABASE, rows_of_tables
from spangrade.evaluator.apps.server.grade.deliveries import Counts
from spangrade.evaluator.apps.server.serve import late
from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.results.alarms import stored_alarms
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.keys import KeyFile, Role
from spangrade.tracer.store import Store
from spangrade.tracer.store.locks import taking_turns, turns_at

WAIT_S = 60.0
ATTRIBUTES = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1"}


class Server(NamedTuple):
    """A running server and its addresses."""

    process: subprocess.Popen[str]
    pages: str
    http: str
    grpc: str

    def get(self, path: str, key: str = "") -> tuple[int, str]:
        """Return the status and the text of an address of the pages."""
        return answer(f"{self.pages.rstrip('/')}{path}", key)

    def send_over_grpc(self, key: str) -> str:
        """Send a span over gRPC, and return the status."""
        with grpc.insecure_channel(self.grpc) as channel:
            try:
                TraceServiceStub(channel).Export(
                    request(0, 1, **ATTRIBUTES), metadata=[("authorization", f"Bearer {key}")], timeout=WAIT_S
                )
            except grpc.RpcError as error:
                return str(error.code().name)
        return "OK"

    def send(self, first: int, count: int, key: str = "") -> int:
        """Send spans over OTLP, and return the status."""
        body = request(first, count, **ATTRIBUTES).SerializeToString()
        return answer(f"{self.http}/v1/traces", key, body, "application/x-protobuf")[0]


def answer(url: str, key: str = "", body: bytes | None = None, kind: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if kind:
        headers["Content-Type"] = kind
    asked = urllib.request.Request(url, body, headers)  # noqa: S310 (of the loopback)
    try:
        with urllib.request.urlopen(asked, timeout=WAIT_S) as response:  # noqa: S310 (the same)
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def server(folder: Path, *options: str) -> Iterator[Server]:
    """Run a server on free ports as long as the block lasts."""
    ports = ("--port", "0", "--http-port", "0", "--grpc-port", "0", "--idle", "0s", "--every", "0.2s")
    given, variables = with_variables(["serve", "--data", str(folder), *ports, *map(str, options)])
    command = [sys.executable, "-m", "spangrade", *given]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, **variables}
    )
    try:
        said = ""
        while line := process.stderr.readline():
            said += line
            if found := re.search(r"pages at (\S+), OTLP over HTTP at (\S+), over gRPC at (\S+)", line):
                break
        else:
            raise AssertionError(said)
        yield Server(process, found[1], found[2], found[3])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def until(answers: Callable[[], bool], *, what: str) -> None:
    """Wait until a function returns something true."""
    give_up_s = time.monotonic() + WAIT_S
    while not answers():
        assert time.monotonic() < give_up_s, what
        threading.Event().wait(0.1)


def stored(folder: Path) -> int:
    with Store.open(folder / DATABASE, read_only=True) as store:
        return int(store.query("SELECT count(*) FROM spans")[0][0])


def test_what_is_sent_is_graded_and_shown_and_nothing_acknowledged_is_lost(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    gate = ("--metric", "latency_metrics<=20")
    spangrade("serve", "keys", "create", "agent", "--role", "send", "--data", tmp_path)
    made = spangrade("serve", "keys", "create", "ann", "--role", "read", "--data", tmp_path)
    sender = spangrade("serve", "keys", "create", "other", "--role", "send", "--data", tmp_path).out[0]
    reader = made.out[0]
    acknowledged = 0
    with server(tmp_path, *gate) as one:
        assert one.send(0, 8) == 401
        assert one.send(0, 8, reader) == 401
        for number in range(10):
            assert one.send(number * 8, 8, sender) == 200
            acknowledged += 8
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait()
    with server(tmp_path, *gate) as one:
        for number in range(10, 20):
            assert one.send(number * 8, 8, sender) == 200
            acknowledged += 8

        def graded() -> bool:
            state = json.loads(one.get("/readyz")[1])
            return bool(state["grade"]["graded"] >= 20)

        until(graded, what=one.get("/readyz")[1])
        assert one.get("/healthz")[0] == 200
        assert one.get("/", sender)[0] == 403
        status, page = one.get("/sessions", reader)
        assert (status, page.count('href="/session/') > 0) == (200, True)
        metrics = one.get("/metrics", reader)[1]
        assert "spangrade_watch_grades 1.0" in metrics
        assert 'spangrade_accepted_records_total{signal="spans"} 80.0' in metrics
        assert one.get("/metrics", sender)[0] == 401
        assert one.send(160, 8, sender) == 200
        acknowledged += 8
        one.process.terminate()
        assert one.process.wait(30) == 0
    assert stored(tmp_path) == acknowledged


def test_after_an_upgrade_pages_and_readiness_say_how_far_sessions_are(tmp_path: Path) -> None:
    """Never "No session yet" over data: what an earlier version derived is derived again first."""
    db = tmp_path / DATABASE
    sessions = [(f"s{number}", [Said("Where is it?")]) for number in range(2_000)]
    package.open(db).import_files(write_sessions(tmp_path / "s.jsonl", sessions))
    with Store.open(db) as store:
        store.query("UPDATE derived.progress SET fingerprint = 'of an earlier version'")
    with server(tmp_path) as one:
        seen = []
        while (state := one.get("/readyz"))[0] == 503:
            page = one.get("/sessions")
            seen.append((json.loads(state[1])["reason"], page[0], "No session" in page[1]))
            threading.Event().wait(0.05)
        assert one.get("/sessions")[1].count("data-session=") == 50
    texts = [
        re.fullmatch(r"2,000 sessions are being brought up to this version: (\d+)%", text)
        for text, *_ in seen
    ]
    shares = [int(one[1]) for one in texts if one]
    assert (len(shares), shares) == (len(seen), sorted(shares))
    assert seen
    assert {(status, says_none) for _, status, says_none in seen[:-1]} <= {(503, False)}


def test_every_role_over_otlp_and_a_key_that_is_revoked_ends_at_once(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    keys = {role: file.create(str(role), role) for role in Role}
    accepted, refused = (200, "OK"), (401, "UNAUTHENTICATED")
    with server(tmp_path) as one:

        def answers() -> dict[Role, tuple[int, str]]:
            return {role: (one.send(0, 1, key), one.send_over_grpc(key)) for role, key in keys.items()}

        may_send = {Role.SEND: accepted, Role.ADMIN: accepted}
        assert answers() == {**dict.fromkeys(Role, refused), **may_send}
        file.revoke("send")
        assert answers() == {**dict.fromkeys(Role, refused), Role.ADMIN: accepted}
        (tmp_path / "keys.json").unlink()  # a rotation, a mount that is lost
        assert answers() == dict.fromkeys(Role, refused)
        assert (one.send(0, 1), one.get("/sessions")[0]) == (401, 401)
        status, state = one.get("/readyz")
        assert (status, "keys.json: no keys there: nobody is let in" in state) == (503, True)


@contextmanager
def closed_webhook() -> Iterator[str]:
    """Give the address of a port at which nobody answers."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{one.getsockname()[1]}/"


def test_what_is_late_is_in_the_metrics_and_on_the_first_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANGRADE_WEBHOOK_SECRET", "whsec_" + "QUJD" * 8)
    with (
        closed_webhook() as url,
        server(
            tmp_path, "--metric", "latency_metrics<=0", "--webhook", url, "--notify-since", "1970-01-01"
        ) as one,
    ):
        assert 'class="problem"' not in one.get("/")[1]
        assert one.send(0, 8) == 200
        until(lambda: 'kind="webhook",state="waiting"} ' in one.get("/metrics")[1], what="no message waits")
        metrics = one.get("/metrics")[1]
        assert re.search(
            r'^spangrade_undelivered_messages\{kind="webhook",state="waiting"\} [1-9]', metrics, re.M
        )
        assert "\nspangrade_overdue_seconds 0.0\n" in metrics
        assert re.search(
            r'<p class="problem">Messages by webhook: \d+ not delivered yet\.</p>', one.get("/")[1]
        )


def test_an_answer_with_503_is_counted_for_ten_minutes_and_said_on_the_first_page(tmp_path: Path) -> None:
    now_s = 0.0
    counters = Counters(lambda: now_s)
    counters.note_busy("pages")
    counters.log_rejected(503, "a client", "the spool is full")
    counters.log_rejected(400, "a client", "not a request")
    assert 'spangrade_busy_answers_total{part="receive"} 1.0' in counters.text().decode()
    assert late(0, {}, counters.busy_lately()) == [
        "2 requests were answered with 503 (try again later) in the last 10 minutes."
    ]
    now_s = 601.0
    assert late(0, {}, counters.busy_lately()) == []


def test_a_session_that_waits_for_long_is_said_and_messages_that_were_given_up() -> None:
    messages = {"webhook": Counts(0, 3), "otlp": Counts(1, 0)}
    assert late(299.0, {"webhook": Counts()}, 0) == []
    assert late(780.0, messages, 1) == [
        "A session has been due to be graded for 13 minutes.",
        "Messages by otlp: 1 not delivered yet.",
        "Messages by webhook: 3 given up.",
        "1 request was answered with 503 (try again later) in the last 10 minutes.",
    ]


def test_the_ports_are_open_before_what_a_server_grades_and_shows_with_is_imported() -> None:
    """It takes twice as long to import, and exporters give up after ten seconds."""
    modules = ("evaluator.database", "evaluator.grading.grade", "evaluator.judge.run", "evaluator.derive")
    later = [f"spangrade.{one}" for one in (*modules, "evaluator.apps.server.serve")]
    script = (
        "import sys; from spangrade.evaluator.apps.server import command, start; "
        f"print([one for one in {later} if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_session_that_a_restart_cut_is_incomplete_at_every_door_until_its_spans_arrive(
    tmp_path: Path, spangrade: Spangrade, number: signal.Signals
) -> None:
    recorded = recorded_sessions((f"s{n}", [Said("hello", calls=[Call("look_up")])]) for n in range(3))
    spans = recorded["resourceSpans"][0]["scopeSpans"][0]["spans"]
    root = next(span for span in reversed(spans) if not span["parentSpanId"])
    gate = ("--metric", "latency_metrics<=20")
    why = "spans never arrived that were due when the receiver was restarted at "

    def send(to: Server, some: list[dict[str, Any]]) -> int:
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": some}]}]}).encode()
        return answer(f"{to.http}/v1/traces", "", body, "application/json")[0]

    def verdicts() -> dict[str, str]:
        rows = spangrade("sql", "FROM sessions SELECT session_id, verdict", *at, "--format", "json")
        return {row["session_id"]: row["verdict"] for row in json.loads("".join(rows.out))}

    at = ("--db", tmp_path / DATABASE)
    with server(tmp_path, *gate) as one:
        until(lambda: '"last_load":null' not in one.get("/readyz")[1], what="the loader has started")
        assert send(one, [span for span in spans if span is not root]) == 200
        one.process.send_signal(number)
        one.process.wait(30)
    with server(tmp_path, *gate) as one:
        until(lambda: why in one.get("/sessions")[1], what=one.get("/readyz")[1])
        assert why in one.get("/session/s2")[1]
        assert why not in one.get("/session/s1")[1]
    assert verdicts() == {"s0": "passed", "s1": "passed", "s2": "inconclusive"}
    assert why in " ".join(spangrade("show", "s2", *at).out)
    graded = spangrade("grade", *gate, *at)
    assert (graded.code, why in " ".join(graded.out)) == (4, True)
    lacks = "SELECT session_id, missing_spans FROM sessions WHERE unfinished IS NOT NULL"
    assert spangrade("sql", lacks, *at, "--format", "csv").out == ["session_id,missing_spans", "s2,1"]
    with server(tmp_path, *gate) as one:
        assert send(one, [root]) == 200
        until(lambda: why not in one.get("/sessions")[1], what=one.get("/sessions")[1])
    assert verdicts() == {"s0": "passed", "s1": "passed", "s2": "passed"}


@pytest.mark.exhaustive
def test_a_planned_restart_loses_no_span_of_plain_exporters() -> None:
    assert planned_restarts.play(1, 40) == []


@pytest.mark.exhaustive
def test_nothing_is_lost_doubled_or_seen_by_the_wrong_key_while_a_team_works() -> None:
    assert play(640, 4, [signal.SIGKILL]) == []


@pytest.mark.exhaustive
def test_a_server_that_grades_nothing_ends_the_alarms_of_earlier_settings(tmp_path: Path) -> None:
    new_database(tmp_path / DATABASE)
    with Store.open(tmp_path / DATABASE) as store:
        days = [START_NS + day * DAY_NS for day in range(-8, 1)]
        for day in days:
            add_stream(store, Stream(failing=0.1 if day < START_NS else 0.9), day)
        with store.transaction():
            rule = AlertRule(when="passed worse", by="agent")
            assert len(alerts((rule,), START_NS).look(store, days[-1] + DAY_NS // 2, START_NS)) == 1
    with server(tmp_path):
        pass
    with Store.open(tmp_path / DATABASE) as store:
        assert [one.stream for one in stored_alarms(store) if one.ended_ns is not None] == ["agent0"]


@pytest.mark.exhaustive
def test_others_write_while_a_server_runs(tmp_path: Path, spangrade: Spangrade) -> None:
    with server(tmp_path, "--metric", "latency_metrics<=20") as one:
        assert one.send(0, 80) == 200
        done = spangrade("import", SAMPLE / "spans.otlp.jsonl", "--db", tmp_path / "spangrade.duckdb")
        assert done.code == 0
        assert one.get("/")[0] == 200
        assert "Traceback" not in "\n".join(done.err)


def test_without_a_key_a_server_is_for_this_machine_alone(tmp_path: Path, spangrade: Spangrade) -> None:
    done = spangrade("serve", "--host", "0.0.0.0", "--data", tmp_path)
    assert done.code == 2
    assert "create a key (spangrade serve keys create NAME --role admin)" in done.err[0]
    done = spangrade("serve", "--data", tmp_path / "none")
    assert (done.code, done.err[0].endswith("no such folder")) == (2, True)
    for exposed in (
        ["--public-url", "https://x.org"],
        ["--trusted-proxy", "10.0.0.0/8"],
        ["--allowed-host", "x"],
    ):
        done = spangrade("serve", "--data", tmp_path, *exposed)
        assert (done.code, "others may reach " in done.err[0]) == (2, True)
    for options, problem in (
        (["--public-url", "https://x.org", "--allow-anonymous"], "public_url: expected keys "),
        (["--base-path", "x"], "base_path: expected a path such as /spangrade"),
        (
            ["--public-url", "x"],
            "options.serve.public_url 'x': expected one such as https://spans.example.com",
        ),
        (["--trusted-proxy", "x"], "trusted_proxy: "),
    ):
        done = spangrade("serve", "--data", tmp_path, *options)
        assert done.code == 2
        assert problem in done.err[0]


def test_parts_of_a_process_take_turns_in_the_order_in_which_they_ask(tmp_path: Path) -> None:
    db = tmp_path / "one.duckdb"
    Store.open(db).close()
    order: list[int] = []
    with taking_turns(db):
        turns = turns_at(db)
        assert turns is not None
        first = Store.open(db, wait_s=5)
        with pytest.raises(StoreLockedError, match="another part of this process has it open"):
            Store.open(db, wait_s=0)

        def take(number: int) -> None:
            with Store.open(db, read_only=bool(number % 2), wait_s=30):
                order.append(number)

        threads = []
        for number in range(4):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            until(lambda expected=number + 1: len(turns._waiting) == expected, what="waiting")
        first.close()
        for thread in threads:
            thread.join()
    assert order == [0, 1, 2, 3]
    assert turns_at(db) is None


@pytest.mark.exhaustive
def test_a_backup_is_taken_while_a_server_runs_and_restored_elsewhere(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    data, target, elsewhere = tmp_path / "data", tmp_path / "backup", tmp_path / "elsewhere"
    data.mkdir()
    key = spangrade("serve", "keys", "create", "root", "--role", "admin", "--data", data).out[0]
    with server(data, "--metric", "latency_metrics<=20") as one:
        assert one.send(0, 80, key) == 200
        until(lambda: json.loads(one.get("/readyz")[1])["grade"]["graded"] >= 10, what="graded")
        done = spangrade("serve", "backup", target, "--data", data)
        assert (done.code, done.out[0].split(": ")[1].startswith("80 spans and 10 sessions")) == (0, True)
        assert one.send(80, 80, key) == 200
        assert spangrade("serve", "backup", target, "--data", data).code == 2
    done = spangrade("serve", "restore", target, "--data", elsewhere)
    assert done.code == 0
    with Store.open(elsewhere / DATABASE, read_only=True) as store:
        restored = rows_of_tables(store)
    with Store.open(target / DATABASE, read_only=True) as store:
        assert restored == rows_of_tables(store)
    assert (restored["main.spans"], restored["derived.sessions"]) == (80, 10)
    with server(elsewhere, "--metric", "latency_metrics<=20") as one:
        assert one.get("/runs", key)[0] == 200
    for source, folder, problem in (
        (target, elsewhere, "there is a database already"),
        (tmp_path, tmp_path / "new", "no spangrade.duckdb in it"),
    ):
        done = spangrade("serve", "restore", source, "--data", folder)
        assert (done.code, problem in done.err[0]) == (2, True)


def test_all_ports_serve_tls_with_the_certificate_as_it_is_after_sighup(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with server(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as one:
        places = [("127.0.0.1", urlsplit(url).port) for url in (one.pages, one.http)]

        def served() -> list[str]:
            return [ssl.get_server_certificate(place) for place in places]

        assert served() == [certificate.read_text()] * 2
        self_signed(tmp_path)
        one.process.send_signal(signal.SIGHUP)
        until(lambda: served() == [certificate.read_text()] * 2, what="the new certificate")


@pytest.mark.exhaustive  # 2 minutes, 6 s of CPU
def test_a_trickle_of_spans_costs_little_and_its_verdicts_are_not_late() -> None:
    found = trickle.play(120, 20, idle_s=15)
    assert found.problems(most_cpu_s=1.5) == []  # 1.0 s without others on the machine: see tests/faults
    assert found.delays_s
