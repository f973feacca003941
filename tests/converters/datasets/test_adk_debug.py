"""ADK's debug API: its list of spans and its session record."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from paths import CAPTURED, FIXTURES

from spangrade.converters.datasets.adk_debug import read_session, read_trace
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem, Span

SAVED = FIXTURES / "readers" / "adk.session.json"
captured = pytest.mark.skipif(not CAPTURED.exists(), reason="the captured sessions are not in this checkout")

TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
STORED = Span(
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    parent_span_id=None,
    name="call_llm",
    kind="INTERNAL",
    start_ns=10,
    end_ns=20,
    scope_name="gcp.vertex.agent",
)


def span(**changes: Any) -> dict[str, Any]:
    return {
        "name": "call_llm",
        "span_id": SPAN_ID,
        "trace_id": TRACE_ID,
        "start_time": 10,
        "end_time": 20,
        "attributes": {},
        "parent_span_id": None,
    } | changes


def spans_of(*records: Any) -> list[Span | Problem]:
    found = read_trace(list(records))
    assert found is not None
    return list(found)


NAMED = {"gen_ai.conversation.id": "s1", "spangrade.app_name": "shop"}


def log_of(**session: Any) -> LogRecord:
    found = read_session({"id": "s1", "appName": "shop", "events": [], "lastUpdateTime": 1.5} | session)
    assert found is not None
    [log] = found
    assert isinstance(log, LogRecord)
    return log


def test_a_span_keeps_what_adk_records_and_nothing_is_made_up() -> None:
    attributes = {"gen_ai.usage.input_tokens": 5, "finish": ["stop"], "nested": {"half \ud83d": math.nan}}
    assert spans_of(span(attributes=attributes, parent_span_id=1)) == [
        STORED._replace(
            parent_span_id="0000000000000001",
            attributes={
                "gen_ai.usage.input_tokens": 5,
                "finish": ["stop"],
                "nested": {"half \ufffd": "NaN"},
            },
        )
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"name": "call_llm"},
            "not a span; expected a JSON object with end_time, name, span_id, start_time, trace_id",
        ),
        (5, "not a span; expected a JSON object with end_time, name, span_id, start_time, trace_id"),
        (span(trace_id=0), "trace_id is not an integer of 128 bits, above zero"),
        (span(trace_id=1.2e37), "trace_id is not an integer of 128 bits, above zero"),
        (span(trace_id=2**128), "trace_id is not an integer of 128 bits, above zero"),
        (span(span_id=2**64), "span_id is not an integer of 64 bits, above zero"),
        (span(parent_span_id="x"), "parent_span_id is not an integer of 64 bits, above zero"),
        (span(end_time=None), "end_time is not an integer of nanoseconds since 1970"),
        (span(end_time=2**63), f"end_time is {2**63}; expected nanoseconds since 1970, below 2^63"),
        (span(name=5), "not a span; expected a text as its name and a JSON object as its attributes"),
        (span(attributes=[5]), "not a span; expected a text as its name and a JSON object as its attributes"),
        (span(attributes={"a": 2**64}), "an attribute is an integer beyond 64 bits"),
    ],
)
def test_a_span_that_cannot_be_read_is_a_problem_and_the_others_are_kept(record: Any, message: str) -> None:
    assert spans_of(span(), record, span()) == [STORED, Problem("[1]", message), STORED]


def test_an_odd_span_is_kept_unchanged_and_reported() -> None:
    assert spans_of(span(end_time=4)) == [
        STORED._replace(end_ns=4),
        Problem("[0]", "the span ends before it starts, by 6 ns; it is kept as it came", dropped=False),
    ]


def test_a_session_becomes_one_log_record_with_its_state() -> None:
    assert log_of(
        userId="u1", state={"cart": [1], "user:name": None}, lastUpdateTime=1768005066.677304
    ) == LogRecord(
        trace_id=None,
        span_id=None,
        time_ns=1768005066677304000,
        event_name="spangrade.session",
        attributes={
            "gen_ai.conversation.id": "s1",
            "user.id": "u1",
            "spangrade.app_name": "shop",
            "spangrade.state": {"cart": [1], "user:name": None},
        },
        scope_name="gcp.vertex.agent",
    )


def delta(**changes: Any) -> dict[str, Any]:
    return {"actions": {"stateDelta": changes}, "timestamp": 2.5}


@pytest.mark.parametrize(
    ("session", "state"),
    [
        ({"events": [delta(a=1, b=1), {}, {"actions": None}, delta(b=2)]}, {"a": 1, "b": 2}),
        ({"events": [{"actions": {"state_delta": {"a": 1}}}]}, {"a": 1}),
        ({"events": [delta(a=1)], "state": {"b": 2}}, {"b": 2}),
        ({"events": [5], "state": {"b": 2}}, {"b": 2}),
        ({"state": {}}, {}),
    ],
)
def test_the_state_is_the_last_that_was_recorded(session: dict[str, Any], state: dict[str, Any]) -> None:
    assert log_of(**session).attributes == {**NAMED, "spangrade.state": state}


@pytest.mark.parametrize(
    "session", [{}, {"events": [delta()]}, {"events": [{"actions": {}}]}, {"state": None}]
)
def test_a_session_without_state_has_no_state_attribute(session: dict[str, Any]) -> None:
    assert log_of(**session).attributes == NAMED


def test_snake_case_keys_make_the_same_session() -> None:
    snake = {"id": "s1", "app_name": "shop", "user_id": "u1", "events": [], "last_update_time": 1.5}
    assert list(read_session(snake) or ()) == [log_of(userId="u1")]


def test_a_session_without_an_update_time_has_the_time_of_its_last_event() -> None:
    events = [{"timestamp": 2.5}, {"timestamp": 3.25}]
    assert log_of(lastUpdateTime=None, events=events).time_ns == 3_250_000_000


def test_a_session_without_any_time_is_kept_and_reported() -> None:
    log, problem = read_session({"id": "s1", "appName": "shop", "events": []}) or ()
    assert log == log_of()._replace(time_ns=0)
    assert problem == Problem("", "the log record has no time; it is kept at 1970", dropped=False)


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ({"id": []}, "the session's id is not text"),
        ({"id": ""}, "the session's id is not text"),
        ({"state": "x"}, "the session's state is not a JSON object"),
        ({"events": [5]}, "a session whose events, actions or state deltas are not JSON objects"),
        ({"events": "x"}, "a session whose events, actions or state deltas are not JSON objects"),
        (
            {"events": [{"actions": 5}]},
            "a session whose events, actions or state deltas are not JSON objects",
        ),
        ({"lastUpdateTime": "x"}, "the session's lastUpdateTime is not a number of seconds since 1970"),
        ({"lastUpdateTime": math.nan}, "the session's lastUpdateTime is not a number of seconds since 1970"),
    ],
)
def test_a_session_that_cannot_be_read_is_a_problem(session: dict[str, Any], message: str) -> None:
    found = read_session({"id": "s1", "appName": "shop", "events": [], "lastUpdateTime": 1.5} | session)
    assert list(found or ()) == [Problem("", message)]


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        [5],
        [{}],
        [{"author": "shop"}],
        5,
        None,
        b"",
        {"id": "x", "events": []},
        {"appName": "x", "id": "y"},
    ],
)
def test_a_document_of_another_format_is_left_to_other_readers(document: Any) -> None:
    assert read_trace(document) is None
    assert read_session(document) is None


def test_a_session_that_adk_saved_is_found_by_its_content() -> None:
    saved = json.loads(SAVED.read_text())
    [log, *spans] = read(SAVED)
    assert {type(one) for one in spans} == {Span}
    assert isinstance(log, LogRecord)
    assert log.attributes["gen_ai.conversation.id"] == "6faf8bb7-3107-490d-8a26-a7fb25eabfa3"
    assert log.attributes["spangrade.state"] == saved["state"]


def test_a_pretty_printed_trace_is_found_by_its_content_with_every_digit_of_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(json.dumps([span(), span(span_id=1, parent_span_id=SPAN_ID), span(span_id=0)], indent=2))
    assert list(read(path)) == [
        STORED,
        STORED._replace(span_id="0000000000000001", parent_span_id="b7ad6b7169203331"),
        Problem(f"{path} [2]", "span_id is not an integer of 64 bits, above zero"),
    ]


@captured
def test_captured_traces_are_read_whole() -> None:
    for path in sorted(CAPTURED.glob("*/trace_*.json")):
        recorded, found = json.loads(path.read_text()), list(read(path))
        assert [
            (int(s.trace_id, 16), int(s.span_id, 16), s.name, s.attributes)
            for s in found
            if isinstance(s, Span)
        ] == [(s["trace_id"], s["span_id"], s["name"], s["attributes"]) for s in recorded]
        assert sum(s.parent_span_id is None for s in found if isinstance(s, Span)) == sum(
            s["parent_span_id"] is None for s in recorded
        )


@captured
def test_captured_sessions_bring_their_state() -> None:
    for path in sorted(CAPTURED.glob("*/session_*.json")):
        recorded, [log, *_] = json.loads(path.read_text()), read(path)
        assert isinstance(log, LogRecord)
        assert log.attributes == {
            "gen_ai.conversation.id": recorded["id"],
            "user.id": "eval_user",
            "spangrade.app_name": recorded["appName"],
            "spangrade.state": recorded["state"],
        }
