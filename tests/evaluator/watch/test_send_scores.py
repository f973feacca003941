"""`--send` of `grade` and `run`: scores as events, over real HTTP, each once."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, run
from gemini_standin import MODEL, gemini_standin
from otlp_sessions import write_golden
from receiving import receiver
from sinks import http_sink, raw_server
from watching import BAD, GATE, OK, add, rows

import spangrade as package
from spangrade import __version__
from spangrade.evaluator.apps.server.grade.send_scores import send_scores
from spangrade.tracer.store import Store

SENT = "SELECT session_id, metric, sent_ns IS NOT NULL FROM sent_scores ORDER BY ALL"
URLS = "--send: expected http://HOST:PORT or https://…"
AGAIN = "2 scores not sent, 0 sent; grade the same sessions with --send to send the rest"


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of two sessions, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_PROTOCOL", raising=False)
    add(path := tmp_path / "spangrade.duckdb", [("good", OK), ("bad", BAD)])
    return path


def grade(url: str, *more: str) -> Done:
    return run("grade", "--metric", GATE, "--send", url, *more)


def expected(db: Path, session_id: str, label: str) -> dict[str, Any]:
    """Return the event of a session in the first run."""
    query = f"SELECT trace_id, span_id FROM trajectory WHERE session_id = '{session_id}' AND kind = 'agent'"
    if label == "fail":
        query = "SELECT trace_id, span_id FROM spans WHERE status = 'ERROR'"
    ((trace_id, span_id),) = rows(db, query)
    return {
        "trace_id": trace_id,
        "span_id": span_id,
        "event": "gen_ai.evaluation.result",
        "gen_ai.evaluation.name": "tool_success_rate",
        "gen_ai.evaluation.score.value": 1.0 if label == "pass" else 0.0,
        "gen_ai.evaluation.score.label": label,
        "gen_ai.evaluation.explanation": "no call failed" if label == "pass" else "failed: lookup",
        "gen_ai.conversation.id": session_id,
        "gen_ai.evaluation.evaluator.name": "spangrade",
        "gen_ai.evaluation.evaluator.version": __version__,
        "gen_ai.evaluation.evaluator.type": "deterministic",
        "spangrade.run_id": rows(db, "SELECT run_id FROM runs ORDER BY graded_at LIMIT 1")[0][0],
        "spangrade.verdict": "passed" if label == "pass" else "failed",
    }


def both(db: Path) -> list[dict[str, Any]]:
    return [expected(db, "bad", "fail"), expected(db, "good", "pass")]


def by_session(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(events, key=lambda one: str(one["gen_ai.conversation.id"]))


def test_scores_are_sent_once(db: Path) -> None:
    with http_sink() as sink:
        first = grade(sink.endpoint)
        assert (first.code, first.err) == (1, [])
        assert first.out[-1] == f"2 scores sent to {sink.endpoint}"
        assert by_session(sink.events()) == both(db)
        assert (sink.scopes, sink.services) == ({"spangrade.grade"}, {"spangrade"})
        again = grade(f"{sink.endpoint}/v1/logs")
        assert again.out[-1] == f"0 scores sent to {sink.endpoint}; 2 sent before"
        assert len(sink.logs) == 2
        with http_sink() as other:  # another receiver has none of them
            assert grade(other.endpoint).out[-1] == f"2 scores sent to {other.endpoint}"
        add(db, [("late", OK)])
        assert grade(sink.endpoint).out[-1] == f"1 score sent to {sink.endpoint}; 2 sent before"
        assert [one["gen_ai.conversation.id"] for one in sink.events()[2:]] == ["late"]
    assert len(sink.logs) == 3


@pytest.mark.exhaustive
def test_a_score_that_changes_and_changes_back_is_sent_each_time(db: Path) -> None:
    with http_sink() as sink:
        for gate in ("tool_success_rate>=1", "tool_success_rate>=0", "tool_success_rate>=1"):
            run("grade", "--metric", gate, "--send", sink.endpoint)
        of_bad = [one for one in sink.events() if one["gen_ai.conversation.id"] == "bad"]
    assert [one["gen_ai.evaluation.score.label"] for one in of_bad] == ["fail", "pass", "fail"]
    assert len(sink.logs) == 4


def test_what_was_refused_is_sent_later_as_it_was(db: Path) -> None:
    with http_sink() as sink:
        sink.accepting = False
        refused = grade(sink.endpoint)
        assert refused.code == 1  # the verdict, whatever the receiver says
        problem = f"spangrade: {sink.endpoint} refused the events: {AGAIN}"
        assert [line for line in refused.err if line.startswith("spangrade: ")] == [problem]
        assert rows(db, SENT) == [("bad", "tool_success_rate", False), ("good", "tool_success_rate", False)]
        ((time_ns,),) = rows(db, "SELECT DISTINCT time_ns FROM sent_scores")
        sink.accepting = True
        assert grade(sink.endpoint).out[-1] == f"2 scores sent to {sink.endpoint}"
        assert by_session(sink.events()) == both(db)  # of the run that gave them
        assert {one.time_unix_nano for one in sink.logs} == {time_ns}
    assert rows(db, SENT) == [("bad", "tool_success_rate", True), ("good", "tool_success_rate", True)]


@pytest.mark.exhaustive
def test_a_sending_that_is_interrupted_goes_on_where_it_stopped(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spangrade.evaluator.apps.server.grade.send_scores._SESSIONS", 1)
    times = iter((1, 2))  # of the first request and of its acceptance

    def clock() -> int:
        if (now := next(times, None)) is None:
            raise KeyboardInterrupt
        return now

    with http_sink() as sink, package.open(db) as opened:
        graded = opened.grade(gates=GATE)
        with pytest.raises(KeyboardInterrupt):
            send_scores(opened.stored, graded.run_id, sink.endpoint, clock=clock)
        assert len(sink.logs) == 1
        done = opened.send_scores(graded, sink.endpoint)
        assert (done.sent, done.sent_before, done.unsent) == (1, 1, 0)
        assert by_session(sink.events()) == both(db)


def test_an_answer_that_is_late_is_no_acceptance(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")

    def never(connection: socket.socket) -> None:
        while connection.recv(65_536):
            pass

    with raw_server(never) as url:
        endpoint = url.partition("/hook")[0]
        late = grade(endpoint)
    problem = f"spangrade: {endpoint} refused the events: {AGAIN}"
    assert (late.code, late.err[-1]) == (1, problem)
    assert [sent for _, _, sent in rows(db, SENT)] == [False, False]


def test_a_dry_run_prints_the_events_and_sends_and_stores_nothing(db: Path) -> None:
    with http_sink() as sink:
        dry = grade(sink.endpoint, "--send-dry-run")
        assert dry.out[-1] == f"2 scores would be sent to {sink.endpoint}"
        shown = [json.loads(line) for line in dry.out[-3:-1]]
        flat = [{"event": "gen_ai.evaluation.result", **one.pop("attributes"), **one} for one in shown]
        assert by_session(flat) == both(db)
        as_json = grade(sink.endpoint, "--send-dry-run", "--format", "json").out
        made = json.loads("\n".join(as_json))["sent"]
        number = len(made.pop("events"))
        counts = {"sent": 0, "sent_before": 0, "unsent": 2}
        assert (number, made) == (2, {"endpoint": sink.endpoint, **counts, "error": ""})
        assert sink.logs == []
    assert rows(db, "SELECT 1 FROM duckdb_tables() WHERE table_name = 'sent_scores'") == []


@pytest.mark.exhaustive
def test_run_sends_what_the_agent_did_with_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text("def answer(text):\n    return text\n")
    Path("golden.json").write_text('{"id": "a", "user_inputs": "hello", "required_texts": ["hello"]}')
    with http_sink() as sink:
        done = run("run", "agent.py:answer", "golden.json", "--send", sink.endpoint)
        got = {one["gen_ai.evaluation.name"]: one for one in sink.events()}
    assert (done.code, done.out[-1]) == (0, f"{len(got)} scores sent to {sink.endpoint}")
    one = got["required_texts"]
    assert (one["spangrade.question_id"], one["gen_ai.evaluation.score.label"]) == ("a", "pass")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["other.duckdb", "spangrade.duckdb"])
def test_a_receiver_of_ours_reads_them_as_scores_once(db: Path, name: str) -> None:
    if (other := db.with_name(name)) != db:
        add(other, [("good", OK), ("bad", BAD)])
    with receiver(other) as collecting:
        assert grade(collecting.http).out[-1] == f"2 scores sent to {collecting.http}"
        with Store.open(db, wait_s=10) as store:  # as if the answer had been lost
            store.query("UPDATE sent_scores SET sent_ns = NULL")
        assert grade(collecting.http).out[-1] == f"2 scores sent to {collecting.http}"
        collecting.stop()
    with package.open(other) as opened:
        read = {
            session.session_id: [
                (one.name, one.value, one.label, one.explanation, one.author, one.span_id)
                for one in session.recorded_scores
            ]
            for session in opened.sessions()
        }
    names = ("name", "score.value", "score.label", "explanation")
    assert read == {
        one["gen_ai.conversation.id"]: [
            (*(one[f"gen_ai.evaluation.{name}"] for name in (*names, "evaluator.name")), one["span_id"])
        ]
        for one in both(db)
    }


@pytest.mark.exhaustive
def test_a_judge_is_named_where_it_is_known(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "the-key")
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(db.with_name("judge.sqlite")))
    judge = f"gemini/{MODEL}"
    golden = {"id": "q", "user_inputs": ["hello"], "reference_response": "Good day!"}
    write_golden(db.with_name("golden.json"), golden)
    with gemini_standin() as gemini, http_sink() as sink:
        gemini.answer = lambda _: json.dumps({"reason": "close", "score": 4})
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        asked = ("--metric", "goal_reached@judge", "--metric", GATE, "--judge-model", judge)
        run("grade", "golden.json", *asked, "--send", sink.endpoint)
        found = {
            one["gen_ai.evaluation.name"]: (
                one.get("gen_ai.evaluation.evaluator.type"),
                one.get("spangrade.judge"),
                one["spangrade.question_id"],
            )
            for one in sink.events()
        }
    assert found == {
        "agent_routing": ("deterministic", None, "q"),
        "turns_answered": ("deterministic", None, "q"),
        "goal_reached@judge": ("llm_judge", judge, "q"),
        "final_response_match": (None, None, "q"),
        "tool_success_rate": ("deterministic", None, "q"),
    }


def test_a_deleted_session_leaves_nothing_of_what_was_sent(db: Path) -> None:
    with http_sink() as sink:
        grade(sink.endpoint)
    assert run("delete", "--session", "bad").code == 0
    assert rows(db, SENT) == [("good", "tool_success_rate", True)]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("--send", "collector:4318"), URLS),
        (("--send", "http://me:key@host"), URLS),
        (("--send", "phoenix+http://host:x"), URLS),
        (("--send", "zipkin+http://host"), URLS),
        (("--send-dry-run",), "--send-dry-run: expected --send, too"),
        (("--send", "http://host", "--dry-run"), "--send: expected it without --dry-run"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_graded(
    db: Path, given: tuple[str, ...], problem: str
) -> None:
    refused = run("grade", "--metric", GATE, *given)
    assert (refused.code, refused.out) == (2, [])
    assert refused.err[0].startswith(f"spangrade: {problem}")
    assert rows(db, "SELECT 1 FROM runs") == []
