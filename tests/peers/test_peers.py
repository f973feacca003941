"""Spans and scores in a real Phoenix and a real MLflow, behind a real Collector, and beside Logfire.

`uv run --isolated --extra serve --group peers pytest tests/peers`; each server runs on the loopback, in a
folder of the test.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from paths import ROOT
from receiving import receiver
from watching import rows

import spangrade

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


def hand_over(db: Path, to: str, **environment: str) -> None:
    """Run a recipe of docs/production.md on the scores that a grade would send."""
    _, _, text = (ROOT / "docs" / "production.md").read_text().partition(f"`scores_to_{to}.py` ")
    program = text.partition("```py\n")[2].partition("```")[0]
    program = program.replace("http://localhost:6006", environment.pop("PHOENIX", ""))
    events = [line for line in grade(db, "http://localhost", "--send-dry-run") if line.startswith("{")]
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command,
        input="".join(f"{one}\n" for one in events),
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert (done.returncode, len(events)) == (0, 2), done.stderr


def in_phoenix(url: str, db: Path) -> list[dict[str, Any]]:
    named = "&".join(f"span_ids={span_id}" for _, span_id in spans(db))
    return ask(f"{url}/v1/projects/default/span_annotations?{named}&limit=1000")["data"]


def test_scores_are_handed_over_to_phoenix(phoenix: str, tmp_path: Path) -> None:
    db = record(tmp_path, phoenix)
    there = ask(f"{phoenix}/v1/projects/default/spans?limit=1000")["data"]
    assert {(one["context"]["trace_id"], one["context"]["span_id"]) for one in there} >= spans(db)
    for _ in range(2):  # the second time it replaces the first
        hand_over(db, "phoenix", PHOENIX=phoenix)
        found = sorted((one["span_id"], *one["result"].values()) for one in in_phoenix(phoenix, db))
        assert found == sorted(
            (span_id, label, value, reason) for _, span_id, value, label, reason in expected(db).values()
        )


def test_scores_are_handed_over_to_mlflow(mlflow: str, tmp_path: Path) -> None:
    db = record(tmp_path, mlflow, OTEL_EXPORTER_OTLP_HEADERS="x-mlflow-experiment-id=0")
    hand_over(db, "mlflow", MLFLOW_TRACKING_URI=mlflow)
    ids = sorted({trace_id for trace_id, _ in spans(db)})
    infos = [ask(f"{mlflow}/api/3.0/mlflow/traces/tr-{one}")["trace"]["trace_info"] for one in ids]
    given = [one for info in infos for one in info.get("assessments", ())]
    assert sorted((one["span_id"], one["feedback"]["value"], one["rationale"]) for one in given) == sorted(
        (span_id, value, reason) for _, span_id, value, _, reason in expected(db).values()
    )


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
