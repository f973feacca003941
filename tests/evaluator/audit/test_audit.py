"""Which mutants the gates notice, which are right, and what would catch the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from builders import llm, question, session, tool
from hypothesis import given
from hypothesis import strategies as st

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.converters.datasets.golden_edits import text_of
from spangrade.evaluator.apps.audit.audit import (
    NO_GATE_MET,
    NO_QUESTION,
    NOT_PASSED,
    Audited,
    Fate,
    Tried,
    audited_sessions,
    counts,
    fates,
    share_caught,
    tried,
)
from spangrade.evaluator.apps.audit.mutant import Mutant, load_kinds
from spangrade.evaluator.apps.audit.proposals import GateProposal, Proposed, overlapping, proposals
from spangrade.evaluator.apps.audit.survivors import survivors
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.judge.choice import use_judge
from spangrade.evaluator.judge.protocol import NoJudge
from spangrade.evaluator.metrics import load_metrics, parse_metrics
from spangrade.evaluator.session import Latency, Session, Usage


def plan(*gates: str) -> MetricPlan:
    return replace(MetricPlan.of(parse_metrics(gates), load_metrics()), reported=())


REPLY = "5 EUR are refunded."


def refund(name: str = "s1", amount: float = 5, **changes: Any) -> Session:
    """A session that finds an order and refunds it."""
    calls = [
        tool("find", {"id": "A-1"}, span_id="f", end_ns=10, output={"id": "A-1"}, output_known=True),
        tool("refund", {"id": "A-1", "amount": amount}, span_id="r", start_ns=20, end_ns=30),
    ]
    one = session([("refund A-1", calls)])
    one = replace(
        one,
        session_id=name,
        turns=(one.turns[0]._replace(final_response=REPLY),),
        state_variables={"order": "A-1"},
        llm_calls=(llm(),),
        usage=Usage(1, 64, 16, 32, 4, True),
        models=("gpt-4o",),
        cost_usd=0.01,
        latency=Latency(1.0, 1.0, 2.0, 0.0, 1.0),
    )
    return replace(one, **changes)


EXACT = {
    "tools": [("find", {"id": "A-1"}), ("refund", {"id": "A-1", "amount": 5})],
    "trajectory": ["shop", "find", "refund"],
    "state": {"order": "A-1"},
    "reference_response": REPLY,
    "max_cost_usd": 0.015,
    "max_latency_s": 2,
}


def asked(id: str = "q1", **reference: Any) -> GoldenQuestion:  # noqa: A002
    return question("refund A-1", id=id, **reference)


def audited(
    questions: GoldenQuestion | Sequence[GoldenQuestion],
    sessions: Sequence[Session] = (),
    gates: Sequence[str] = (),
    **options: Any,
) -> tuple[list[Audited], list[Tried]]:
    """Return the audited sessions, and a hundred mutants of each."""
    many = (questions,) if isinstance(questions, GoldenQuestion) else tuple(questions)
    with use_judge(NoJudge("not asked")):
        found = audited_sessions(
            sessions or [refund()], GoldenDataset(golden_questions=many), plan(*gates), **options
        )
        chosen = [one for one in found if isinstance(one, Audited)]
        mutants = [one for each in chosen for one in tried(each, load_kinds(), 100, 0, plan(*gates))]
    return chosen, mutants


def proposed(
    questions: GoldenQuestion | Sequence[GoldenQuestion], sessions: Sequence[Session] = (), **options: Any
) -> Proposed:
    chosen, mutants = audited(questions, sessions, **options)
    with use_judge(NoJudge("not asked")):
        return proposals(mutants, chosen, plan(), least=1)


def fate(
    kind: str, of: GoldenQuestion, one: Session, fits: Callable[[Mutant], bool], gates: Sequence[str] = ()
) -> Fate:
    """Return what becomes of the first mutant of a kind that fits."""
    draws = (load_kinds()[kind](one, Random(seed)) for seed in range(500))
    mutant = next(draw for draw in draws if draw is not None and fits(draw))
    (chosen,), _ = audited(of, [one], gates)
    ((found, _),) = fates(chosen, [mutant], plan(*gates))
    return found


def any_of(_: Mutant) -> bool:
    return True


def test_with_all_gates_and_exact_references_every_mutant_is_caught() -> None:
    gates = ("tools:exact:exact>=1", "trajectory:exact>=1", "response_match>=1")
    _, mutants = audited(asked(**EXACT), gates=gates)
    assert {one.kind for one in mutants} == load_kinds().keys() - {
        "skip-handoff",
        "other-agent",
        "drop-turn",
    }
    assert counts(mutants) == {Fate.CAUGHT: len(mutants)}
    assert len(mutants) > 20


def test_a_question_without_references_but_one_lets_the_rest_survive_and_says_why() -> None:
    _, mutants = audited(asked(state={"order": "A-1"}))
    why = {(group.kind, group.target): group.why for group in survivors(mutants)}
    assert why == {
        ("change-argument", "find.id"): "the question has no reference_tool_interactions",
        ("change-argument", "refund.amount"): "the question has no reference_tool_interactions",
        ("change-argument", "refund.id"): "the question has no reference_tool_interactions",
        ("contradict-reply", "reply"): "the question has no reference_response",
        ("double-cost", "cost"): "the question has no max_cost_usd",
        **{
            (kind, name): "the question has no reference_tool_interactions"
            for kind in ("drop-call", "fail-call", "other-tool")  # an empty reply fails without a reference
            for name in ("find", "refund")
        },
        **{
            ("repeat-call", name): (
                "the order and number of calls are free: no reference_trajectory names the tools"
            )
            for name in ("find", "refund")
        },
        ("swap-calls", "find, refund"): (
            "the order and number of calls are free: no reference_trajectory names the tools"
        ),
        ("triple-latency", "latency"): "the question has no max_latency_s",
        ("truncate-reply", "reply"): "the question has no reference_response",
    }


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"id": "A-1", "amount": "*"}, "refund.amount is matched by `*`"),
        ({"id": "A-1", "amount": None}, "amount is null in the reference: it may have any value"),
        ({"id": "A-1"}, "refund.amount is not in the reference"),
        (None, "refund may have any arguments"),
    ],
)
def test_an_argument_that_the_reference_leaves_free_survives_and_is_proposed(
    arguments: dict[str, Any] | None, why: str
) -> None:
    calls = [("find", {"id": "A-1"}), ("refund", arguments)]
    amount = "five" if "*" in why else 5
    of, one = asked(**{**EXACT, "tools": calls}), refund(amount=amount)
    _, mutants = audited(of, [one, refund("s2", amount=amount)])
    group = next(group for group in survivors(mutants) if group.target == "refund.amount")
    assert (group.why, group.sessions, group.questions) == (why, ("s1", "s2"), ("q1",))
    found = proposed(of, [one, refund("s2", amount=amount)])
    (edit,) = (p.edit for p in found.edits if "amount" in str(p.edit))
    assert edit.path[:3] == ("reference_data", "reference_tool_interactions", 1)
    left = {group.target for group in survivors(found.after) if group.fate is Fate.SURVIVED}
    assert "refund.amount" not in left


def test_what_the_sessions_of_a_question_do_not_agree_on_is_not_proposed() -> None:
    calls = [("find", {"id": "A-1"}), ("refund", {"id": "A-1"})]
    found = proposed(asked(**{**EXACT, "tools": calls}), [refund(), refund("s2", amount=6)])
    assert [p for p in found.edits if "amount" in str(p.edit)] == []
    assert "refund.amount" in {group.target for group in survivors(found.after)}


def test_proposals_name_what_the_sessions_did_and_raise_the_share_caught() -> None:
    of = asked(state={"order": "A-1"})
    chosen, mutants = audited(of, [refund(f"s{number}") for number in range(1, 6)])
    with use_judge(NoJudge("not asked")):
        found = proposals(mutants, chosen, plan())
    assert {line for p in found.edits for line in text_of([p.edit])} == {
        (
            "reference_data.reference_tool_interactions: "
            '[{"tool_name": "find", "input_arguments": {"id": "A-1"}}]'
        ),
        (
            "reference_data.reference_tool_interactions[1]: "
            '{"tool_name": "refund", "input_arguments": {"id": "A-1", "amount": 5}}'
        ),
        'reference_data.reference_trajectory: ["shop", "find", "refund"]',
        "reference_data.max_cost_usd: 0.015",
        "reference_data.max_latency_s: 2",
    }
    before, after = (share_caught(counts(group)) or 0 for group in (mutants, found.after))
    assert before < 0.35
    assert after > 0.8
    assert {group.target for group in survivors(found.after)} == {"reply"}  # a judge has to rate it
    assert (found.gates, found.withheld) == ((), ())


def test_a_limit_needs_five_sessions_that_do_not_differ_too_much() -> None:
    def limits(*costs: float) -> tuple[list[str], list[tuple[str, str]]]:
        found = proposed(
            asked(**{**EXACT, "max_cost_usd": None, "max_latency_s": 2}),
            [refund(f"s{number}", cost_usd=cost) for number, cost in enumerate(costs)],
        )
        written = [line for p in found.edits for line in text_of([p.edit])]
        return written, [(one.reference, one.reason) for one in found.withheld]

    assert limits(0.01, 0.011, 0.012, 0.011) == (
        [],
        [("max_cost_usd", "4 of the 5 sessions that a limit needs")],
    )
    assert limits(0.01, 0.011, 0.012, 0.011, 0.01) == (["reference_data.max_cost_usd: 0.02"], [])
    too_much = "sessions differ too much: one of 4 times the usual would not be noticed"
    assert limits(0.01, 0.02, 0.04, 0.01, 0.03) == ([], [("max_cost_usd", too_much)])


def test_calls_that_ran_at_the_same_time_are_never_ordered() -> None:
    calls = [
        tool("find", {"id": "A-1"}, span_id="f", start_ns=0, end_ns=30),
        tool("check", {"id": "A-1"}, span_id="c", start_ns=10, end_ns=40),
        tool("refund", {"id": "A-1"}, span_id="r", start_ns=50, end_ns=60),
    ]
    one = replace(session([("refund A-1", calls)]), latency=Latency())
    found = proposed(asked(trajectory=["shop"]), [one])
    expected = [text for p in found.edits for text in text_of([p.edit]) if "reference_tool" in text]
    assert len(expected) == 3
    assert sum('"unordered": true' in text for text in expected) == 2
    assert not any("reference_trajectory" in text for p in found.edits for text in text_of([p.edit]))
    assert found.gates == ()
    assert [(one.reference, one.reason) for one in found.withheld] == [
        ("order of calls", "check, find ran at the same time as others")
    ]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.sampled_from("ab")), max_size=8))
def test_calls_that_ran_at_the_same_time_are_found_without_comparing_all(
    times: list[tuple[int, int, str]],
) -> None:
    calls = [
        tool(str(n), start_ns=start, end_ns=start + length, agent=agent)
        for n, (start, length, agent) in enumerate(times)
    ]
    every = [
        (one, other)
        for one, other in combinations(calls, 2)
        if one.start_ns < other.end_ns and other.start_ns < one.end_ns
    ]
    found = list(overlapping(session([("hi", calls)])))
    assert {call.tool_name for pair in found for call in pair} == {
        c.tool_name for pair in every for c in pair
    }
    assert {one.agent == other.agent for one, other in found} >= {
        one.agent == other.agent for one, other in every
    }


def test_a_gate_is_proposed_for_what_no_reference_of_the_file_can_catch() -> None:
    calls = [tool("pay", {"n": n}, span_id=str(n), start_ns=n * 20, end_ns=n * 20 + 1) for n in (1, 2)]
    one = replace(session([("refund A-1", calls)]), latency=Latency())
    of = asked(tools=[("pay", {"n": 1}), ("pay", {"n": 2})], trajectory=["shop", "pay", "pay"])
    assert proposed(of, [one]).gates == (GateProposal("tools:exact>=1", 1),)


def test_values_that_look_generated_are_not_proposed() -> None:
    one = refund(state_variables={"order": "A-1", "trace": "0123456789abcdef0", "text": "x" * 300, "n": 2})
    found = proposed(asked(**EXACT), [one])
    assert [text_of([p.edit]) for p in found.edits] == [
        ["reference_data.reference_state_variables.n: 2"],
    ]


UNORDERED = [
    {"tool_name": "find", "input_arguments": {"id": "A-1"}, "unordered": True},
    {"tool_name": "refund", "input_arguments": {"id": "A-1"}, "unordered": True},
]
FIND = {"tool_name": "find", "input_arguments": {"id": "A-1"}}
REFUND = {"tool_name": "refund", "input_arguments": {"id": "A-1"}}


@pytest.mark.parametrize(
    ("kind", "reference", "gates", "found"),
    [
        ("swap-calls", {"reference_tool_interactions": UNORDERED}, (), Fate.RIGHT),
        ("swap-calls", {"reference_tool_interactions": [FIND, REFUND]}, (), Fate.SURVIVED),
        ("double-cost", {"max_cost_usd": 0.05}, (), Fate.RIGHT),
        ("double-cost", {"state": {}}, ("cost<=0.05",), Fate.RIGHT),
        ("double-cost", {"state": {"order": "A-1"}}, (), Fate.SURVIVED),
        ("double-cost", {"max_cost_usd": 0.015}, (), Fate.CAUGHT),
        ("triple-latency", {"max_latency_s": 10}, (), Fate.RIGHT),
        ("triple-latency", {"max_cost_usd": 1}, ("latency_metrics<=3",), Fate.RIGHT),
        ("repeat-call", {"reference_tool_interactions": [FIND, REFUND]}, (), Fate.SURVIVED),
        ("blank-reply", {"reference_response": REPLY}, (), Fate.CAUGHT),
        ("truncate-reply", {"reference_response": REPLY}, (), Fate.UNDECIDED),
    ],
)
def test_what_the_reference_itself_accepts_is_right(
    kind: str, reference: dict[str, Any], gates: Sequence[str], found: Fate
) -> None:
    assert fate(kind, asked(**reference), refund(), any_of, gates) is found


def test_a_call_that_another_list_of_calls_does_without_may_be_left_out() -> None:
    reference = {"reference_tool_interactions": [FIND, REFUND], "reference_tool_alternatives": [[REFUND]]}
    of = asked(**reference)
    assert fate("drop-call", of, refund(), lambda mutant: mutant.target == "find") is Fate.RIGHT
    assert fate("drop-call", of, refund(), lambda mutant: mutant.target == "refund") is Fate.CAUGHT


@pytest.mark.parametrize(("other", "found"), [("A-2", Fate.RIGHT), ("A-3", Fate.CAUGHT)])
def test_a_value_that_a_reference_to_a_result_accepts_is_right(other: str, found: Fate) -> None:
    calls = [
        tool("list", {}, span_id="l", output={"ids": ["A-1", other]}, output_known=True),
        tool("refund", {"id": "A-1"}, span_id="r", start_ns=20, end_ns=30),
    ]
    one = session([("refund A-1", calls)])
    of = asked(tools=["list", ("refund", {"id": {"$result": "list#/ids/*"}})])
    assert fate("change-argument", of, one, any_of) is found


def test_sessions_that_do_not_pass_are_left_out_unless_asked_for() -> None:
    questions = [asked(**EXACT), question("other", state={})]
    sessions = [refund(), refund("s2", amount=7), refund("s3", turns=()), refund("s4", missing_spans=1)]
    dataset = GoldenDataset(golden_questions=tuple(questions[:1]))
    for failed, expected in (
        (False, [{"s1"}, NOT_PASSED, NO_QUESTION, NOT_PASSED]),
        (True, [{"s1"}, {"s2"}, NO_QUESTION, NO_GATE_MET]),
    ):
        found = audited_sessions(sessions, dataset, plan(), failed=failed)
        assert [one if isinstance(one, str) else {one.session.session_id} for one in found] == expected


def test_only_a_gate_that_the_session_meets_can_notice_a_mutant() -> None:
    (one,), mutants = audited(asked(**EXACT), [refund(amount=7)], failed=True)
    assert one.gates.not_met == {"tool_usage_accuracy"}
    assert {gate for each in mutants for gate in each.gates if each.fate is Fate.CAUGHT} <= one.gates.met


def test_questions_that_expect_the_same_are_one() -> None:
    (one,), _ = audited([asked("q1", **EXACT), asked("q2", **EXACT)])
    assert one.question_ids == ("q1", "q2")
    found = proposed([asked("q1", state={"order": "A-1"}), asked("q2", state={"order": "A-1"})])
    assert {p.question_ids for p in found.edits} == {("q1", "q2")}


def test_where_some_sessions_call_nothing_and_others_do_it_is_said() -> None:
    """Whatever expects the call, the silent sessions would miss it: nothing of it can be proposed."""
    silent = [session([("refund A-1", [])]) for _ in range(4)]
    found = proposed(asked(trajectory=["shop"]), [refund(), *silent])
    disagree = ("reference_tool_interactions", "sessions disagree: 4 call nothing")
    assert disagree in [(one.reference, one.reason) for one in found.withheld]
    assert disagree not in [
        (one.reference, one.reason) for one in proposed(asked(trajectory=["shop"]), [refund()]).withheld
    ]
