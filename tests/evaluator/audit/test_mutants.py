"""Each kind of mutant breaks one thing, and what depends on it follows."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from builders import llm, session, tool, turn
from hypothesis import given
from hypothesis import strategies as st

from spangrade import Failure, Inconclusive, InputError, Metric, NotApplicable, Score
from spangrade.evaluator.apps.audit.audit import SessionGates, gates_of
from spangrade.evaluator.apps.audit.mutant import load_kinds, mutants_of, without_derived_columns
from spangrade.evaluator.apps.audit.values import changed, leaves, with_leaf
from spangrade.evaluator.metrics.columns import file_session
from spangrade.evaluator.session import Latency, Session, Usage


def made() -> Session:
    """A session of two agents: three calls and a hand-off, two turns, state, cost and latency."""
    calls = [
        tool("find", {"id": "A-17"}, end_ns=10),
        tool("check", {"days": 3}, start_ns=20, end_ns=30),
        tool("transfer_to_agent", {"agent_name": "cashier"}, start_ns=40, end_ns=50, handoff=True),
        tool("pay", {"sum": {"amount": 4.5, "unit": "EUR"}}, start_ns=60, end_ns=70, agent="cashier"),
    ]
    steps = ["shop", "find", "check", "transfer_to_agent", "cashier", "pay"]
    inputs = [("Refund A-17", calls), ("Thanks", [])]
    replies = ("One moment.", "It is paid: 4.50 EUR.")
    return replace(
        session(inputs, agents=("shop", "cashier"), steps=steps),
        turns=tuple(turn(n, inputs[n - 1][0], final_response=replies[n - 1]) for n in (1, 2)),
        handoffs=(("shop", "cashier"),),
        state_variables={"order": "A-17", "paid": True},
        llm_calls=(llm(), llm(agent="cashier"), llm(turn=2)),
        usage=Usage(3, 192, 48, 96, 12, True),
        models=("gpt-4o",),
        cost_usd=0.03,
        latency=Latency(3.0, 2.0, 4.0, 0.5, 1.0),
    )


def facts(one: Session) -> dict[str, Any]:
    return {
        "calls": [(call.tool_name, call.input_arguments, call.ok) for call in one.tool_interactions],
        "steps": [step.name for step in one.trajectory],
        "turns": [(each.turn, each.final_response, each.latency_s) for each in one.turns],
        "agents": (one.agents, one.handoffs),
        "state": one.state_variables,
        "cost": (one.cost_usd, one.usage.input_tokens, one.usage.llm_calls),
        "latency": (one.latency.total_s, one.latency.tool_s),
        "errors": [error.where for error in one.errors],
    }


FIND, CHECK = ("find", {"id": "A-17"}, True), ("check", {"days": 3}, True)
HANDOFF = ("transfer_to_agent", {"agent_name": "cashier"}, True)
PAY = ("pay", {"sum": {"amount": 4.5, "unit": "EUR"}}, True)
STEPS = ["shop", "find", "check", "transfer_to_agent", "cashier", "pay"]
FIRST, LAST = (1, "One moment.", 1.0), (2, "It is paid: 4.50 EUR.", 2.0)

# What one mutant of a kind has instead; all else is as it was.
EXPECTED: dict[str, tuple[str, dict[str, Any]]] = {
    "drop-call": (
        "call 1 was left out",
        {
            "calls": [CHECK, HANDOFF, PAY],
            "steps": ["shop", *STEPS[2:]],
            "turns": [(1, "One moment.", 0.0), LAST],
            "latency": (2.0, 3.0),
        },
    ),
    "repeat-call": (
        "call 1 was made twice",
        {
            "calls": [FIND, FIND, CHECK, HANDOFF, PAY],
            "steps": ["shop", "find", *STEPS[1:]],
            "turns": [(1, "One moment.", 2.0), LAST],
            "latency": (4.0, 5.0),
        },
    ),
    "swap-calls": (
        "check was called before find",
        {"calls": [CHECK, FIND, HANDOFF, PAY], "steps": ["shop", "check", "find", *STEPS[3:]]},
    ),
    "other-tool": (
        "pay was called instead of find",
        {
            "calls": [("pay", *FIND[1:]), CHECK, HANDOFF, PAY],
            "steps": ["shop", "pay", *STEPS[2:]],
        },
    ),
    "fail-call": (
        "call 1 failed",
        {"calls": [(*FIND[:2], False), CHECK, HANDOFF, PAY], "errors": ["tool find"]},
    ),
    "change-argument": (
        '"A-18" instead of "A-17"',
        {"calls": [("find", {"id": "A-18"}, True), CHECK, HANDOFF, PAY]},
    ),
    "skip-handoff": (
        "cashier was not called",
        {
            "calls": [FIND, CHECK],
            "steps": ["shop", "find", "check"],
            "agents": (("shop",), ()),
            "turns": [(1, "One moment.", 0.0), LAST],
            "cost": (0.02, 128, 2),
            "latency": (1.0, 2.0),
        },
    ),
    "other-agent": (
        "another_agent was called instead of cashier",
        {
            "calls": [FIND, CHECK, ("transfer_to_agent", {"agent_name": "another_agent"}, True), PAY],
            "steps": [*STEPS[:4], "another_agent", "pay"],
            "agents": (("shop", "another_agent"), (("shop", "another_agent"),)),
        },
    ),
    "stop-early": (
        "turn 1 stopped before call 4",
        {
            "calls": [FIND, CHECK, HANDOFF],
            "steps": STEPS[:5],
            "turns": [(1, "", 0.0), LAST],
            "latency": (2.0, 3.0),
        },
    ),
    "drop-turn": (
        "turn 2 is missing",
        {"turns": [FIRST], "cost": (0.02, 128, 2), "latency": (1.0, 4.0)},
    ),
    "add-turn": (
        "one turn too many",
        {
            "turns": [FIRST, LAST, (3, "It is paid: 4.50 EUR.", 2.0)],
            "cost": (0.04, 256, 4),
            "latency": (5.0, 4.0),
        },
    ),
    "blank-reply": ("empty", {"turns": [FIRST, (2, "", 2.0)]}),
    "truncate-reply": ("cut after 2 of 5 words", {"turns": [FIRST, (2, "It is", 2.0)]}),
    "contradict-reply": ("negated", {"turns": [FIRST, (2, "It is not paid: 4.50 EUR.", 2.0)]}),
    "drop-state": ("state order", {"state": {"paid": True}}),
    "change-state": ("false instead of true", {"state": {"order": "A-17", "paid": False}}),
    "double-cost": ("0.06 USD instead of 0.03", {"cost": (0.06, 384, 3)}),
    "triple-latency": (
        "9 s instead of 3",
        {"turns": [(1, "One moment.", 3.0), (2, LAST[1], 6.0)], "latency": (9.0, 12.0)},
    ),
}


@pytest.mark.parametrize("kind", load_kinds())
def test_a_mutant_differs_from_its_session_in_one_thing_and_what_follows_from_it(kind: str) -> None:
    change, differences = EXPECTED[kind]
    draws = (load_kinds()[kind](made(), Random(seed)) for seed in range(500))
    mutant = next(one for one in draws if one is not None and change in (one.change, one.target))
    assert facts(mutant.session) == {**facts(made()), **differences}
    positions = [call.position for call in mutant.session.tool_interactions]
    if kind in ("drop-call", "repeat-call", "swap-calls", "stop-early", "skip-handoff"):
        assert positions == list(range(1, len(positions) + 1))


def test_there_are_18_kinds() -> None:
    assert set(load_kinds()) == set(EXPECTED)
    assert len(EXPECTED) == 18
    assert set(load_kinds(["drop-call"])) == {"drop-call"}
    with pytest.raises(InputError, match=r'no kind of mutants "drop"; did you mean "drop-'):
        load_kinds(["drop"])


@pytest.mark.parametrize("kind", load_kinds())
def test_a_session_without_anything_to_break_has_no_mutant(kind: str) -> None:
    empty = replace(session(()), turns=(), trajectory=(), latency=Latency())
    assert load_kinds()[kind](empty, Random(1)) is None


def drawn(one: Session, number: int = 20, seed: int = 0) -> list[tuple[str, str, str]]:
    return [
        (kind, mutant.target, mutant.change) for kind, mutant in mutants_of(one, load_kinds(), number, seed)
    ]


def test_the_mutants_of_a_session_depend_on_its_id_and_the_seed_alone() -> None:
    one = made()
    assert drawn(one) == drawn(made())
    assert drawn(one) != drawn(one, seed=1)
    assert drawn(one) != drawn(replace(one, session_id="s2"))
    assert drawn(one, 7) == drawn(one)[:7]


def test_mutants_differ_and_every_kind_has_its_turn() -> None:
    kinds = [kind for kind, _, _ in drawn(made(), 18)]
    assert sorted(kinds) == sorted(EXPECTED)
    many = drawn(made(), 1000)
    assert len(many) == len(set(many)) > 30


def test_two_calls_at_the_same_time_are_not_swapped() -> None:
    calls = [tool("find", {"id": 1}), tool("check", {"id": 1})]
    assert load_kinds()["swap-calls"](session([("hi", calls)]), Random(0)) is None


def test_the_call_of_a_span_is_found_among_others_of_its_name() -> None:
    calls = [tool("find", {"id": n}, span_id=f"s{n}", start_ns=n, end_ns=n) for n in (1, 2)]
    one = session([("hi", calls)])
    steps = [
        step._replace(span_id=span) for step, span in zip(one.trajectory, ("a", "s1", "s2"), strict=True)
    ]
    one = replace(one, trajectory=tuple(steps))
    draws = (load_kinds()["drop-call"](one, Random(seed)) for seed in range(100))
    mutant = next(draw for draw in draws if draw is not None and draw.call == 1)
    assert [step.span_id for step in mutant.session.trajectory] == ["a", "s1"]


def test_columns_of_a_row_that_repeat_the_session_are_not_shown_to_metrics() -> None:
    columns = {
        "final_response": "x",
        "latency_data": 1,
        "extracted_data": {"state_variables": {}, "cart": 2},
    }
    one = without_derived_columns(file_session(made(), columns, ("a note",)))
    assert one == file_session(made(), {"latency_data": 1, "extracted_data": {"cart": 2}})
    assert without_derived_columns(made()) == made()


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (4, {5, 3, 14}),
        (4.5, {5.5, 3.5, 5.0}),
        (True, {False}),
        ("2024-02-28", {"2024-02-29"}),
        ("due 9999-12-31", {"due 9999-12-32"}),
        ("A-1009", {"A-1000"}),
        ("5 kg", {"5 g", "6 kg"}),
        ("Rome", {"Rom"}),
        ("x", {"xx"}),
    ],
)
def test_a_value_is_changed_a_little(value: Any, others: set[Any]) -> None:
    assert {changed(value, Random(seed)) for seed in range(200)} == others


json_values = st.recursive(
    st.booleans() | st.integers() | st.text(min_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(json_values, st.integers())
def test_a_leaf_is_changed_and_nothing_else(value: Any, seed: int) -> None:
    found = dict(leaves(value))
    for path, leaf in found.items():
        other = changed(leaf, Random(seed))
        assert other != leaf
        made = dict(leaves(with_leaf(value, path, other)))
        assert made.get(path, "") == other
        assert {p: v for p, v in made.items() if p != path} == {p: v for p, v in found.items() if p != path}


def test_what_is_nested_deeply_is_left_as_it_is() -> None:
    deep: Any = "A-1"
    for _ in range(5_000):
        deep = [deep]
    one = session([("hi", [tool("find", {"deep": deep})])])
    assert load_kinds()["change-argument"](one, Random(0)) is None


def test_a_gate_is_met_or_not_met_and_what_is_only_reported_is_neither() -> None:
    def metric(name: str, threshold: float | None = None, needs: str | None = None) -> Metric:
        return Metric(name, lambda *_: Inconclusive(""), threshold=threshold, needs=needs)

    found = gates_of(
        [
            (metric("passes", 1.0, "reference_trajectory"), Score(1.0, True, "")),
            (metric("passes without a reference", 1.0), Score(1.0, True, "")),
            (metric("fails", 1.0, "reference_response"), Score(0.0, False, "")),
            (metric("reported"), Score(0.0, None, "")),
            (metric("inconclusive gate", 0.0), Inconclusive("")),
            (metric("inconclusive report"), Inconclusive("")),
            (metric("broken report"), Failure("")),
            (metric("not applicable", 1.0), NotApplicable("")),
        ]
    )
    assert found == SessionGates(
        met=frozenset({"passes", "passes without a reference"}),
        not_met=frozenset({"fails", "inconclusive gate", "broken report"}),
        references=frozenset({"reference_trajectory"}),
    )
