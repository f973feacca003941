"""Scores for Phoenix and MLflow, over HTTP to a stand-in of their APIs; tests/peers asks the real ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from watching import ALL, BAD, GATE, LATER, OK, Clock, add, prepared_by, rows

import spangrade as package
from spangrade.evaluator.derive.sync.up_to_date import DatabaseFile
from spangrade.evaluator.watch.destinations import destination_at
from spangrade.evaluator.watch.send_scores import Sender
from spangrade.evaluator.watch.watch import Watch
from spangrade.tracer import semconv
from spangrade.tracer.store import Store

PATH = "/api/3.0/mlflow/traces/"


class Peer:
    """Phoenix and MLflow in one: annotations by span, name and identifier; assessments by trace."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.annotations: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.assessments: dict[str, list[dict[str, Any]]] = {}
        self.missing: set[str] = set()  # ids of spans and traces
        self.answer: Callable[[], tuple[int, bytes]] | None = None  # in place of its own

    def url(self, kind: str) -> str:
        return f"{kind}+http://127.0.0.1:{self.port}"

    def handle(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path.startswith("/v1/"):
            key = "span_id" if path == "/v1/span_annotations?sync=true" else "trace_id"
            if unknown := sorted({one[key] for one in body["data"]} & self.missing):
                return 404, f"Spans with IDs {', '.join(unknown)} do not exist."
            for one in body["data"]:
                self.annotations[one[key], one["name"], one["identifier"]] = one
            return 200, {"data": []}
        trace_id, _, name = path.removeprefix(PATH).partition("/assessments")
        if trace_id in self.missing:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
        there = self.assessments.setdefault(trace_id, [])
        if method == "GET":
            return 200, {"trace": {"trace_info": {"assessments": there}}}
        if method == "DELETE":
            there[:] = [one for one in there if f"/{one['assessment_id']}" != name]
            return 200, {}
        made = {**body["assessment"], "assessment_id": f"a-{len(there)}", "valid": True}
        for one in there:
            one["valid"] &= one["assessment_id"] != made.get("overrides")
        there.append(made)
        return 200, {"assessment": made}


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer()) as running:
        yield running


@contextmanager
def serving(peer: Peer) -> Iterator[Peer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            peer.requests.append((self.command, self.path, dict(self.headers)))
            if peer.answer is None:
                status, answer = peer.handle(self.command, self.path, json.loads(body) if body else None)
                text = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            else:
                status, text = peer.answer()
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_DELETE = do_POST  # noqa: N815 (the server's names)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    peer.port = server.server_address[1]
    try:
        yield peer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    add(path := tmp_path / "spangrade.duckdb", [("good", OK), ("bad", BAD)])
    return path


def places(db: Path) -> dict[str, tuple[str, str]]:
    """Return where the gate of each session is: on the failed call, or on the agent's run."""
    good = "SELECT trace_id, span_id FROM trajectory WHERE session_id = 'good' AND kind = 'agent'"
    bad = "SELECT trace_id, span_id FROM spans WHERE status = 'ERROR'"
    return {"good": rows(db, good)[0], "bad": rows(db, bad)[0]}


def grade(url: str, gate: str = GATE) -> str:
    return run("grade", "--metric", gate, "--send", url).out[-1]


def forget(db: Path) -> None:
    """Make it so that the answers to what was sent were lost."""
    with Store.open(db, wait_s=10) as store:
        store.query("UPDATE sent_scores SET sent_ns = NULL")


def test_phoenix_has_one_annotation_of_a_score(db: Path, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOENIX_API_KEY", "the-key")
    url = peer.url("phoenix")
    assert grade(url) == f"2 scores sent to {url}"
    assert peer.requests[0][2]["Authorization"] == "Bearer the-key"
    first = dict(peer.annotations)
    place = places(db)
    assert {key: (one["annotator_kind"], *one["result"].values()) for key, one in first.items()} == {
        (place["good"][1], "tool_success_rate", "spangrade:good:"): ("CODE", 1.0, "pass", "no call failed"),
        (place["bad"][1], "tool_success_rate", "spangrade:bad:"): ("CODE", 0.0, "fail", "failed: lookup"),
    }
    assert grade(url) == f"0 scores sent to {url}; 2 sent before"
    forget(db)
    assert grade(url) == f"2 scores sent to {url}"
    assert peer.annotations == first
    assert grade(url, "tool_success_rate>=0") == f"1 score sent to {url}; 1 sent before"
    assert sorted(one["result"]["label"] for one in peer.annotations.values()) == ["pass", "pass"]


@pytest.mark.exhaustive
def test_mlflow_has_one_valid_assessment_of_a_score(
    db: Path, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "it")
    url = peer.url("mlflow")
    assert grade(url) == f"2 scores sent to {url}"
    assert peer.requests[0][2]["Authorization"] == "Basic bWU6aXQ="
    place = places(db)
    found = {
        name: [(one["span_id"], one["feedback"], one["rationale"]) for one in there]
        for name, there in peer.assessments.items()
    }
    assert found == {
        f"tr-{place['good'][0]}": [(place["good"][1], {"value": 1.0}, "no call failed")],
        f"tr-{place['bad'][0]}": [(place["bad"][1], {"value": 0.0}, "failed: lookup")],
    }
    forget(db)
    assert grade(url) == f"2 scores sent to {url}"
    assert [len(there) for there in peer.assessments.values()] == [1, 1]
    assert grade(url, "tool_success_rate>=0") == f"1 score sent to {url}; 1 sent before"
    of_bad = [
        (one["metadata"][semconv.EVALUATION_SCORE_LABEL], one["valid"])
        for one in peer.assessments[f"tr-{place['bad'][0]}"]
    ]
    assert of_bad == [("fail", False), ("pass", True)]


def moved(db: Path) -> list[dict[str, Any]]:
    """Return the event of the session that failed, on the other one's call."""
    with package.open(db) as opened:
        events = opened.send_scores(opened.grade(gates=GATE), "http://127.0.0.1:1", dry_run=True).events
    (event,) = (one for one in events if one["attributes"][semconv.CONVERSATION_ID] == "bad")
    trace_id, span_id = places(db)["good"]
    return [{**event, "trace_id": trace_id, "span_id": span_id}]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["phoenix", "mlflow"])
@pytest.mark.short_form("kind", 2)
def test_a_score_that_moves_to_another_span_leaves_no_other_behind(db: Path, peer: Peer, kind: str) -> None:
    grade(peer.url(kind))
    place, new = places(db), moved(db)
    sender = Sender(DatabaseFile(db), destination_at(peer.url(kind), semconv.SCOPE_OF_GRADE))
    peer.answer = lambda: (503, b"")
    assert sender.send(new, [1]) == ["answered 503 Service Unavailable"]
    peer.answer = None
    assert sender.send(new, [2]) == [""]
    assert sender.send(new, [3]) == [None]
    sender.close()
    if kind == "phoenix":
        bad = {key[0]: one["result"]["label"] for key, one in peer.annotations.items() if "bad" in key[2]}
        assert bad == {place["bad"][1]: "superseded", place["good"][1]: "fail"}
    else:
        there = {name: [one["span_id"] for one in them] for name, them in peer.assessments.items()}
        good = place["good"]
        assert there == {f"tr-{place['bad'][0]}": [], f"tr-{good[0]}": [good[1], good[1]]}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["phoenix", "mlflow"])
