"""Linking: the traces of a conversation without an id, told by what was said in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_once import new_store
from short_form import examples

from spangrade.converters.spans.histories import conversation_digests
from spangrade.converters.spans.observation import Digests
from spangrade.evaluator.derive import load, update
from spangrade.tracer.span import Span

SECOND = 10**9


def says(role: str, content: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def call(
    trace: str,
    start: int,
    *said: str,
    answer: str | None,
    conversation: str | None = None,
    response_id: str | None = None,
) -> Span:
    """One trace of one model call: user and model in turn, and what the model answered."""
    messages = [says("assistant" if i % 2 else "user", text) for i, text in enumerate(said)]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "scripted",
        "gen_ai.input.messages": json.dumps([says("system", "be kind"), *messages]),
    }
    if answer is not None:
        attributes["gen_ai.output.messages"] = json.dumps([says("assistant", answer)])
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = conversation
    if response_id is not None:
        attributes["gen_ai.response.id"] = response_id
    return Span(
        trace.ljust(32, "0"),
        "1".zfill(16),
        None,
        "chat scripted",
        "CLIENT",
        start * SECOND,
        start * SECOND + SECOND // 2,
        status="OK" if answer is not None else "ERROR",
        attributes=attributes,
    )


def sessions(portions: Sequence[Sequence[Span]], db: Path) -> dict[str, list[str]]:
    """Derive after each portion; return each session's traces, both by the letters that they begin with."""
    with new_store(db) as store:
        for portion in portions:
            store.add(portion)
            update(store)
        return {
            found.session_id.rstrip("0"): sorted(
                {trace.rstrip("0") for turn in found.turns for trace in turn.trace_ids}
            )
            for found in load(store)
        }


FIRST = call("a", 1, "hi", answer="hello")
SECOND_CALL = call("b", 2, "hi", "hello", "a coat?", answer="which size?")
THIRD = call("c", 3, "hi", "hello", "a coat?", "which size?", "M", answer="done")


def test_a_conversation_of_one_trace_a_call_is_one_session_named_after_its_first(tmp_path: Path) -> None:
    with new_store(tmp_path / "s.duckdb") as store:
        store.add([FIRST, SECOND_CALL, THIRD])
        update(store)
        (session,) = load(store)
    assert (session.session_id, session.session_id_source) == (FIRST.trace_id, "trace")
    assert [(t.user_input, t.final_response) for t in session.turns] == [
        ("hi", "hello"),
        ("a coat?", "which size?"),
        ("M", "done"),
    ]


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
@pytest.mark.short_form("order", 6)
def test_a_trace_that_arrives_late_joins_its_conversation(order: str, tmp_path: Path) -> None:
    spans = {"a": FIRST, "b": SECOND_CALL, "c": THIRD}
    assert sessions([[spans[name]] for name in order], tmp_path / "s.duckdb") == {"a": ["a", "b", "c"]}


def test_a_lost_trace_leaves_the_rest_a_session_of_its_own(tmp_path: Path) -> None:
    assert sessions([[FIRST, THIRD]], tmp_path / "s.duckdb") == {"a": ["a"], "c": ["c"]}


def test_users_who_write_the_same_are_not_one(tmp_path: Path) -> None:
    twin = call("d", 1, "hi", answer="hello")
    other = call("e", 3, "hi", "hello", "a hat?", answer="no")
    found = {"a": ["a"], "d": ["d"], "b": ["b", "c"], "e": ["e"]}
    assert sessions([[FIRST, twin, SECOND_CALL, other, THIRD]], tmp_path / "one.duckdb") == found
    assert sessions([[FIRST, SECOND_CALL, THIRD], [twin, other]], tmp_path / "two.duckdb") == found


def test_an_opening_that_continues_in_two_ways_links_nothing(tmp_path: Path) -> None:
    other = call("e", 3, "hi", "hello", "a hat?", answer="no")
    found = {"a": ["a"], "b": ["b"], "e": ["e"]}
    assert sessions([[FIRST, SECOND_CALL, other]], tmp_path / "one.duckdb") == found
    assert sessions([[FIRST, SECOND_CALL], [other]], tmp_path / "two.duckdb") == found


def test_a_request_that_is_repeated_belongs_to_the_conversation(tmp_path: Path) -> None:
    failed = call("f", 2, "hi", "hello", "a coat?", answer=None)
    later = SECOND_CALL._replace(start_ns=SECOND_CALL.start_ns + 1)
    assert sessions([[later, FIRST], [failed, THIRD]], tmp_path / "s.duckdb") == {"a": ["a", "b", "c", "f"]}


def test_two_answers_to_one_request_lead_back_to_one_conversation(tmp_path: Path) -> None:
    again = SECOND_CALL._replace(trace_id="e".ljust(32, "0"), start_ns=SECOND_CALL.start_ns + 1)
    assert sessions([[FIRST, SECOND_CALL, again, THIRD]], tmp_path / "s.duckdb") == {
        "a": ["a", "b", "c", "e"]
    }


