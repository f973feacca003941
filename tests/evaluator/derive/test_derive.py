"""Derivation: whole sessions from spans, whatever the order and the portions in which they arrive."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import builders
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_once import new_store
from paths import SAMPLE
from short_form import examples

from spangrade.evaluator.derive import load, stale, update
from spangrade.evaluator.derive.sync.update import forget
from spangrade.evaluator.session import Session, Usage
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem, Span

SECOND = 10**9


def span(
    trace: str, number: int, parent: int | None, name: str, start: float, end: float, **changes: object
) -> Span:
    made = Span(
        trace.ljust(32, "0"),
        f"{number:016x}",
        None if parent is None else f"{parent:016x}",
        name,
        "INTERNAL",
        int(start * SECOND),
        int(end * SECOND),
    )
    return made._replace(**changes)


def agent(
    trace: str, number: int, parent: int | None, name: str, start: float, end: float, **more: object
) -> Span:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name, **more}
    return span(trace, number, parent, f"invoke_agent {name}", start, end, attributes=attributes)


def tool(
    trace: str, number: int, parent: int | None, name: str, start: float, end: float, **more: object
) -> Span:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **more}
    return span(trace, number, parent, f"execute_tool {name}", start, end, attributes=attributes)


def chat(trace: str, number: int, parent: int | None, start: float, end: float, **more: object) -> Span:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "scripted", **more}
    return span(trace, number, parent, "chat scripted", start, end, attributes=attributes)


def derived(records: list[Span | LogRecord], db: Path) -> list[Session]:
    with new_store(db) as store:
        store.add(records)
        update(store)
        return list(load(store))


def recorded() -> list[Span | LogRecord]:
    return [record for record in read(SAMPLE / "spans.otlp.jsonl") if not isinstance(record, Problem)]


@cache
def derived_recording() -> list[Session]:
    with TemporaryDirectory() as folder:
        return derived(recorded(), Path(folder) / "s.duckdb")


def test_a_small_session_whole(tmp_path: Path) -> None:
    said = '[{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]'
    answer = '[{"role": "assistant", "parts": [{"type": "text", "content": "hi"}]}]'
    spans = [
        agent("a", 1, None, "greeter", 0, 4, **{"gen_ai.conversation.id": "c1"}),
        chat(
            "a",
            2,
            1,
            1,
            3,
            **{
                "gen_ai.input.messages": said,
                "gen_ai.output.messages": answer,
                "gen_ai.usage.input_tokens": 5,
                "gen_ai.usage.output_tokens": 2,
            },
        ),
        tool("a", 3, 1, "wave", 3, 3.5, **{"gen_ai.tool.call.arguments": '{"b": 1.0, "a": null}'}),
    ]
    trace = "a".ljust(32, "0")
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert (session.session_id, session.session_id_source) == ("c1", "conversation")
    wave = {"start_ns": 3 * SECOND, "trace_id": trace, "span_id": f"{3:016x}"}
    assert session.turns == (
        builders.turn(1, "hello", final_response="hi", end_ns=4 * SECOND, latency_s=4.0, trace_ids=(trace,)),
    )
    assert session.trajectory == (
        builders.step("greeter", "agent", position=1, turn=1, trace_id=trace, span_id=f"{1:016x}"),
        builders.step("wave", position=2, turn=1, **wave),
    )
    assert session.tool_interactions == (
        builders.tool(
            "wave",
            {"a": None, "b": 1},
            position=1,
            ok=None,
            agent="greeter",
            end_ns=int(3.5 * SECOND),
            latency_s=0.5,
            **wave,
        ),
    )
    assert session.llm_calls == (
        builders.llm(
            "scripted",
            (5, 2),
            position=1,
            agent="greeter",
            cached_input_tokens=None,
            reasoning_tokens=None,
            cost_usd=None,
            context_window=None,
            start_ns=1 * SECOND,
            end_ns=3 * SECOND,
            latency_s=2.0,
            trace_id=trace,
            span_id=f"{2:016x}",
        ),
    )
    assert session.usage == Usage(llm_calls=1, input_tokens=5, output_tokens=2, complete=True)
    assert (session.cost_usd, session.cost_unknown) == (None, "scripted")
    assert (session.latency.llm_s, session.latency.tool_s, session.latency.framework_s) == (2.0, 0.5, 1.5)


def test_the_conversation_id_nearest_the_root_is_the_sessions(tmp_path: Path) -> None:
    spans = [
        span("a", 1, None, "POST /chat", 0, 9),
        agent("a", 2, 1, "outer", 0, 9, **{"gen_ai.conversation.id": "outer"}),
        agent("a", 3, 2, "inner", 0, 5, **{"gen_ai.conversation.id": "its-own"}),
    ]
    assert [s.session_id for s in derived([*spans], tmp_path / "s.duckdb")] == ["outer"]


def test_a_trace_without_a_conversation_id_is_a_session_marked_as_such(tmp_path: Path) -> None:
    (session,) = derived([agent("ab", 1, None, "x", 0, 1)], tmp_path / "s.duckdb")
    assert (session.session_id, session.session_id_source) == ("ab".ljust(32, "0"), "trace")


def test_parallel_tools_count_once_and_a_model_call_without_what_it_encloses(tmp_path: Path) -> None:
    spans = [
        agent("a", 1, None, "x", 0, 10),
        chat("a", 2, 1, 0, 10),
        tool("a", 3, 2, "one", 2, 6),
        tool("a", 4, 2, "two", 3, 7),
    ]
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert (session.latency.llm_s, session.latency.tool_s, session.latency.framework_s) == (5.0, 5.0, 0.0)


def test_a_model_call_that_two_nested_spans_record_counts_once(tmp_path: Path) -> None:
    usage = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 1}
    inner = {**usage, "gen_ai.usage.cache_read.input_tokens": 4}
    spans = [agent("a", 1, None, "x", 0, 9), chat("a", 2, 1, 1, 5, **usage), chat("a", 3, 2, 2, 4, **inner)]
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert session.usage == Usage(
        llm_calls=1, input_tokens=10, output_tokens=1, cached_input_tokens=4, complete=True
    )


@pytest.mark.parametrize(
    "result",
    [
        '{"status": "error", "error_message": "too much"}',
        '{"error": "too much"}',
        '{"isError": true, "message": "too much"}',
    ],
)
def test_a_tool_failed_if_its_result_reports_an_error(result: str, tmp_path: Path) -> None:
    spans = [
        agent("a", 1, None, "x", 0, 9),
        tool("a", 2, 1, "pay", 1, 2, **{"gen_ai.tool.call.result": result}),
    ]
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert [(t.ok, t.error) for t in session.tool_interactions] == [(False, "too much")]
    assert [(e.where, e.message) for e in session.errors] == [("tool pay", "too much")]


def test_an_exception_that_passes_through_spans_is_one_error(tmp_path: Path) -> None:
    failed = {"status": "ERROR", "status_message": "ValueError: no"}
    raised = [{"name": "exception", "time_ns": 1, "attributes": {"exception.message": "no"}}]
    spans = [
        agent("a", 1, None, "x", 0, 9)._replace(**failed, events=raised),
        tool("a", 2, 1, "pay", 1, 2)._replace(**failed, events=raised),
    ]
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert [(e.where, e.message) for e in session.errors] == [("tool pay", "no")]


def test_spans_that_name_the_same_missing_parent_are_one_turn(tmp_path: Path) -> None:
    spans = [chat("a", 2, 1, 0, 2), tool("a", 3, 1, "t", 2, 3), chat("a", 4, 1, 3, 4)]
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert [(turn.turn, turn.latency_s) for turn in session.turns] == [(1, 4.0)]


def test_a_span_that_is_its_own_parent_is_a_root(tmp_path: Path) -> None:
    (session,) = derived([agent("a", 1, 1, "x", 0, 1)], tmp_path / "s.duckdb")
    assert session.agents == ("x",)


def test_spans_that_are_each_others_parents_are_kept(tmp_path: Path) -> None:
    (session,) = derived([agent("a", 1, 2, "x", 0, 1), agent("a", 2, 1, "y", 0, 1)], tmp_path / "s.duckdb")
    assert sorted(session.agents or ()) == ["x", "y"]


def test_the_last_write_of_a_state_variable_wins_over_a_span_that_ends_later(tmp_path: Path) -> None:
    write = {"name": "spangrade.state", "time_ns": 5 * SECOND, "attributes": {"spangrade.state": '{"x": 1}'}}
    again = {
        "name": "spangrade.state",
        "time_ns": 6 * SECOND,
        "attributes": {"spangrade.state": '{"x": 2, "y": null}'},
    }
    spans = [
        agent("a", 1, None, "x", 0, 9)._replace(events=[write]),
        tool("a", 2, 1, "t", 5, 7)._replace(events=[again]),
    ]
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert session.state_variables == {"x": 2, "y": None}


def test_a_span_that_arrives_late_changes_only_its_session(tmp_path: Path) -> None:
    spans = recorded()
    late = next(s for s in spans if isinstance(s, Span) and s.name.startswith("execute_tool"))
    with new_store(tmp_path / "s.duckdb") as store:
        store.add(spans)
        update(store)
        whole = list(load(store))
    with new_store(tmp_path / "t.duckdb") as store:
        store.add(s for s in spans if s is not late)
        update(store)
        assert sorted(load(store), key=lambda s: s.session_id) != sorted(whole, key=lambda s: s.session_id)
        store.add([late])
        assert stale(store)
        assert update(store) == 1
        assert update(store) == 0
        assert not stale(store)
        assert sorted(load(store), key=lambda s: s.session_id) == sorted(whole, key=lambda s: s.session_id)


def test_a_root_that_arrives_late_moves_its_trace_to_the_conversation(tmp_path: Path) -> None:
    root = agent("a", 1, None, "x", 0, 9, **{"gen_ai.conversation.id": "c"})
    with new_store(tmp_path / "s.duckdb") as store:
        store.add([tool("a", 2, 1, "t", 1, 2)])
        update(store)
        assert [s.session_id for s in load(store)] == ["a".ljust(32, "0")]
        store.add([root])
        update(store)
        assert [(s.session_id, s.agents) for s in load(store)] == [("c", ("x",))]


def test_what_was_derived_in_another_way_is_derived_again(tmp_path: Path) -> None:
    with new_store(tmp_path / "s.duckdb") as store:
        store.add(recorded())
        update(store)
        before = list(load(store))
        store.query("UPDATE derived.progress SET fingerprint = 'another'")
        assert stale(store)
        assert update(store) == len(before)
        assert list(load(store)) == before
        forget(store)
        assert update(store) == len(before)


@pytest.mark.exhaustive
@settings(max_examples=examples(8))  # each makes a database
@given(seed=st.integers(0, 2**32), portions=st.integers(1, 6))
def test_order_portions_and_repeats_make_no_difference(
    seed: int, portions: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    order = random.Random(seed)
    spans = recorded()
    expected = derived_recording()
    shuffled = [*spans, *order.sample(spans, len(spans) // 3)]
    order.shuffle(shuffled)
    with new_store(tmp_path_factory.mktemp("parts") / "s.duckdb") as store:
        for part in range(portions):
            store.add(shuffled[part::portions])
            update(store)
        actual = list(load(store))
    assert sorted(actual, key=lambda s: s.session_id) == sorted(expected, key=lambda s: s.session_id)


@pytest.mark.parametrize(
    ("state", "sampled", "ratio"),
    [
        ("ot=th:c", True, None),
        ("a=b,ot=p:8;th:08", True, None),
        ("ot=th:0", False, None),
        ("a=b", False, None),
        ("a=b,spangrade=partial", True, None),
        ("spangrade=conversation:0.25,a=b", False, 0.25),
        ("a=b, spangrade=conversation:5e-05", False, 5e-05),
        ("spangrade=conversation:9,a=b", False, None),
        ("xspangrade=partial", False, None),
    ],
)
@pytest.mark.short_form("state", 2)
def test_a_session_whose_traces_were_sampled_is_marked(
    state: str, sampled: bool, ratio: float | None, tmp_path: Path
) -> None:
    (session,) = derived([agent("a", 1, None, "x", 0, 1)._replace(trace_state=state)], tmp_path / "s.duckdb")
    assert (session.sampled, session.sample_ratio) == (sampled, ratio)


@pytest.mark.parametrize(
    ("attributes", "resource", "version"),
    [
        ({"gen_ai.agent.version": "7"}, {"service.version": "1.4.2"}, "7"),
        ({}, {"service.version": "1.4.2"}, "1.4.2"),
        ({}, {}, None),
    ],
)
def test_the_version_of_the_first_agent_is_the_sessions(
    attributes: dict[str, object], resource: dict[str, str], version: str | None, tmp_path: Path
) -> None:
    spans = [
        span("a", 1, None, "POST /chat", 0, 9)._replace(resource={"service.version": "web"}),
        agent("a", 2, 1, "outer", 1, 9, **attributes)._replace(resource=resource),
        agent("a", 3, 2, "inner", 2, 5, **{"gen_ai.agent.version": "8"} if version else {}),
    ]
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert session.agent_version == version


def test_the_version_that_only_a_model_call_records_is_the_sessions(tmp_path: Path) -> None:
    call = chat("a", 2, 1, 1, 2, **{"gen_ai.agent.version": "7"})
    (session,) = derived([agent("a", 1, None, "x", 0, 3), call], tmp_path / "s.duckdb")
    assert session.agent_version == "7"


def test_a_session_has_the_user_and_the_tags_that_its_spans_record(tmp_path: Path) -> None:
    spans = [
        agent("a", 1, None, "shop", 0, 1, **{"user.id": "u-1", "spangrade.tags": ["beta", "vip"]}),
        agent("a", 2, None, "shop", 2, 3, **{"user.id": "u-2", "spangrade.tags": ["beta", "slow"]}),
    ]
    (session,) = derived([*spans], tmp_path / "s.duckdb")
    assert (session.user_id, session.tags) == ("u-1", ("beta", "vip", "slow"))


def test_a_session_without_a_user_and_tags_has_none(tmp_path: Path) -> None:
    (session,) = derived([agent("a", 1, None, "shop", 0, 1)], tmp_path / "s.duckdb")
    assert (session.user_id, session.tags) == (None, None)
