"""Spans and scores in a real Phoenix and a real MLflow, behind a real Collector, and beside Logfire.

`uv run --isolated --extra collect --group peers pytest tests/peers`; each server runs on the loopback, in a
folder of the test.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from receiving import receiver
from watching import rows

import spangrade
from spangrade.evaluator.watch.destinations import Scored, destination_at
from spangrade.evaluator.watch.events import SpanPlace
from spangrade.tracer import semconv

pytest.importorskip("rotel", reason="the peers are not installed: the group `peers` has them")

AGENT = """
import sys
import spangrade
BEFORE
provider = spangrade.configure(None if BEGUN else "shop", db=sys.argv[1], endpoint=sys.argv[2] or None)

@spangrade.tool
def lookup(order_id):
    if order_id == "A2":
        raise ValueError("no such order")
    return {"status": "shipped"}

for order in ("A1", "A2"):
    with spangrade.session(f"about-{order}"), spangrade.turn(f"Where is {order}?") as turn:
        with spangrade.agent("support"):
            try:
                turn.respond(lookup(order)["status"])
            except ValueError:
                turn.respond("I cannot find it.")
if BEGUN:
    with logfire.span("beside"):
        pass
provider.shutdown()
"""
GATE = "tool_success_rate>=1"


def free_ports(number: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in listeners]
    for one in listeners:
        one.close()
    return ports


def ask(url: str) -> Any:
    answer = httpx2.get(url, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


@contextmanager
def running(command: list[str], folder: Path, ready: Callable[[], object], **more: str) -> Iterator[None]:
    """Run a server until the block ends; it is `ready` once that can be called."""
    environment = {**os.environ, "HOME": str(folder), **more}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            give_up_s = time.monotonic() + 120
            while True:
                try:
                    ready()
                    break
                except (OSError, httpx2.TransportError):
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < give_up_s, log.read_text()
                    time.sleep(0.2)
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, (http, grpc) = tmp_path_factory.mktemp("phoenix"), free_ports(2)
    url = f"http://127.0.0.1:{http}"
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(http),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [sys.executable, "-m", "phoenix.server.main", "serve"]
    with running(command, folder, partial(ask, f"{url}/v1/projects"), **settings):
        yield url


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, (port,) = tmp_path_factory.mktemp("mlflow"), free_ports(1)
    url = f"http://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command = [sys.executable, "-m", "mlflow", "server", *where, "--backend-store-uri", "sqlite:///m.db"]
    ready = partial(httpx2.get, f"{url}/health", timeout=30)
    with running(command, folder, ready, MLFLOW_DISABLE_TELEMETRY="true"):
        yield url


def record(folder: Path, endpoint: str, before: str = "", **environment: str) -> Path:
    """Run the agent, whose spans go to a database and to an endpoint; return the database."""
    program, db = folder / "agent.py", folder / "shop.duckdb"
    program.write_text(AGENT.replace("BEFORE", before).replace("BEGUN", str(bool(before))))
    command = [sys.executable, str(program), str(db), endpoint]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return db


def spans(db: Path) -> set[tuple[str, str]]:
    return set(rows(db, "SELECT trace_id, span_id FROM spans"))


def grade(db: Path, send: str, *more: str) -> list[str]:
    command = [sys.executable, "-m", "spangrade", "grade", "--db", str(db), "--metric", GATE]
    command += ["--send", send, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "", done.stderr
    return done.stdout.splitlines()


def expected(db: Path) -> dict[str, tuple[Any, ...]]:
    """Return the place and the result of the gate in each session: the failed call, else the agent's run."""
    good = "SELECT trace_id, span_id FROM trajectory WHERE session_id = 'about-A1' AND kind = 'agent'"
    return {
        "about-A1": (*rows(db, good)[0], 1.0, "pass", "no call failed"),
        "about-A2": (
            *rows(db, "SELECT trace_id, span_id FROM spans WHERE status = 'ERROR'")[0],
            0.0,
            "fail",
            "failed: lookup",
        ),
    }


