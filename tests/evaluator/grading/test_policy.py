"""The rules of docs/verdicts.md, one test each: nothing is green that was not earned."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from itertools import combinations
from typing import Any

import pytest
from builders import llm, question, session
from grading import grade
from rich.console import Console

from spangrade import ExitCode, InputError
from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.grading.policy import dropped_references
from spangrade.evaluator.grading.run import Grade, Run
from spangrade.evaluator.grading.verdict import Verdict, exit_code
from spangrade.evaluator.metrics import (
    Failure,
    Inconclusive,
    Metric,
    NotApplicable,
    Outcome,
    Score,
    parse_metric,
    parse_metrics,
)
from spangrade.evaluator.reports.tables import run_tables
from spangrade.evaluator.session import Latency, Session

SHOP = ["shop"]  # a reference trajectory that sessions meet unless they say otherwise
FIT = question(trajectory=SHOP)
FULL = Score(1)


NO_REFERENCE = (
    "the golden question has no reference; add reference_data, or request a gate (--metric NAME>=T)"
)


def graded(
    made: Session, asked: GoldenQuestion | Sequence[GoldenQuestion], requested: Sequence[Metric] = ()
) -> Grade:
    questions = (asked,) if isinstance(asked, GoldenQuestion) else tuple(asked)
    return next(grade([made], GoldenDataset(golden_questions=questions), requested))


def said(text: str = "hi", **changes: Any) -> Session:
    return session([(text, ())], **changes)


def gate(name: str, outcome: Outcome = FULL, **changes: Any) -> Metric:
    return Metric(name, lambda made, asked=None: outcome, **{"threshold": 0.5, **changes})


@pytest.mark.parametrize(
    ("requested", "passes"),
    [
        ("latency_metrics<=5", False),
        ("cost", False),
        ("trajectory:recall", False),
        ("tool_usage_accuracy@judge", False),  # without a threshold it is only reported
        ("tools:recall>=0", True),
        ("tool_usage_accuracy>=0", True),
    ],
)
def test_a_requested_gate_replaces_only_the_gate_of_its_reference(requested: str, passes: bool) -> None:
    one = graded(said(), question(trajectory=SHOP, tools=["pay"]), parse_metrics([requested]))
    missed = (Verdict.FAILED, "tool_usage_accuracy: missing: pay")
    assert one[2:4] == ((Verdict.PASSED, "") if passes else missed)


def test_references_are_dropped_by_name_or_all() -> None:
    dataset = GoldenDataset(golden_questions=(question(trajectory=SHOP, tools=["pay"], agents=["other"]),))
    limit = [parse_metric("latency_metrics<=5")]
    names = ["reference_tool_interactions", "agents_evaluated"]

    def verdict(without: frozenset[str], requested: Sequence[Metric] = limit) -> tuple[Verdict, str]:
        (one,) = grade([said()], dataset, requested, without)
        return one.verdict, one.reason

    assert verdict(dropped_references(names[:1])) == (
        Verdict.FAILED,
        "agent_routing: did not take part: other; took part: shop",
    )
    assert verdict(dropped_references(names)) == (Verdict.PASSED, "")
    assert verdict(dropped_references([], every=True)) == (Verdict.PASSED, "")
    assert verdict(dropped_references([], every=True), []) == (
        Verdict.INCONCLUSIVE,
        (
            "nothing to compare with: no gate reads reference_tool_interactions, reference_trajectory; "
            "request one that does (--metric NAME>=T)"
        ),
    )
    with pytest.raises(InputError, match='no reference "trajectory"; did you mean "reference_trajectory"'):
        dropped_references(["trajectory"])


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ({}, NO_REFERENCE),
        ({"tone": "rude", "mood": 1}, "no gate reads tone, mood; request one that does (--metric NAME>=T)"),
    ],
)
def test_a_question_without_anything_to_compare_with_is_inconclusive(
    reference: dict[str, Any], why: str
) -> None:
    asked = question(**reference)
    assert graded(said(), asked)[2:4] == (Verdict.INCONCLUSIVE, f"nothing to compare with: {why}")
    assert graded(said(agents=["other"]), asked).verdict is Verdict.FAILED  # for its agents
    assert graded(said(), asked, [parse_metric("latency_metrics<=5")])[2:4] == (Verdict.PASSED, "")


def test_a_gate_for_agents_that_took_no_part_is_neutral_for_the_session() -> None:
    shop, cashier = (gate(name, Score(0, reason="low"), agents=(name,)) for name in ("shop", "cashier"))
    one = graded(said(), FIT, [cashier])
    assert one[2:4] == (Verdict.PASSED, "")
    assert one.outcomes["cashier"] == NotApplicable("none of its agents took part: cashier")
    assert graded(said(), FIT, [shop, cashier])[2:4] == (Verdict.FAILED, "shop: 0, expected >= 0.5: low")
    assert graded(said(), question(), [cashier])[2:4] == (
        Verdict.INCONCLUSIVE,
        f"nothing to compare with: {NO_REFERENCE}",
    )
    for unknown in ({"agents": None}, {"missing_spans": 1}, {"sampled": True}):
        outcome = graded(said(**unknown), FIT, [cashier]).outcomes["cashier"]
        assert outcome == Inconclusive(
            "whether any of its agents took part is not recorded: cashier; "
            "name the agents on the spans (gen_ai.agent.name)"
        )


def test_a_gate_that_is_not_applicable_does_not_replace_a_default_gate() -> None:
    own = gate("own", needs="reference_tool_interactions", agents=("cashier",))
    one = graded(said(), question(tools=["pay"]), [own])
    assert one[2:4] == (Verdict.FAILED, "tool_usage_accuracy: missing: pay")


def test_a_metric_may_say_itself_that_it_is_not_applicable() -> None:
    one = graded(said(), FIT, [gate("own", NotApplicable("no refund"))])
    assert (one.verdict, one.outcomes["own"]) == (Verdict.PASSED, NotApplicable("no refund"))


def test_a_gate_that_applies_to_no_session_makes_the_run_inconclusive() -> None:
    gates = [gate("typo", agents=("shpo",)), gate("fits", agents=("shop",))]
    run = Run(gates=[one.name for one in gates])
    for session_id in ("s1", "s2"):
        run.add(graded(said(session_id=session_id), FIT, gates))
    assert run.exit_code is ExitCode.INCONCLUSIVE
    assert str(run) == "2 sessions: 2 passed; 1 gate applies to no session: typo"
    assert run.to_json()["unapplied_gates"] == ["typo"]
    assert run.to_json()["metrics"]["typo"]["not_applicable"] == 2
    assert Run(gates=["typo"]).to_json()["metrics"]["typo"]["scores"] == 0
    screen = StringIO()
    Console(file=screen, width=200).print(run_tables(run, every=True))
    assert "│ typo " in screen.getvalue()


def test_requested_gates_that_need_no_reference_judge_sessions_without_a_question() -> None:
    limit, recall = parse_metrics(["latency_metrics<=0.5", "trajectory:recall>=1"])
    stray = said("bye")
    judged = graded(stray, FIT, [limit])
    assert judged.reason.startswith("latency_metrics: ")
    assert judged[:3] == ("s1", None, Verdict.FAILED)
    assert graded(stray, FIT, [recall, limit]) == judged
    unmatched = (Verdict.UNMATCHED, "no golden question has its user inputs")
    assert graded(stray, FIT, [recall])[2:4] == unmatched
    assert graded(stray, FIT, [gate("own", Score(0), agents=("cashier",))])[2:4] == unmatched
    assert graded(stray, FIT, [parse_metric("latency_metrics<=5")])[2:4] == (Verdict.PASSED, "")
    either = [question(id="qa"), question(id="qb", tone="kind")]
    assert graded(said(), either, [limit])[:4] == judged[:4]


def test_an_unmatched_session_counts_only_if_a_match_is_required() -> None:
    verdicts = [Verdict.PASSED, Verdict.UNMATCHED]
    assert (exit_code(verdicts), exit_code(verdicts, require_match=True)) == (0, 4)
    assert exit_code([Verdict.PASSED], require_match=True) == 0
    run = Run(require_match=True)
    run.add(graded(said("bye"), FIT))
    assert run.exit_code is ExitCode.INCONCLUSIVE


OUTCOMES: dict[Verdict, Outcome] = {  # the gravest first
    Verdict.BROKEN: Failure("broke"),
    Verdict.FAILED: Score(0, reason="low"),
    Verdict.INCONCLUSIVE: Inconclusive("unknown"),
    Verdict.PASSED: Score(1),
}
EXITS = dict(zip(OUTCOMES, (3, 1, 4, 0), strict=True))


@pytest.mark.parametrize(
    "present",
    [subset for size in range(1, 5) for subset in combinations(OUTCOMES, size)],
    ids="+".join,
)
def test_broken_comes_before_failed_before_inconclusive_before_passed(present: tuple[Verdict, ...]) -> None:
    for order in (present, present[::-1]):
        gates = [gate(verdict.value, OUTCOMES[verdict]) for verdict in order]
        assert graded(said(), FIT, gates).verdict is present[0]
        assert graded(said("bye"), FIT, gates).verdict is present[0]
        assert exit_code(order) == EXITS[present[0]]


def test_a_requested_gate_on_the_words_of_the_reply_replaces_its_comparison() -> None:
    asked = question(reference_response="ok then")  # the reply is "ok"
    one = graded(said(), asked, [parse_metric("response_match>=0.6")])
    assert one[2:4] == (Verdict.PASSED, "")
    assert "final_response_match" not in one.outcomes
    assert "response_match" not in graded(said(), FIT).outcomes  # without the reference it is not reported


@pytest.mark.parametrize(
    ("limits", "known", "verdict", "reason"),
    [
        ({"max_cost_usd": 0.25, "max_latency_s": 2}, (0.25, 2.0), Verdict.PASSED, ""),
        (
            {"max_cost_usd": 0.25, "max_latency_s": 2},
            (0.5, 3.0),
            Verdict.FAILED,
            "max_cost_usd: 0.5 USD, expected at most 0.25; max_latency_s: 3 s, expected at most 2",
        ),
        ({"max_cost_usd": 0.25}, (None, 2.0), Verdict.INCONCLUSIVE, "max_cost_usd: the cost is not known; "),
        (
            {"max_cost_usd": 0.005},
            (None, 2.0),
            Verdict.FAILED,
            "max_cost_usd: at best 2: the cost is not kno",
        ),
        ({"max_latency_s": 2}, (0.25, None), Verdict.INCONCLUSIVE, "max_latency_s: the duration of these"),
    ],
)
def test_a_question_limits_cost_and_latency(
    limits: dict[str, float], known: tuple[float | None, float | None], verdict: Verdict, reason: str
) -> None:
    made = said(cost_usd=known[0], latency=Latency(total_s=known[1]), llm_calls=(llm(),))
    one = graded(made, question(**limits))
    assert (one.verdict, one.reason[: len(reason)]) == (verdict, reason)
    kept = {name: one.outcomes[name] for name in ("max_cost_usd", "max_latency_s") if name in one.outcomes}
    assert len(kept) == len(limits)


def test_a_limit_that_the_recorded_part_exceeds_is_missed_whatever_is_missing() -> None:
    made = said(cost_usd=0.5, missing_spans=1)
    assert graded(made, question(max_cost_usd=0.25)).verdict is Verdict.FAILED
    assert graded(made, question(max_cost_usd=1)).verdict is Verdict.INCONCLUSIVE


def test_a_metric_that_breaks_on_one_of_the_questions_that_a_session_may_answer_breaks_it() -> None:
    def measure(_: Session, asked: GoldenQuestion | None = None) -> Outcome:
        return Failure("no network") if asked is not None and asked.id == "b" else FULL

    questions = [question(id="a", trajectory=SHOP), question(id="b", trajectory=["other"])]
    broken = graded(said(), questions, [Metric("mine", measure, needs="agents_evaluated", threshold=0.5)])
    assert broken[2:4] == (Verdict.BROKEN, "mine: no network")
