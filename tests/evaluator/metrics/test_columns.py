"""The columns that definitions map from, made of a session and its golden question."""

from __future__ import annotations

from typing import Any

import pytest
from builders import llm, question, session, tool

from spangrade.evaluator.metrics.columns import COLUMNS, column

STATE = {"user:name": "Al", "cart.items": {"list": [1, {"sku": "a"}]}, "tool_interactions": "a state's own"}
CALLS = [tool("find", {"q": "b"}, start_ns=2), tool("find", {"q": "a"}, start_ns=1)]
SESSION = session(
    [("hi", CALLS), ("more", ())],
    state_variables=STATE,
    llm_calls=(llm(turn=1), llm(turn=2, agent="cashier")),
)
STEPPED = SESSION.trajectory[0]._replace(turn=1)
TOLD = [
    {"tool_name": "find", "input_arguments": {"q": q}, "call_id": None, "output_result": None} for q in "ba"
]
SAID = [
    {"agent_name": "shop", "text_response": "ok"},
    {"agent_name": "cashier", "text_response": "ok"},
]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("user_inputs", ["hi", "more"]),
        ("final_response", "ok"),
        ("sub_agent_trace", SAID),
        ("tool_interactions", TOLD),
        ("extracted_data:tool_interactions", TOLD),
        ("extracted_data:sub_agent_trace", SAID),
        ("extracted_data:state_variables", STATE),
        ("extracted_data:user:name", "Al"),
        ("extracted_data:cart.items", {"list": [1, {"sku": "a"}]}),
        ("state_variables:cart.items", {"list": [1, {"sku": "a"}]}),
        ("extracted_data:tool_interactions.1.input_arguments.q", "a"),
        ("extracted_data:tool_interactions.2", None),
        ("extracted_data:tool_interactions.q", None),
        ("extracted_data:not.there", None),
        ("user_inputs:0", "hi"),
        ("reference_data:reference_trajectory", ["shop"]),
        ("reference_data", {"reference_trajectory": ["shop"], "tone": "kind"}),
        ("reference_data:tone", "kind"),
        ("agents_evaluated", ["shop"]),
        ("question_id", "q1"),
        ("session_id", "s1"),
    ],
)
def test_a_column_is_a_value_and_a_colon_leads_into_it(source: str, value: Any) -> None:
    assert column(source, SESSION, question(trajectory=["shop"], tone="kind")) == value


def test_what_was_not_recorded_is_none_in_every_column() -> None:
    bare = session([(None, ())])
    unknown = {name for name in COLUMNS if column(name, bare, None) is None}
    assert unknown == {
        "user_inputs",
        "prompt",
        "state_variables",
        "final_session_state",
        "question_id",
        "reference_data",
        "agents_evaluated",
        "question_metadata",
        "system_instruction",
        "system_instructions",
        "tool_declarations",
    }
    assert column("extracted_data:state_variables", bare, None) is None
    assert column("final_response", session(()), None) is None


def test_the_summary_tells_who_said_and_started_what_in_order() -> None:
    steps = [
        STEPPED,
        *(
            step._replace(turn=1, start_ns=start_ns)
            for step, start_ns in zip(SESSION.trajectory[1:], (1, 2), strict=True)
        ),
    ]
    made = session([("hi", CALLS), ("more", ())], trajectory=tuple(steps), llm_calls=SESSION.llm_calls)
    assert column("trace_summary", made, None) == (
        "User: hi\n"
        "[agent] shop\n"
        '[tool] find {"q":"a"}\n'
        '[tool] find {"q":"b"}\n'
        "shop: ok\n"
        "User: more\n"
        "cashier: ok"
    )


def test_the_summary_names_the_first_agent_where_no_model_call_names_one() -> None:
    made = session([("hi", ())], agents=("shop", "cashier"), trajectory=())
    assert column("trace_summary", made, None) == "User: hi\nshop: ok"


def test_the_spans_of_a_session_are_in_the_order_of_their_starts() -> None:
    trace = column("session_trace", SESSION, None)
    assert [(span["name"], span["start_time"], span["end_time"]) for span in trace] == [
        ("invoke_agent shop", 0, None),
        ("chat gpt-4o", 0, 1_000_000_000),
        ("chat gpt-4o", 0, 1_000_000_000),
        ("execute_tool find", 1, 1_000_000_000),
        ("execute_tool find", 2, 1_000_000_000),
    ]
