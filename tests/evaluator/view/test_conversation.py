"""A session as a conversation."""

from __future__ import annotations

from builders import SECOND_NS, llm, session, step, tool

from spangrade.evaluator.reports.html.conversation import (
    ShownConversation,
    ShownItem,
    ShownProblem,
    TurnView,
    Variable,
    conversation,
)
from spangrade.evaluator.reports.html.session_source import StateChange
from spangrade.evaluator.reports.html.texts import Place, Text
from spangrade.evaluator.session import Error, RequestedCall

INPUT = Text("hi", 2, Place("turns", 1, "user_input"))
REPLY = Text("ok", 2, Place("turns", 1, "final_response"))
CALL = llm(start_ns=SECOND_NS, position=1)


def test_a_turn_has_its_agents_calls_and_states_in_the_order_of_their_start() -> None:
    pay = tool("pay", {"sum": 3}, output=None, ok=False, start_ns=2 * SECOND_NS, error="no money")
    made = session(
        [("hi", [pay])],
        trajectory=(step("shop", "agent", turn=1),),
        llm_calls=(CALL,),
        errors=(Error("tool pay", "no money", "t1", "pay"), Error("run x", None, "t1", "x")),
        requested_calls=(RequestedCall(1, 1, "log", None, False, None, "shop", 4 * SECOND_NS, "t1", "llm"),),
    )
    changes = [StateChange(3 * SECOND_NS, {"paid": False, "cart": 1}, "t1", "pay")]
    assert conversation(made, changes) == ShownConversation(
        (
            TurnView(
                number=1,
                offset_s=0.0,
                latency_s=1.0,
                failed=False,
                user_input=INPUT,
                reply=REPLY,
                items=(
                    ShownItem("agent", "shop", 0.0, "shop step"),
                    ShownItem("model", "gpt-4o", 1.0, "llm", agent="shop", latency_s=1.0, model=CALL),
                    ShownItem(
                        "tool",
                        "pay",
                        2.0,
                        "pay",
                        agent="shop",
                        status="failed",
                        latency_s=1.0,
                        arguments=Text(
                            '{\n  "sum": 3\n}', 14, Place("tool_interactions", 0, "input_arguments")
                        ),
                        errors=(ShownProblem("tool pay", "no money", "pay"),),
                    ),
                    ShownItem(
                        "state",
                        "paid, cart",
                        3.0,
                        "pay",
                        variables=(
                            Variable("paid", None, Text("false", 5, Place("state", 0, "paid"))),
                            Variable("cart", None, Text("1", 1, Place("state", 0, "cart"))),
                        ),
                    ),
                    ShownItem("requested", "log", 4.0, "llm", agent="shop", status="unknown"),
                ),
                hidden=0,
                errors=(ShownProblem("run x", "without a message", "x"),),
            ),
        ),
        (),
        (),
    )


def test_a_state_that_is_set_to_what_it_was_is_not_shown_and_another_shows_both() -> None:
    changes = [StateChange(number, {"a": value}) for number, value in enumerate([1, 1, 2])]
    (turn,) = conversation(session(), changes).turns
    assert [item.variables for item in turn.items] == [
        (Variable("a", None, Text("1", 1, Place("state", 0, "a"))),),
        (Variable("a", Text("1", 1, Place("state", 0, "a")), Text("2", 1, Place("state", 2, "a"))),),
    ]


def test_what_is_not_recorded_is_none_and_null_is_a_value() -> None:
    made = session([(None, [tool("find"), tool("log", None, output=None, output_known=True)])])
    (turn,) = conversation(made).turns
    assert turn.user_input is None
    assert [
        (item.arguments and item.arguments.shown, item.output and item.output.shown) for item in turn.items
    ] == [
        (None, None),
        ("null", "null"),
    ]


def test_a_long_text_is_cut_and_says_how_long_it_is() -> None:
    (turn,) = conversation(session([("x" * 5_000_000, [])])).turns
    assert turn.user_input is not None
    assert (turn.user_input.shown, turn.user_input.length) == ("x" * 4_000, 5_000_000)
    assert turn.user_input.is_cut


def test_a_turn_of_many_items_shows_some_and_counts_the_others() -> None:
    made = session([("hi", [tool(f"t{number}", start_ns=number) for number in range(5)])])
    (first,) = conversation(made, most_items=2).turns
    assert ([item.name for item in first.items], first.hidden) == (["t0", "t1"], 3)
    (rest,) = conversation(made, most_items=4, skip=2).turns
    assert ([item.name for item in rest.items], rest.hidden) == (["t2", "t3", "t4"], 0)
