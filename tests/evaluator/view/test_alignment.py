"""What was expected and what happened, side by side."""

from __future__ import annotations

from builders import question, session, tool

from spangrade.evaluator.reports.html.alignment import (
    CallPair,
    StepPair,
    TextPair,
    Value,
    Words,
    aligned,
    alignment,
    difference,
)


def plain(text: str) -> tuple[Words, ...]:
    return (Words(text, False),)


def test_differences_are_word_by_word() -> None:
    assert difference("Your order A-1 is late.", "Your order A-2 is very late.") == TextPair(
        (Words("Your order A-", False), Words("1", True), Words(" is late.", False)),
        (
            Words("Your order A-", False),
            Words("2", True),
            Words(" is ", False),
            Words("very ", True),
            Words("late.", False),
        ),
    )


def test_long_texts_are_compared_as_a_whole_and_cut() -> None:
    long = "word " * 3_000
    found = difference(long, long + "more")
    assert found == TextPair((Words(long[:4_000] + "…", True),), (Words(long[:4_000] + "…", True),))


def test_names_are_aligned_around_those_that_both_sides_have() -> None:
    assert list(aligned(["a", "b", "c"], ["a", "c", "d"])) == [(0, 0), (1, None), (2, 1), (None, 2)]
    assert list(aligned([], [])) == []


def test_a_trajectory_is_aligned_with_the_steps_that_the_metrics_compare() -> None:
    made = session([("hi", [tool("find"), tool("pay")])], agents=["shop"])
    wanted = question(trajectory=["shop", "find", "refund"])
    assert alignment(made, wanted).trajectory == (
        StepPair("same", "shop", "shop", "shop step"),
        StepPair("same", "find", "find", "find step"),
        StepPair("missing", "refund", None),
        StepPair("not expected", None, "pay", "pay step"),
    )
    of_agents = question(trajectory=["shop", "returns"], agents=["shop", "returns"])
    assert alignment(made, of_agents).trajectory == (
        StepPair("same", "shop", "shop", "shop step"),
        StepPair("missing", "returns", None),
    )


def test_a_call_stands_beside_the_one_that_meets_it_as_in_the_metrics() -> None:
    made = session([("hi", [tool("find", {"id": 2}), tool("find", {"id": 1}), tool("log", {})])])
    wanted = question(tools=[("find", {"id": 1}), ("find", {"id": 3, "note": None}), "pay"])
    assert alignment(made, wanted).calls == (
        CallPair("same", "find", "find", "find", (Value("same", "id", TextPair(plain("1"), plain("1"))),)),
        CallPair(
            "differs",
            "find",
            "find",
            "find",
            (Value("differs", "id", TextPair((Words("3", True),), (Words("2", True),))),),
        ),
        CallPair("missing", "pay", None, None, ()),
        CallPair("not expected", None, "log", "log", ()),
    )


def test_calls_in_another_order_are_marked() -> None:
    made = session([("hi", [tool("pay"), tool("find")])])
    states = [call.state for call in alignment(made, question(tools=["find", "pay"])).calls or ()]
    assert states == ["same", "in another order"]


def test_a_failed_call_differs_although_its_arguments_are_the_same() -> None:
    made = session([("hi", [tool("find", {"id": 1}, ok=False)])])
    (call,) = alignment(made, question(tools=[("find", {"id": 1})])).calls or ()
    assert call == CallPair(
        "differs",
        "find",
        "find",
        "find",
        (Value("same", "id", TextPair(plain("1"), plain("1"))),),
        "failed",
    )


def test_wildcards_and_free_arguments_are_the_same() -> None:
    made = session([("hi", [tool("find", {"id": "x", "note": "y", "page": 2})])])
    (call,) = alignment(made, question(tools=[("find", {"id": "*", "note": None})])).calls or ()
    assert [(value.state, value.name) for value in call.values] == [
        ("same", "id"),
        ("same", "note"),
        ("same", "page"),
    ]


def test_arguments_that_are_not_recorded_differ_from_expected_ones() -> None:
    made = session([("hi", [tool("find")])])
    (call,) = alignment(made, question(tools=[("find", {"id": 1})])).calls or ()
    expected = TextPair(plain('{\n  "id": 1\n}'), None)
    assert call.values == (Value("differs", "arguments", expected),)


def test_state_reply_inputs_and_agents_are_compared() -> None:
    made = session([("hi", [])], state_variables={"cart": 1, "extra": True})
    wanted = question(
        "hi",
        "bye",
        agents=["shop", "returns"],
        state={"cart": 2, "paid": True},
        reference_response="ok then",
    )
    found = alignment(made, wanted)
    assert found.state == (
        Value("differs", "cart", TextPair((Words("2", True),), (Words("1", True),))),
        Value("missing", "paid", TextPair(plain("true"), None)),
        Value("not expected", "extra", TextPair(None, plain("true"))),
    )
    assert found.reply == Value(
        "differs", "reply", TextPair((Words("ok", False), Words(" then", True)), (Words("ok", False),))
    )
    assert found.user_inputs == (
        Value("same", "turn 1", TextPair(plain("hi"), plain("hi"))),
        Value("missing", "turn 2", TextPair(plain("bye"), None)),
    )
    assert found.agents == (StepPair("same", "shop", "shop"), StepPair("missing", "returns", None))


def test_what_the_question_does_not_expect_is_not_compared() -> None:
    found = alignment(session(turns=[("hi", [tool("find")])]), question())
    assert (found.trajectory, found.calls, found.state, found.reply) == (None, None, None, None)
