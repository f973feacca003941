"""Verdicts over OTLP, as a stock sink receives them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from otlp_sessions import Said
from receiving import receiver
from sinks import Sink, grpc_sink, http_sink
from watching import ALL, BAD, GATE, LATER, MINUTE, OK, Clock, add, prepared_by, rows, verdicts

from spangrade import InputError, __version__
from spangrade.evaluator.apps.server.grade.telemetry import Telemetry
from spangrade.evaluator.apps.server.grade.watch import Watch

PROTOCOLS = {"http/protobuf": http_sink, "grpc": grpc_sink}


@pytest.fixture(params=PROTOCOLS)
def sink(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sink:
    opened: Callable[[], AbstractContextManager[Sink]] = PROTOCOLS[request.param]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", request.param)
    with opened() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.endpoint)
        yield running


def watch(db: Path, clock: Clock) -> Watch:
    gates = prepared_by(gates=[GATE, "token_usage"])
    return Watch(db, gates, ALL, telemetry=Telemetry(), clock=clock, steady=clock)


@pytest.mark.short_form("sink", 2)
def test_outcomes_are_events_on_the_span_that_the_evidence_names(tmp_path: Path, sink: Sink) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("good", OK), ("bad", BAD), ("quiet", (Said("hello"),))])
    watching = watch(db, clock)
    watching.round()
    watching.close()
    ((failed_trace, failed_span),) = rows(db, "SELECT trace_id, span_id FROM spans WHERE status = 'ERROR'")
    agents = dict(rows(db, "SELECT session_id, (trace_id, span_id) FROM trajectory WHERE kind = 'agent'"))
    ((run_id,),) = rows(db, "SELECT run_id FROM runs")
    gate = {
        "event": "gen_ai.evaluation.result",
        "gen_ai.evaluation.name": "tool_success_rate",
        "gen_ai.evaluation.evaluator.name": "spangrade",
        "gen_ai.evaluation.evaluator.version": __version__,
        "gen_ai.evaluation.evaluator.type": "deterministic",
        "spangrade.run_id": run_id,
    }
    events = {
        one["gen_ai.conversation.id"]: one
        for one in sink.events()
        if one["gen_ai.evaluation.name"] == "tool_success_rate"
    }
    assert events == {
        "good": {
            "trace_id": agents["good"][0],
            "span_id": agents["good"][1],
            **gate,
            "gen_ai.evaluation.score.value": 1.0,
            "gen_ai.evaluation.score.label": "pass",
            "gen_ai.evaluation.explanation": "no call failed",
            "gen_ai.conversation.id": "good",
            "spangrade.verdict": "passed",
        },
        "bad": {
            "trace_id": failed_trace,
            "span_id": failed_span,
            **gate,
            "gen_ai.evaluation.score.value": 0.0,
            "gen_ai.evaluation.score.label": "fail",
            "gen_ai.evaluation.explanation": "failed: lookup",
            "gen_ai.conversation.id": "bad",
            "spangrade.verdict": "failed",
        },
        "quiet": {
            "trace_id": agents["quiet"][0],
            "span_id": agents["quiet"][1],
            **gate,
            "gen_ai.evaluation.score.label": "inconclusive",
            "gen_ai.evaluation.explanation": "no tool call is recorded; if a tool ran, record it with a span",
            "gen_ai.conversation.id": "quiet",
            "spangrade.verdict": "inconclusive",
        },
    }
    assert {record.time_unix_nano for record in sink.logs} == {LATER}
    names = sorted(one["gen_ai.evaluation.name"] for one in sink.events())
    assert names == ["token_usage"] * 3 + ["tool_success_rate"] * 3
    assert (sink.scopes, sink.services) == ({"spangrade.watch"}, {"spangrade"})


@pytest.mark.exhaustive
def test_metrics_count_all_sessions_since_the_first_whatever_happened_to_the_process(
    tmp_path: Path, sink: Sink
) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("good", OK), ("bad", BAD)])
    watch(db, clock).round()
    add(db, [("later", OK)], start_ns=LATER)
    clock.now_ns += 60 * MINUTE
    watch(db, clock).round()
    sessions = sink.points("spangrade.sessions")
    assert {verdict: point.as_int for verdict, point in sessions.items()} == {"passed": 2, "failed": 1}
    assert {point.start_time_unix_nano for point in sessions.values()} == {LATER}
    assert sink.metrics["spangrade.sessions"].sum.is_monotonic
    score = sink.points("spangrade.score")["tool_success_rate"]
    assert (score.count, score.sum, score.min, score.max) == (3, 2.0, 0.0, 1.0)
    assert list(score.bucket_counts) == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]
    assert (sink.points("spangrade.latency")[""].count, sink.points("spangrade.cost")[""].count) == (3, 3)
    ((cost,),) = rows(db, "SELECT sum(cost_usd) FROM sessions")
    assert sink.points("spangrade.cost")[""].sum == pytest.approx(cost)


@pytest.mark.exhaustive
def test_what_the_sink_refused_is_sent_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD)])
    with http_sink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        sink.accepting = False
        assert str(watch(db, clock).round()) == "1 session graded: 1 failed; otlp: 1 unsent"
        sink.accepting = True
        clock.now_ns += MINUTE
        assert str(watch(db, clock).round()) == "0 sessions graded"
    assert len(sink.logs) == 2
    assert sink.points("spangrade.sessions")["failed"].as_int == 1


@pytest.mark.exhaustive
def test_events_that_come_back_are_neither_graded_nor_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD)])
    before = None
    with receiver(db) as collecting:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", f"{collecting.http}/v1/logs")
        with http_sink() as sink:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
            watching = watch(db, clock)
            watching.round()
            before = rows_when_free(db)
            collecting.stop()
    assert rows(db, "SELECT count(*) FROM logs WHERE event_name = 'gen_ai.evaluation.result'") == [(2,)]
    clock.now_ns += 60 * MINUTE
    with http_sink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        monkeypatch.delenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
        watch(db, clock).round()
    assert sink.logs == []
    assert verdicts(db) == [("bad", "failed")]
    assert rows(db, "SELECT * EXCLUDE batch FROM derived.sessions") == before
    assert rows(db, "SELECT DISTINCT run_id IS NULL FROM scores") == [(False,)]


def rows_when_free(db: Path) -> list[tuple[object, ...]]:
    from spangrade.tracer.store import Store

    with Store.open(db, read_only=True, wait_s=10) as store:
        return store.query("SELECT * EXCLUDE batch FROM derived.sessions")


def test_an_unknown_protocol_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json")
    with pytest.raises(InputError, match=r"^OTEL_EXPORTER_OTLP_METRICS_PROTOCOL is 'http/json': use grpc or"):
        Telemetry()