def test_only_an_earlier_trace_can_be_continued(tmp_path: Path) -> None:
    late = FIRST._replace(start_ns=9 * SECOND, end_ns=10 * SECOND)
    assert sessions([[late, SECOND_CALL]], tmp_path / "s.duckdb") == {"a": ["a"], "b": ["b"]}


def test_a_conversation_id_decides(tmp_path: Path) -> None:
    named = call("a", 1, "hi", answer="hello", conversation="c1")
    assert sessions([[named, SECOND_CALL]], tmp_path / "s.duckdb") == {"c1": ["a"], "b": ["b"]}


def test_a_conversation_id_that_arrives_late_takes_its_trace_out(tmp_path: Path) -> None:
    root = Span(FIRST.trace_id, "2".zfill(16), None, "request", "SERVER", SECOND, 2 * SECOND)
    root = root._replace(attributes={"gen_ai.conversation.id": "c1"})
    found = sessions([[FIRST, SECOND_CALL, THIRD], [root]], tmp_path / "s.duckdb")
    assert found == {"c1": ["a"], "b": ["b", "c"]}


def again(span: Span, trace: str, *, conversation: str | None = None, messages: bool = True) -> Span:
    """Return what a second instrumentation recorded of a call: another trace, a little within the first."""
    attributes = {k: v for k, v in span.attributes.items() if messages or not k.endswith("messages")}
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = conversation
    return span._replace(
        trace_id=trace.ljust(32, "0"),
        start_ns=span.start_ns + 1,
        end_ns=span.end_ns - 1,
        attributes=attributes,
        scope_name="another",
    )


ONE = call("a", 1, "hi", answer="hello", response_id="r1")
TWO = call("b", 2, "hi", "hello", "a coat?", answer="which size?", response_id="r2")
ONE_AGAIN, TWO_AGAIN = again(ONE, "y"), again(TWO, "z")


def of_conversation(span: Span, number: int) -> Span:
    """Return the span with what only this conversation has: traces, texts and response ids of its own."""
    texts = {key: str(value).replace('"hi"', f'"hi {number}"') for key, value in span.attributes.items()}
    texts["gen_ai.response.id"] += f" {number}"
    return span._replace(trace_id=f"{span.trace_id[0]}{number:02d}".ljust(32, "0"), attributes=texts)


@pytest.mark.exhaustive
def test_calls_that_two_instrumentations_recorded_in_traces_apart_are_one_session_in_any_order(
    tmp_path: Path,
) -> None:
    orders = list(enumerate(permutations((ONE, TWO, ONE_AGAIN, TWO_AGAIN)), 10))
    with new_store(tmp_path / "s.duckdb") as store:
        for arriving in range(4):
            store.add([of_conversation(order[arriving], number) for number, order in orders])
            update(store)
        found = {session.session_id: session for session in load(store)}
    assert {
        session_id: ([(t.user_input, t.final_response) for t in session.turns], session.usage.llm_calls)
        for session_id, session in found.items()
    } == {
        of_conversation(ONE, number).trace_id: (
            [(f"hi {number}", "hello"), ("a coat?", "which size?")],
            2,
        )
        for number, _ in orders
    }


@pytest.mark.parametrize("portions", [1, 2, 4])
@pytest.mark.short_form("portions", 2)
def test_a_trace_that_repeats_calls_joins_the_conversation_with_an_id(portions: int, tmp_path: Path) -> None:
    named = [again(ONE, "y", conversation="c1"), again(TWO, "z", conversation="c1")]
    spans = [ONE, named[1], TWO, named[0]]
    delivered = [spans[i::portions] for i in range(portions)]
    assert sessions(delivered, tmp_path / "s.duckdb") == {"c1": ["a", "b"]}


def test_the_trace_with_messages_places_one_without(tmp_path: Path) -> None:
    bare = [again(ONE, "y", messages=False), again(TWO, "z", messages=False)]
    outer = [s._replace(start_ns=s.start_ns - 10, end_ns=s.end_ns + 10) for s in bare]
    assert sessions([outer, [ONE, TWO]], tmp_path / "s.duckdb") == {"a": ["a", "b"]}


@pytest.mark.exhaustive
def test_a_response_id_alone_does_not_join_traces(tmp_path: Path) -> None:
    """Some servers give the same few ids again and again; those of calls that overlap are one call's."""
    later = again(call("x", 5, "ho", answer="no", response_id="r1"), "y")
    same_scope = ONE_AGAIN._replace(scope_name=ONE.scope_name)
    other_tokens = [
        span._replace(attributes={**span.attributes, "gen_ai.usage.output_tokens": tokens})
        for span, tokens in ((ONE, 5), (ONE_AGAIN, 6))
    ]
    in_two = [again(ONE, "y", conversation="c1"), again(ONE, "z", conversation="c2")]
    for number, (spans, found) in enumerate(
        [
            ([ONE, later], {"a": ["a"], "y": ["y"]}),
            ([ONE, same_scope], {"a": ["a"], "y": ["y"]}),
            (other_tokens, {"a": ["a"]}),  # whatever they count: one of the two is wrong
            ([ONE, *in_two], {"a": ["a"], "c1": ["y"], "c2": ["z"]}),
        ]
    ):
        assert sessions([spans], tmp_path / f"{number}.duckdb") == found


