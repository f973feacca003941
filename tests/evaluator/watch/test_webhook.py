"""Failing sessions for a webhook: at least once, signed, whatever the receiver or the process does."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from otlp_sessions import START_NS
from sinks import Hook, hook
from standardwebhooks import Webhook as Verifier
from watching import BAD, GATE, LATER, MINUTE, OK, Clock, add, prepared_by, rows

import spangrade
from spangrade.evaluator.watch.deliveries import RETRY_AFTER_S
from spangrade.evaluator.watch.options import WatchOptions
from spangrade.evaluator.watch.watch import Watch
from spangrade.evaluator.watch.webhook import SECRET_VARIABLE, Webhook, secret_from_environment
from spangrade.tracer.errors import InputError

SECRET = b"0123456789abcdef"


def watch(db: Path, clock: Clock, to: Hook, gate: str = GATE) -> Watch:
    webhook = Webhook(to.url, SECRET, pause_s=0.0)
    return Watch(db, prepared_by(gates=gate), webhook=webhook, clock=clock)


def test_a_session_that_failed_is_sent_with_a_signature_that_others_verify(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("good", OK), ("bad", BAD)])
    with hook() as receiving:
        watch(db, clock, receiving).round()
    ((headers, body),) = receiving.requests
    verifier = Verifier(base64.b64encode(SECRET).decode())
    signed = {**headers, "webhook-signature": headers["webhook-signature"]}
    with pytest.raises(Exception, match="timestamp too"):  # the test's clock is not the verifier's
        verifier.verify(body, signed)
    expected = verifier.sign(headers["webhook-id"], _time(headers), body.decode())
    assert headers["webhook-signature"] == expected
    ((run_id,),) = rows(db, "SELECT run_id FROM runs")
    ((trace_id,),) = rows(db, "SELECT trace_id FROM derived.traces WHERE session_id = 'bad'")
    ((span_id,),) = rows(db, "SELECT span_id FROM spans WHERE status = 'ERROR'")
    assert json.loads(body) == {
        "type": "session.failed",
        "timestamp": "2026-01-01T19:00:00+00:00",
        "data": {
            "session_id": "bad",
            "question_id": None,
            "verdict": "failed",
            "reason": "tool_success_rate: 0, expected >= 1: failed: lookup",
            "run_id": run_id,
            "started_at": "2026-01-01T09:16:40+00:00",
            "agents": ["shop"],
            "trace_ids": [trace_id],
            "failed": [
                {
                    "metric": "tool_success_rate",
                    "value": 0.0,
                    "expected": ">= 1",
                    "reason": "failed: lookup",
                    "span_ids": [span_id],
                }
            ],
        },
    }
    assert rows(db, "SELECT count(*) FROM deliveries") == [(0,)]


def _time(headers: dict[str, str]) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)


def test_the_id_is_that_of_session_content_and_gates(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD)])
    with hook() as receiving:
        watch(db, clock, receiving).round()
        (first,) = receiving.applied
        db.unlink()
        add(db, [("bad", BAD)])
        watch(db, clock, receiving).round()
        assert list(receiving.applied) == [first]
        watch(db, clock, receiving, "tool_success_rate>=0.5").round()
        add(db, [("bad", (*BAD, *OK))])
        clock.now_ns += 10 * MINUTE
        watch(db, clock, receiving).round()
    assert [body["data"]["session_id"] for body in receiving.applied.values()] == ["bad"] * 3


def test_a_failed_attempt_is_repeated_at_once_and_then_later(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD)])
    with hook(lambda number: 503 if number <= 4 else 200) as receiving:
        watching = watch(db, clock, receiving)
        assert str(watching.round()) == "1 session graded: 1 failed; webhook: 1 unsent"
        assert len(receiving.requests) == 3
        watching.round()
        assert len(receiving.requests) == 3  # the next attempt is not due
        assert rows(db, "SELECT attempts, last_error FROM deliveries") == [
            (1, f"{receiving.url.partition('/hook')[0]} answered 503 Service Unavailable")
        ]
        clock.now_ns += RETRY_AFTER_S[0] * 10**9
        watch(db, clock, receiving).round()  # after a restart
        assert len(receiving.requests) == 5
    assert len({headers["webhook-id"] for headers, _ in receiving.requests}) == 1
    assert len({body for _, body in receiving.requests}) == 1
    assert rows(db, "FROM deliveries") == []


def test_an_answer_that_was_lost_sends_the_same_id_again(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD)])
    with hook(lambda number: 599 if number == 1 else 200) as receiving:
        watch(db, clock, receiving).round()
    assert (len(receiving.requests), len(receiving.applied)) == (2, 1)


def test_retry_after_is_kept_and_410_ends_the_attempts(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD)])
    with hook(lambda number: 429 if number <= 3 else 410) as receiving:
        receiving.answer_headers = {"Retry-After": "600"}
        watching = watch(db, clock, receiving)
        watching.round()
        assert rows(db, "SELECT next_ns - $now FROM deliveries".replace("$now", str(clock.now_ns))) == [
            (600 * 10**9,)
        ]
        clock.now_ns += 600 * 10**9
        assert str(watching.round()).endswith("; webhook: 1 given up")
        clock.now_ns += 10**15
        watching.round()
        assert len(receiving.requests) == 4


def test_what_was_given_up_is_a_finding_of_lint(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD), ("worse", BAD)])
    with hook(lambda _: 500) as receiving:
        watching = watch(db, clock, receiving)
        for _ in range(len(RETRY_AFTER_S) + 2):
            summary = watching.round()
            clock.now_ns += RETRY_AFTER_S[-1] * 10**9
        assert str(summary).endswith("; webhook: 2 given up")
        assert len(receiving.requests) == 2 * 3 * (len(RETRY_AFTER_S) + 1)
    (finding,) = [one for one in spangrade.open(db).lint() if one.code == "not_delivered"]
    assert (finding.session_id, finding.count) == (None, 2)
    assert "hidden" not in finding.what


def test_a_receiver_that_cannot_be_reached_is_tried_once_in_a_look(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD), ("worse", BAD)])
    with hook() as receiving:
        pass
    watching = watch(db, clock, receiving)
    assert str(watching.round()).endswith("; webhook: 2 unsent")
    assert rows(db, "SELECT attempts FROM deliveries ORDER BY attempts") == [(0,), (1,)]
    ((error,),) = rows(db, "SELECT last_error FROM deliveries WHERE attempts = 1")
    assert "cannot be reached" in error
    assert "hidden" not in error


def test_deleting_a_session_deletes_its_message(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD)])
    with hook(lambda _: 500) as receiving:
        watching = watch(db, clock, receiving)
        watching.round()
        spangrade.open(db).delete("bad")
        clock.now_ns += 10**15
        receiving.status = lambda _: 200
        watching.round()
    assert receiving.applied == {}


@pytest.mark.parametrize(
    ("secret", "key"), [("any text", b"any text"), (f"whsec_{base64.b64encode(SECRET).decode()}", SECRET)]
)
def test_the_secret_is_text_or_base64(monkeypatch: pytest.MonkeyPatch, secret: str, key: bytes) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, secret)
    assert secret_from_environment() == key


def test_without_a_secret_or_a_url_nothing_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    with pytest.raises(InputError, match=f"^{SECRET_VARIABLE} is not set: it signs the messages"):
        spangrade.open(tmp_path / "s.duckdb").watch(
            gates=GATE, options=WatchOptions(webhook="http://127.0.0.1/", once=True)
        )
    monkeypatch.setenv(SECRET_VARIABLE, "whsec_???")
    with pytest.raises(InputError, match="expected base64 after whsec_"):
        secret_from_environment()
    with pytest.raises(InputError, match="expected a URL with http or https, found 'ftp://x'"):
        Webhook("ftp://x", SECRET)
    assert START_NS