def provenance(db: Path, session_id: str) -> dict[str, str]:
    return {
        "gen_ai.conversation.id": session_id,
        "gen_ai.evaluation.evaluator.name": "spangrade",
        "gen_ai.evaluation.evaluator.version": spangrade.__version__,
        "gen_ai.evaluation.evaluator.type": "deterministic",
        "gen_ai.evaluation.score.label": "pass" if session_id == "about-A1" else "fail",
        "otel.scope.name": "spangrade.grade",
        "spangrade.run_id": rows(db, "SELECT DISTINCT run_id FROM sent_scores")[0][0],
        "spangrade.verdict": "passed" if session_id == "about-A1" else "failed",
    }


def in_phoenix(url: str, db: Path) -> list[dict[str, Any]]:
    named = "&".join(f"span_ids={span_id}" for _, span_id in spans(db))
    return ask(f"{url}/v1/projects/default/span_annotations?{named}&limit=1000")["data"]


def test_scores_go_to_phoenix_once(phoenix: str, tmp_path: Path) -> None:
    db = record(tmp_path, phoenix)
    there = ask(f"{phoenix}/v1/projects/default/spans?limit=1000")["data"]
    assert {(one["context"]["trace_id"], one["context"]["span_id"]) for one in there} >= spans(db)

    assert (
        grade(db, f"phoenix+{phoenix}", "--send-dry-run")[-1]
        == f"2 scores would be sent to phoenix+{phoenix}"
    )
    assert in_phoenix(phoenix, db) == []
    assert grade(db, f"phoenix+{phoenix}")[-1] == f"2 scores sent to phoenix+{phoenix}"
    first = in_phoenix(phoenix, db)
    found = {
        one["metadata"]["gen_ai.conversation.id"]: (one["span_id"], *one["result"].values(), one["metadata"])
        for one in first
    }
    assert found == {
        name: (span_id, label, value, reason, provenance(db, name))
        for name, (_, span_id, value, label, reason) in expected(db).items()
    }
    assert {(one["name"], one["annotator_kind"]) for one in first} == {("tool_success_rate", "CODE")}

    assert grade(db, f"phoenix+{phoenix}")[-1] == f"0 scores sent to phoenix+{phoenix}; 2 sent before"
    forget(db)
    assert grade(db, f"phoenix+{phoenix}")[-1] == f"2 scores sent to phoenix+{phoenix}"
    assert [one | {"updated_at": ""} for one in in_phoenix(phoenix, db)] == [
        one | {"updated_at": ""} for one in first
    ]

    moved(f"phoenix+{phoenix}", db)
    labels = {one["span_id"]: one["result"]["label"] for one in in_phoenix(phoenix, db)}
    assert sorted(labels.values()) == ["pass", "pass", "superseded"]


def in_mlflow(url: str, db: Path) -> list[dict[str, Any]]:
    ids = sorted({trace_id for trace_id, _ in spans(db)})
    infos = [ask(f"{url}/api/3.0/mlflow/traces/tr-{one}")["trace"]["trace_info"] for one in ids]
    return [one for info in infos for one in info.get("assessments", ())]