@pytest.mark.short_form("kind", 2)
def test_a_span_that_is_not_there_keeps_no_other_score_back(db: Path, peer: Peer, kind: str) -> None:
    trace_id, span_id = places_after_grading(db)["bad"]
    peer.missing = {span_id} if kind == "phoenix" else {f"tr-{trace_id}"}
    url = peer.url(kind)
    refused = run("grade", "--metric", GATE, "--send", url)
    what = f"span {span_id}" if kind == "phoenix" else f"trace tr-{trace_id}"
    again = "1 score not sent, 1 sent; grade the same sessions with --send to send the rest"
    assert (refused.code, refused.err) == (1, [f"spangrade: {url} does not have {what}: {again}"])
    peer.missing = set()
    assert grade(url) == f"1 score sent to {url}; 1 sent before"


def places_after_grading(db: Path) -> dict[str, tuple[str, str]]:
    run("grade", "--metric", GATE)
    return places(db)


@pytest.mark.parametrize("kind", ["phoenix", "mlflow"])
@pytest.mark.parametrize(
    ("status", "text", "problem"),
    [
        (401, b"no\x1b[31m", "answered 401 Unauthorized"),
        (307, b"", "answered 307 Temporary Redirect"),
        (404, b"", {"phoenix": "answered 404 Not Found", "mlflow": "does not have trace tr-TRACE"}),
        (200, b"<html>", {"phoenix": "", "mlflow": "its answer is not that of MLflow"}),
        (200, b'{"trace": {"trace_info": {"assessments": {"a": 1}}}}', ""),
        (200, b"x" * (17 * 2**20), "its answer is too long"),
    ],
)
@pytest.mark.short_form("status", 3)
@pytest.mark.short_form("text", 2)
def test_whatever_it_answers_is_one_line(
    db: Path, peer: Peer, kind: str, status: int, text: bytes, problem: str | dict[str, str]
) -> None:
    peer.answer = lambda: (status, text)
    url = peer.url(kind)
    done = run("grade", "--metric", GATE, "--send", url)
    expected = problem if isinstance(problem, str) else problem[kind]
    if expected:
        (line,) = done.err
        trace_id, _ = places(db)["good"]
        assert line.startswith(
            f"spangrade: {url} {expected.replace('TRACE', trace_id)}: 2 scores not sent, 0 sent"
        )
    else:
        assert done.err == []
    assert done.code == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["phoenix", "mlflow"])
@pytest.mark.short_form("kind", 2)
def test_watch_sends_the_scores_of_each_look_once(db: Path, peer: Peer, kind: str) -> None:
    clock = Clock(LATER)

    def watching() -> Watch:
        scores = Sender(DatabaseFile(db), destination_at(peer.url(kind), semconv.SCOPE_OF_WATCH), clock)
        return Watch(db, prepared_by(gates=[GATE]), ALL, scores=scores, clock=clock, steady=clock)

    peer.answer = lambda: (503, b"")
    first = watching()
    assert first.round().messages["scores"].waiting == 2
    first.close()
    peer.answer = None
    clock.now_ns += 60 * 10**9
    second = watching()
    assert second.round().messages == {}
    second.close()
    sent = rows(db, "SELECT session_id, sent_ns IS NOT NULL, endpoint FROM sent_scores ORDER BY ALL")
    assert sent == [("bad", True, peer.url(kind)), ("good", True, peer.url(kind))]
    number = len(peer.annotations) + sum(map(len, peer.assessments.values()))
    assert number == 2
    assert grade(peer.url(kind)) == f"0 scores sent to {peer.url(kind)}; 2 sent before"  # the same scores
