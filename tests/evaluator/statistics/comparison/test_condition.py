"""`--fail-if`: a condition fails or passes only if the whole interval of the loss says so."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from paths import SHARED

from spangrade import ExitCode, InputError
from spangrade.evaluator.statistics.comparison.by_question import ByQuestion
from spangrade.evaluator.statistics.comparison.compare import Comparison, MetricChange, compare
from spangrade.evaluator.statistics.comparison.condition import (
    Compared,
    Condition,
    ConditionOutcome,
    ConditionResult,
    LossCondition,
    RegressedCondition,
    WorseCondition,
    judge,
    parse_condition,
)
from spangrade.evaluator.statistics.comparison.differences import Tested as Difference
from spangrade.evaluator.statistics.comparison.differences import TooLittle, paired_difference
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.comparison.pairs import OneSide, Pairs
from spangrade.evaluator.statistics.comparison.sample import PASSED, Measured, Sample, passed

RUN = Sample("a", "a", (), {}, {}, {}, {})
SHARE = Measured(True, (0.0, 1.0), "share")
RATING = Measured(True, (1.0, 5.0), "score")
COST = Measured(False, (0.0, math.inf), "USD")
FEW = TooLittle("9 questions; at least 10 are needed", 10)
EQUAL = TooLittle("most of the values are equal")


def difference(low: float, high: float, estimate: float, questions: int, *, is_ratio: bool) -> Difference:
    return Difference(estimate, lambda _: (low, high), 0.5, questions, "paired t", is_ratio)


def compared(measured: Measured, found: Difference | TooLittle, questions: int = 100) -> Comparison:
    side = OneSide(ByQuestion.of([(0.5,)] * questions), np.zeros(questions, int))
    pairs = Pairs(side, side, is_paired=True)
    change = MetricChange("m", measured, 0.9, 0.8, questions, found, 0.5, pairs)
    return Comparison(RUN, RUN, (change,), (), (), (), (), (), (), pairs)


def share(estimate: float, low: float, high: float, questions: int = 100) -> Comparison:
    return compared(SHARE, difference(low, high, estimate, questions, is_ratio=False))


def factor(estimate: float, low: float, high: float) -> Comparison:
    return compared(COST, difference(low, high, estimate, 100, is_ratio=True))


@pytest.mark.parametrize(
    ("text", "comparison", "outcome"),
    [
        ("m worse by 0.02", share(-0.10, -0.15, -0.05), ConditionOutcome.FAILED),
        ("m worse by 0.02", share(0.10, 0.05, 0.15), ConditionOutcome.PASSED),
        ("m worse by 0.02", share(0.0, -0.01, 0.01), ConditionOutcome.PASSED),
        ("m worse by 0.02", share(0.0, -0.05, 0.05), ConditionOutcome.UNSETTLED),
        ("m worse by 0.2", share(-0.10, -0.15, -0.05), ConditionOutcome.PASSED),
        ("m worse by 10%", factor(1.3, 1.2, 1.4), ConditionOutcome.FAILED),
        ("m worse by 10%", factor(1.0, 0.95, 1.05), ConditionOutcome.PASSED),
        ("m worse by 10%", factor(1.1, 0.9, 1.3), ConditionOutcome.UNSETTLED),
        ("m worse by 10%", factor(0.5, 0.4, 0.6), ConditionOutcome.PASSED),
    ],
)
def test_the_whole_interval_decides(text: str, comparison: Comparison, outcome: ConditionOutcome) -> None:
    assert judge(parse_condition(text), comparison).outcome is outcome


def test_an_unsettled_gate_names_the_questions_that_would_settle_it() -> None:
    # The loss is 0 ± 0.05, the margin 0.02 away: (0.05 / 0.02)² × 100 questions
    assert judge(parse_condition("m worse by 0.02"), share(0.0, -0.05, 0.05)) == ConditionResult(
        "m worse by 0.02",
        ConditionOutcome.UNSETTLED,
        "worse by 0 (-0.05 to 0.05); "
        "if nothing changed, between 985 and 1,724 questions settle it with 80% power",
        "a loss of 2 points (0.02)",
        (985, 1724),
    )
    assert judge(parse_condition("m worse by 0"), share(0.0, -0.05, 0.05)).questions is None
    assert judge(parse_condition("m worse by 5%"), compared(COST, FEW, 9)) == ConditionResult(
        "m worse by 5%",
        ConditionOutcome.UNSETTLED,
        "0.9, then 0.8 USD, without an interval: 9 questions; at least 10 are needed",
        "a mean 5% higher",
        (10, 10),
    )


def flips(gained: int, lost: int, questions: int) -> Comparison:
    values = [(0.0, 1.0)] * gained + [(1.0, 0.0)] * lost + [(1.0, 1.0)] * (questions - gained - lost)
    return compared(
        SHARE, paired_difference([(a,) for a, _ in values], [(b,) for _, b in values], (0.0, 1.0)), questions
    )


def test_flips_are_judged_by_the_exact_test_at_the_margin() -> None:
    """Without a flip, 0.9 to the power of 36 is the first below 0.025: with 35 questions 0.1 could hide."""
    outcomes = [judge(parse_condition("m worse by 10%"), flips(0, 0, n)).outcome for n in (35, 36)]
    assert outcomes == [ConditionOutcome.UNSETTLED, ConditionOutcome.PASSED]
    assert judge(parse_condition("m worse by 0"), flips(0, 6, 7)).outcome is ConditionOutcome.FAILED
    assert judge(parse_condition("m worse by 0.05"), flips(6, 6, 60)).questions == (402, 1004)


def test_the_exit_code_is_that_of_the_gravest_gate() -> None:
    failed, unsettled = (
        ConditionResult("a", ConditionOutcome.FAILED, ""),
        ConditionResult("b", ConditionOutcome.UNSETTLED, ""),
    )
    comparison = share(0.0, 0.0, 0.0)
    assert Compared(comparison).exit_code() is ExitCode.PASSED
    assert Compared(comparison, (unsettled, failed)).exit_code(inconclusive_ok=True) is ExitCode.FAILED
    assert Compared(comparison, (unsettled,)).exit_code() is ExitCode.INCONCLUSIVE
    assert Compared(comparison, (unsettled,)).exit_code(inconclusive_ok=True) is ExitCode.PASSED


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (
            "tools:recall:exact worse by .5",
            LossCondition("tools:recall:exact worse by .5", "tools:recall:exact", 0.5),
        ),
        (" cost  worse by 10 % ", LossCondition("cost  worse by 10 %", "cost", 0.1, "%")),
        ("passed worse by 5 points", LossCondition("passed worse by 5 points", "passed", 0.05, "point")),
        ("regressed > 2", RegressedCondition("regressed > 2", 2)),
        (" worse ", WorseCondition("worse")),
    ],
)
def test_conditions_are_read(text: str, condition: Condition) -> None:
    assert parse_condition(text) == condition


@pytest.mark.parametrize(
    "text", ["", "m", "m worse by", "m worse by -1", "m better by 1", "m worse by x", "regressed > -1"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected METRIC worse by MARGIN"):
        parse_condition(text)


def test_the_word_of_before_is_refused_with_the_one_of_now() -> None:
    with pytest.raises(InputError, match=r"did you mean 'regressed > 2'\?"):
        parse_condition("broken > 2")


@pytest.mark.parametrize(
    ("text", "comparison", "message"),
    [
        ("x worse by 1", share(0, 0, 0), "x is not in both; there are m"),
        ("m worse by 5", share(0, 0, 0), "lies between 0 and 1; expected a margin such as 5%, 5 points or"),
        ("m worse by 100%", share(0, 0, 0), "lies between 0 and 1; expected a margin such as 5%"),
        ("m worse by 5%", compared(RATING, EQUAL), "lies between 1 and 5; expected a margin in its unit"),
        ("m worse by 1", factor(1.1, 1, 1.2), "is compared as a factor; expected a margin such as 10%"),
        ("m worse by 5 points", factor(1.1, 1, 1.2), "is not a share; expected a margin such as 10%"),
        ("m worse by 1", compared(Measured(None, (0, 1), "share"), FEW), "m has no better direction"),
    ],
)
def test_a_margin_of_another_kind_is_refused(text: str, comparison: Comparison, message: str) -> None:
    with pytest.raises(InputError, match=message):
        judge(parse_condition(text), comparison)


TRIALS = SHARED / "data/tau_bench/sessions.jsonl"


@pytest.mark.skipif(not TRIALS.exists(), reason="needs the recorded trials")
def test_broken_is_red_between_any_two_trials_of_one_unchanged_agent_and_worse_between_none() -> None:
    """Of 50 questions of tau-bench, asked four times of one gpt-4o, 5 to 10 break from trial to trial."""
    sessions = [json.loads(line) for line in TRIALS.read_text().splitlines()]
    runs = []
    for trial in range(4):
        graded = tuple(
            Graded(one["id"], one["question_id"], "passed" if one["scores"]["reward"] else "failed", "")
            for one in sessions
            if one["trial"] == trial
        )
        runs.append(replace(RUN, graded=graded, values={PASSED: passed(graded)}))
    pairs = [compare(*pair) for pair in permutations(runs, 2)]
    found = {
        text: Counter(judge(parse_condition(text), pair).outcome for pair in pairs)
        for text in ("regressed > 0", "worse", "passed worse by 5 points")
    }
    assert found == {
        "regressed > 0": {ConditionOutcome.FAILED: 12},
        "worse": {ConditionOutcome.PASSED: 7, ConditionOutcome.UNSETTLED: 5},
        "passed worse by 5 points": {ConditionOutcome.UNSETTLED: 12},
    }
    broken = [len(pair.passed.flipped[0]) for pair in pairs]
    assert (min(broken), max(broken)) == (5, 10)