def test_scores_go_to_mlflow_once(mlflow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = record(tmp_path, mlflow, OTEL_EXPORTER_OTLP_HEADERS="x-mlflow-experiment-id=0")
    monkeypatch.chdir(tmp_path)
    from mlflow import MlflowClient

    client = MlflowClient(mlflow)
    traces = {trace_id for trace_id, _ in spans(db)}
    there = {(name, one.span_id) for name in traces for one in client.get_trace(f"tr-{name}").data.spans}
    assert there == spans(db)

    assert grade(db, f"mlflow+{mlflow}")[-1] == f"2 scores sent to mlflow+{mlflow}"
    first = in_mlflow(mlflow, db)
    found = {
        one["metadata"]["gen_ai.conversation.id"]: (
            one["trace_id"],
            one["span_id"],
            one["feedback"]["value"],
            one["rationale"],
            one["metadata"],
        )
        for one in first
    }
    assert found == {
        name: (f"tr-{trace_id}", span_id, value, reason, provenance(db, name))
        for name, (trace_id, span_id, value, _, reason) in expected(db).items()
    }
    assert [one["source"] for one in first] == [{"source_type": "CODE", "source_id": "spangrade"}] * 2

    assert grade(db, f"mlflow+{mlflow}")[-1] == f"0 scores sent to mlflow+{mlflow}; 2 sent before"
    forget(db)
    assert grade(db, f"mlflow+{mlflow}")[-1] == f"2 scores sent to mlflow+{mlflow}"
    assert in_mlflow(mlflow, db) == first

    moved(f"mlflow+{mlflow}", db)
    valid = [one for one in in_mlflow(mlflow, db) if one["valid"]]
    assert [one["feedback"]["value"] for one in valid] == [1.0, 1.0]


def forget(db: Path) -> None:
    """Make it so that the answers to what was sent were lost."""
    from spangrade.tracer.store import Store

    with Store.open(db, wait_s=10) as store:
        store.query("UPDATE sent_scores SET sent_ns = NULL")


def moved(url: str, db: Path) -> None:
    """Send a score of the session that failed again: it passes now, on another span of another trace."""
    with spangrade.open(db) as opened:
        events = opened.send_scores(opened.runs()[0].run_id, "http://127.0.0.1:1", dry_run=True).events
    event = next(one for one in events if one["attributes"][semconv.CONVERSATION_ID] == "about-A2")
    call = "SELECT trace_id, span_id FROM tool_interactions WHERE session_id = 'about-A1'"
    ((trace_id, span_id),) = rows(db, call)
    attributes: Mapping[str, Any] = event["attributes"] | {
        semconv.EVALUATION_SCORE_VALUE: 1.0,
        semconv.EVALUATION_SCORE_LABEL: "pass",
    }
    new = {"trace_id": trace_id, "span_id": span_id, "attributes": attributes}
    destination = destination_at(url, semconv.SCOPE_OF_GRADE)
    try:
        place = SpanPlace(event["trace_id"], event["span_id"])
        assert destination.send([Scored(new, time.time_ns(), (place,))]) == [""]
    finally:
        destination.close()


def test_a_span_that_is_not_there_is_named(phoenix: str, mlflow: str, tmp_path: Path) -> None:
    db = record(tmp_path, "")
    urls = {f"phoenix+{phoenix}": "span", f"mlflow+{mlflow}": "trace"}
    for url, what in urls.items():
        with spangrade.open(db) as opened:
            sent = opened.send_scores(opened.grade(gates=GATE), url)
        trace_id, span_id, *_ = expected(db)["about-A1"]
        name = span_id if what == "span" else f"tr-{trace_id}"
        assert (sent.sent, sent.unsent, sent.error) == (0, 2, f"does not have {what} {name}")


def test_spans_come_through_a_collector_as_they_are(tmp_path: Path) -> None:
    import rotel

    agent = Path(rotel.__file__).with_name("rotel-agent")
    http, grpc = free_ports(2)
    with receiver(tmp_path / "collected.duckdb") as ours:
        listens = ["--otlp-http-endpoint", f"127.0.0.1:{http}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"]
        sends = ["--otlp-exporter-endpoint", ours.http, "--otlp-exporter-protocol", "http"]
        ready = partial(httpx2.get, f"http://127.0.0.1:{http}", timeout=30)
        with running([str(agent), "start", *listens, *sends], tmp_path, ready):
            db = record(tmp_path, f"http://127.0.0.1:{http}")
        assert ours.stop() == 0
    assert spans(tmp_path / "collected.duckdb") == spans(db)


def test_spans_of_logfire_go_to_the_database_and_to_phoenix(phoenix: str, tmp_path: Path) -> None:
    before = "import logfire\nlogfire.configure(send_to_logfire=False, console=False, service_name='shop')"
    db = record(tmp_path, phoenix, before)
    there = ask(f"{phoenix}/v1/projects/default/spans?limit=1000")["data"]
    assert {(one["context"]["trace_id"], one["context"]["span_id"]) for one in there} >= spans(db)
    assert rows(db, "SELECT count(*) FROM spans WHERE name = 'beside'") == [(1,)]  # Logfire's own
    with spangrade.open(db) as opened:
        assert {"about-A1", "about-A2"} <= {one.session_id for one in opened.sessions()}