WORDS = st.sampled_from(["yes", "no"])


@st.composite
def conversations(draw: st.DrawFn) -> list[Span]:
    """Calls of a few conversations that often say the same; some are lost, some recorded twice."""
    spans: list[Span] = []
    for number in range(draw(st.integers(1, 4))):
        said = draw(st.lists(WORDS, min_size=2, max_size=6))
        for end in range(2, len(said) + 1, 2):
            start = draw(st.integers(1, 30))
            if draw(st.integers(0, 5)):
                name = f"{'abcd'[number]}{end}f"
                made = call(name, start, *said[: end - 1], answer=said[end - 1], response_id=f"r{end}")
                spans.append(made)
                if draw(st.booleans()):
                    named = draw(st.sampled_from([None, None, f"conversation {number}"]))
                    spans.append(again(made, f"e{name}", conversation=named, messages=draw(st.booleans())))
    return spans


@settings(max_examples=examples(8))  # each makes two databases
@given(data=st.data(), spans=conversations())
def test_sessions_do_not_depend_on_order_or_portions(
    data: st.DataObject, spans: list[Span], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("linked")
    shuffled = data.draw(st.permutations(spans))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(spans)), max_size=3)))
    portions = [shuffled[a:b] for a, b in pairwise([0, *cuts, len(spans)])]
    assert sessions(portions, folder / "portions.duckdb") == sessions([spans], folder / "whole.duckdb")


def asks(name: str, arguments: object, call_id: str = "1") -> dict[str, object]:
    part = {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part]}


def test_messages_that_are_repeated_a_little_differently_are_the_same() -> None:
    hi = says("user", "hi")
    answered = {
        "role": "assistant",
        "content": [{"type": "text", "text": "let me\nsee "}],
        "finish_reason": "x",
    }
    first = conversation_digests([hi], [answered, asks("look", {"limit": 5.0})])
    repeated = {
        "role": "model",
        "content": "let me see",
        "tool_calls": [{"id": "other", "function": {"name": "look", "arguments": '{"limit": 5}'}}],
    }
    result = {"role": "tool", "tool_call_id": "other", "content": "5"}
    second = conversation_digests(
        [says("system", "be kind"), hi, repeated, result], [says("assistant", "five")]
    )
    assert first is not None
    assert second is not None
    assert (first.history, second.history) == (None, first.with_response)
    assert len({first.with_request, first.with_response, second.with_request, second.with_response}) == 4


def test_tool_calls_before_the_last_text_may_be_left_out() -> None:
    whole = [
        says("user", "hi"),
        asks("look", {}),
        {"role": "tool", "content": "5"},
        says("assistant", "five"),
    ]
    short = [whole[0], whole[-1]]
    new = says("user", "and now?")
    assert conversation_digests([*whole, new], []) == conversation_digests([*short, new], [])


def test_another_round_of_tools_is_another_position() -> None:
    asked = [says("user", "hi"), asks("poll", {}), {"role": "tool", "content": "not yet"}]
    once, twice = conversation_digests(asked, []), conversation_digests([*asked, *asked[1:]], [])
    assert once is not None
    assert twice is not None
    assert once.history != twice.history


def test_another_role_or_result_is_another_position() -> None:
    def place(*messages: dict[str, object]) -> Digests | None:
        return conversation_digests(list(messages), None)

    look = [says("user", "hi"), asks("look", {})]
    different = [
        place(says("user", "a"), says("assistant", "b"), says("user", "c")),
        place(says("user", "a"), says("user", "b"), says("assistant", "c")),
        place(*look, {"role": "tool", "content": "5"}),
        place(*look, {"role": "tool", "content": "6"}),
    ]
    assert len(set(different)) == 4


def test_without_messages_there_is_no_position() -> None:
    assert [
        conversation_digests(None, None),
        conversation_digests([], [says("assistant", "hi")]),
        conversation_digests("hi", []),
    ] == [None, None, None]


def test_a_client_that_leaves_the_models_calls_out_of_its_requests_is_linked_by_their_ids() -> None:
    hi = says("user", "hi")
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "5"}]}
    asked = conversation_digests([hi], [asks("look", {})])
    answered = conversation_digests([hi, result], [says("assistant", "five")])
    other = conversation_digests([hi, {**result, "parts": [{**result["parts"][0], "id": "2"}]}], [])
    assert asked is not None
    assert answered is not None
    assert other is not None
    assert (asked.history, answered.history) == (None, asked.with_call_ids)
    assert other.history != asked.with_call_ids
    again = conversation_digests([hi, result, says("assistant", "five"), says("user", "and now?")], [])
    assert again is not None
    assert again.history == answered.with_response
