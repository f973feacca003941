"""Failing sessions for a webhook: at least once, signed, whatever the receiver or the process does."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command_line import run
from otlp_sessions import START_NS
from sinks import Hook, hook, raw_server
from standardwebhooks import Webhook as Verifier
from watching import ALL, BAD, GATE, LATER, MINUTE, OK, Clock, add, prepared_by, rows

import spangrade
from spangrade import InputError
from spangrade.evaluator.apps.server.grade.deliveries import (
    FOREIGN,
    KEY_VARIABLE,
    RETRY_AFTER_S,
    Delivery,
    outbox_key,
)
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.grade.watch import Watch
from spangrade.evaluator.apps.server.grade.webhook import SECRET_VARIABLE, Webhook, secret_from_environment

SECRET = b"0123456789abcdef"


def watch(db: Path, clock: Clock, to: Hook, gate: str = GATE) -> Watch:
    webhook = Webhook(to.url, SECRET, pause_s=0.0)
    return Watch(db, prepared_by(gates=gate), ALL, webhook=webhook, clock=clock, steady=clock)


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


@pytest.mark.exhaustive
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
        add(db, [("bad", (*OK, *BAD))])
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


@pytest.mark.exhaustive
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
    with pytest.raises(InputError, match=r"expected a URL with http or https, found 'ftp'$"):
        Webhook("ftp://x?token=hidden", SECRET)
    assert START_NS


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("asked", "wait_s"),
    [
        ("999999999999", 86_400),
        ("9" * 400, 86_400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        ("Thu, 01 Jan 2026 19:10:00 GMT", 600),
        ("-600", RETRY_AFTER_S[0]),
        ("Mon, 01 Jan 0001 00:00:00 +2359", RETRY_AFTER_S[0]),
        ("²", RETRY_AFTER_S[0]),
        ("1e9", RETRY_AFTER_S[0]),
    ],
)
@pytest.mark.short_form("asked", 4)
@pytest.mark.short_form("wait_s", 2)
def test_what_is_accepted_is_not_sent_again_however_long_the_next_answer_asks_to_wait(
    tmp_path: Path, asked: str, wait_s: int
) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD), ("worse", BAD)])
    with hook(lambda number: 204 if number == 1 else 400) as receiving:
        receiving.answer_headers = {"Retry-After": asked.encode().decode("latin-1")}
        watching = watch(db, clock, receiving)
        watching.round()
        watch(db, clock, receiving).round()
        assert len(receiving.requests) == 2
    ((next_ns, error),) = rows(db, "SELECT next_ns, last_error FROM deliveries")
    assert next_ns - clock.now_ns == wait_s * 10**9
    assert ("it asks to wait for more than a day" in error) == (wait_s == 86_400)


def _endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65_536)


def _bomb(connection: socket.socket) -> None:
    bomb = gzip.compress(bytes(20_000_000))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    connection.sendall(head.encode() + bomb)


def _slow(connection: socket.socket) -> None:
    for letter in b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1_000:
        connection.sendall(bytes([letter]))
        connection.settimeout(0.2)
        with suppress(TimeoutError):
            connection.recv(1)


def _endless_header(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        connection.sendall(b"x" * 65_536)


ANSWERS: dict[str, tuple[Callable[[socket.socket], object], str]] = {
    "a body that never ends": (_endless, ""),
    "a gzip bomb": (_bomb, ""),
    "one byte at a time": (_slow, "no answer within 3 s"),
    "a header that never ends": (_endless_header, "RemoteProtocolError: cannot be reached"),
    "a redirect to itself": (
        lambda connection: connection.sendall(
            b"HTTP/1.1 307 x\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n"
        ),
        "answered 307 Temporary Redirect",
    ),
    "no HTTP": (lambda connection: connection.sendall(bytes(range(256)) * 9), "cannot be reached"),
    "an unknown status with words of its own": (
        lambda connection: connection.sendall(b"HTTP/1.1 699 \x1b[31mred\r\nContent-Length: 0\r\n\r\n"),
        "answered 699",
    ),
    "nothing": (lambda connection: connection.close(), "cannot be reached"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_no_answer_stops_watch_or_holds_it_up(name: str) -> None:
    answer, expected = ANSWERS[name]
    began = time.monotonic()
    with raw_server(answer) as url:
        webhook = Webhook(url, SECRET, pause_s=0.0, deadline_s=3.0)
        outcome = webhook.send(Delivery("msg_1", "webhook", "bad", "{}"), LATER)
        webhook.close()
    assert time.monotonic() - began < 10
    assert outcome.error.endswith(expected)
    assert bool(outcome.error) == bool(expected)
    assert "hidden" not in outcome.error


def test_no_log_shows_more_of_the_url_than_its_host(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with hook() as receiving:
        webhook = Webhook(receiving.url, SECRET, pause_s=0.0)
        assert webhook.send(Delivery("msg_1", "webhook", "bad", "{}"), LATER).error == ""
    assert "cannot be reached" in webhook.send(Delivery("msg_1", "webhook", "bad", "{}"), LATER).error
    webhook.close()
    assert "127.0.0.1" in caplog.text
    assert "hidden" not in caplog.text
    assert "/hook" not in caplog.text


def test_the_url_comes_from_a_file_and_on_the_command_line_it_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, file = tmp_path / "s.duckdb", tmp_path / "webhook"
    add(db, [("bad", BAD)])
    monkeypatch.setenv(SECRET_VARIABLE, "secret")
    with hook() as receiving:
        file.write_text(f"{receiving.url}\n")
        common = (
            "serve",
            "--only",
            "grade",
            "--db",
            db,
            "--metric",
            GATE,
            "--once",
            "--idle",
            "0s",
            "--notify-since",
            "1970-01-01",
        )
        quiet = run(*common, "--webhook-file", file)
        both = run(*common, "--webhook", receiving.url, "--webhook-file", file)
        assert len(receiving.applied) == 1
    file.write_text("two\nlines")
    lines = run(*common, "--webhook-file", file)
    assert (quiet.code, quiet.err) == (0, [])
    assert (both.code, both.err) == (2, ["spangrade: webhook and webhook_file: give one of them"])
    assert (lines.code, lines.err) == (2, [f"spangrade: {file}: expected one line with the value of webhook"])


def test_what_another_installation_wrote_is_not_signed_and_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("bad", BAD)])
    with hook(lambda _: 500) as receiving:
        watch(db, clock, receiving).round()
        with duckdb.connect(str(db)) as connection:
            planted = "SELECT * REPLACE ('planted' AS id, '{}' AS body, 0 AS attempts, 0 AS next_ns)"
            connection.execute(f"INSERT INTO deliveries {planted} FROM deliveries")
        receiving.status = lambda _: 204
        clock.now_ns += 60 * MINUTE
        assert str(watch(db, clock, receiving).round()).endswith("; webhook: 1 given up")
        assert [body["type"] for body in receiving.applied.values()] == ["session.failed"]
        assert rows(db, "SELECT id, next_ns FROM deliveries") == [("planted", None)]
        assert f"1 message for webhook (bad …) {FOREIGN}" in caplog.text
        add(db, [("worse", BAD)])
        receiving.status = lambda _: 500
        clock.now_ns += 60 * MINUTE
        watch(db, clock, receiving).round()
        monkeypatch.setenv(KEY_VARIABLE, "of another installation")
        clock.now_ns += 60 * MINUTE
        number = len(receiving.requests)
        watch(db, clock, receiving).round()
        assert len(receiving.requests) == number


def test_the_key_of_the_installation_is_in_a_file_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    key = outbox_key()
    file = tmp_path / "spangrade" / "outbox.key"
    assert (len(key), outbox_key(), file.read_bytes()) == (32, key, key)
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b"")  # its writer was killed
    assert (len(outbox_key()), outbox_key()) == (32, file.read_bytes())
    file.write_bytes(b"cut")
    with pytest.raises(InputError, match="expected 32 bytes, found 3"):
        outbox_key()


def test_nothing_is_sent_of_what_ended_before_the_first_start(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)

    def started(to: Hook) -> Watch:
        webhook = Webhook(to.url, SECRET, pause_s=0.0)
        return Watch(db, prepared_by(gates=GATE), webhook=webhook, clock=clock, steady=clock)

    with hook() as receiving:
        add(db, [("before", BAD)])
        first = started(receiving)
        assert str(first.round()) == "1 session graded: 1 failed"
        assert receiving.requests == []
        clock.now_ns += 60 * MINUTE
        add(db, [("before", BAD), ("between", BAD)], start_ns=clock.now_ns - 30 * MINUTE)
        after_a_stop = started(receiving)
        assert str(after_a_stop.round()) == "2 sessions graded: 2 failed"
        sent = [json.loads(body)["data"]["session_id"] for _, body in receiving.requests]
    assert sorted(sent) == ["before", "between"]  # the first goes on, so that it ends after the start
