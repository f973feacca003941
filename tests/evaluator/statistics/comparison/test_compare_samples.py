"""Two samples compared: what a defect shifts is found, which sessions flip, and what is not comparable."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from found_shifts import DEFECTS, METRICS, shares

from spangrade.evaluator.reports.comparison import comparison_markdown
from spangrade.evaluator.reports.comparison_head import headlines
from spangrade.evaluator.statistics.comparison.compare import Change, Flip, compare, difference_of
from spangrade.evaluator.statistics.comparison.condition import ConditionOutcome, judge, parse_condition
from spangrade.evaluator.statistics.comparison.differences import Difference, TooLittle
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.comparison.sample import PASSED, Measured, Sample, passed, undecided
from spangrade.tracer.base.terminal import counted

SHARE = Measured(True, (0.0, 1.0), "share")


def sample(*graded: Graded, metrics: dict[str, Measured] | None = None) -> Sample:
    return Sample("run", None, graded, {PASSED: passed(graded)}, {}, metrics or {}, {})


def session(
    name: str, question: str | None, verdict: str, path: tuple[str, ...] | None = (), reason: str = ""
) -> Graded:
    return Graded(name, question, verdict, reason or f"{name} {verdict}", path)


@pytest.mark.exhaustive
def test_what_a_defect_shifts_is_found_and_nothing_else() -> None:
    """A short form of what .ci/long runs, with a fixed seed: 91% to 99% there, a few by chance less here."""
    found = shares(repetitions=12)
    assert found.keys() == DEFECTS.keys()
    assert sum(found.values()) / len(found) >= 0.93
    assert set().union(*DEFECTS.values()) == METRICS.keys()


def test_a_question_flips_if_fewer_of_its_sessions_pass() -> None:
    before = [session(f"a{n}", "q", "passed", ("look_up", "refund")) for n in range(3)]
    after = [
        session("b0", "q", "passed", ("look_up", "refund")),
        session("b1", "q", "failed", ("look_up", "cancel"), "refund is missing"),
        session("b2", "q", "passed", ("look_up", "refund")),
    ]
    flip = Flip("q", tuple(before), tuple(after), "refund is missing", "step 2: refund, then cancel")
    there = compare(sample(*before), sample(*after))
    assert (there.regressed, there.fixed) == ((flip,), ())
    back = compare(sample(*after), sample(*before))
    assert (back.regressed, back.fixed) == (
        (),
        (flip._replace(first=flip.second, second=flip.first, step="step 2: cancel, then refund"),),
    )


def test_what_is_inconclusive_on_one_side_has_the_reason_of_that_side() -> None:
    failed = session("a", "q", "failed", ("look_up",), "refund is missing")
    unknown = session("b", "q", "inconclusive", None, "no spans")
    there = compare(sample(failed), sample(unknown))
    assert there.inconclusive_in_second == (Flip("q", (failed,), (unknown,), "no spans", ""),)
    assert (there.inconclusive_in_first, there.regressed, there.fixed) == ((), (), ())
    back = compare(sample(unknown), sample(failed))
    assert back.inconclusive_in_first == (Flip("q", (unknown,), (failed,), "no spans", ""),)
    assert back.inconclusive_in_second == ()


def test_equal_verdicts_are_no_flip() -> None:
    for verdict in ("passed", "failed", "inconclusive", "broken", "unmatched"):
        there = compare(sample(session("a", "q", verdict)), sample(session("b", "q", verdict, ("other",))))
        assert (there.regressed, there.fixed) == ((), ())
        assert (there.inconclusive_in_first, there.inconclusive_in_second) == ((), ())


def test_sessions_are_averaged_by_question_before_they_are_compared() -> None:
    """20 questions of three sessions, of which one breaks: 1 in 20 questions by a third."""
    before = [session(f"a{q}.{n}", f"q{q}", "passed") for q in range(20) for n in range(3)]
    after = [
        session(f"b{q}.{n}", f"q{q}", "failed" if q == n == 0 else "passed")
        for q in range(20)
        for n in range(3)
    ]
    (change,) = compare(sample(*before), sample(*after)).metrics
    assert not isinstance(change.difference, TooLittle)
    assert (change.questions, change.difference.estimate) == (20, pytest.approx(-1 / 60))
    assert (change.first, change.second) == (1.0, pytest.approx(59 / 60))


def test_questions_are_paired_if_any_is_in_both_and_the_others_of_the_first_are_unknown() -> None:
    common = [session(f"c{n}", f"q{n}", "passed") for n in range(9)]
    others = [[session(f"{side}{n}", f"{side}{n}", "passed") for n in range(3)] for side in "ab"]
    (change,) = compare(sample(*common, *others[0]), sample(*common, *others[1])).metrics
    assert (change.pairs.is_paired, change.questions, change.pairs.total) == (True, 9, 12)
    (unknown,) = compare(sample(*others[0]), sample(*others[1])).metrics
    assert (unknown.pairs.comparable, unknown.pairs.total) == (0, 3)
    (apart,) = compare(sample(*others[0]), sample(*others[1]), allow_changed=True).metrics
    assert (apart.pairs.is_paired, apart.questions, apart.change) == (False, 3, Change.NONE)


def test_another_version_and_other_gates_are_noted() -> None:
    old = SHARE._replace(versions=("1",), thresholds=(0.8,))
    new = SHARE._replace(versions=("1", "2"), thresholds=(None,))
    sides = [
        sample(session(f"s{n}", "q", "passed"), metrics={"tone": measured})
        for n, measured in enumerate((old, new))
    ]
    sides = [replace(side, values={**side.values, "tone": {"q": (1.0,)}}) for side in sides]
    changes = {change.metric: change for change in compare(*sides).metrics}
    version = "another version of tone: 1, then 1 and 2"
    assert {name: change.note for name, change in changes.items()} == {
        PASSED: f"the gate tone is gone; {version}",
        "tone": version,
    }
    assert {change.difference for change in changes.values()} == {TooLittle("no question can be compared")}
    allowed = compare(*sides, allow_changed=True).metrics
    assert [(change.questions, change.note) for change in allowed] == [
        (1, changes[PASSED].note), (1, version)
    ]  # fmt: skip


def test_metrics_of_one_side_only_are_named() -> None:
    one = sample(session("a", "q", "passed"))
    both = replace(one, values={**one.values, "tone": {"q": (1.0,)}})
    found, other_way = compare(one, both), compare(both, one)
    assert (found.metrics_only_in_first, found.metrics_only_in_second) == ((), ("tone",))
    assert (other_way.metrics_only_in_first, other_way.metrics_only_in_second) == (("tone",), ())
    unknown = replace(one, unknown={**one.unknown, "tone": {"q": 1}}, metrics={"tone": SHARE})
    both = replace(both, metrics={"tone": SHARE})
    for found in (compare(unknown, both), compare(both, unknown)):
        assert (found.metrics_only_in_first, found.metrics_only_in_second) == ((), ())
        assert [change.metric for change in found.metrics] == [PASSED, "tone"]


def test_another_judge_is_not_compared_and_one_judge_is_taken_at_its_word() -> None:
    rated = {"final_response_match": {"q": (1.0,)}}
    first, second = (
        replace(sample(session(name, "q", "passed")), values=rated, judges=("gemini/flash",)) for name in "ab"
    )
    (same,) = compare(first, second).metrics
    assert (same.note, same.questions) == ("", 1)
    assert "gemini/flash taken at its word in final_response_match" in comparison_markdown(
        compare(first, second)
    )
    (other,) = compare(first, replace(second, judges=("openai/mini",))).metrics
    assert (other.note, other.questions) == (
        "another judge of final_response_match: gemini/flash, then openai/mini", 0
    )  # fmt: skip


def test_an_interval_of_a_share_stays_within_what_it_can_lose() -> None:
    """Of 30 questions 28 fall from 1 to 0, and 2 to a half: Student's t would go on to -1.01."""
    after = [(0.0,)] * 28 + [(0.5,)] * 2
    found = difference_of([(1.0,)] * 30, after, SHARE, is_paired=True).at()
    assert isinstance(found, Difference)
    assert (found.method, found.low) == ("paired t", -1.0)


COST, CHANGE = Measured(False, (0.0, math.inf), "USD"), Measured(None, (-math.inf, math.inf), "number")
KINDS = {
    "right": SHARE,
    "recall": SHARE,
    "tone": Measured(True, (1.0, 5.0), "score"),
    "cost": COST,
    "delta": CHANGE,
    "errors": COST,
}


def random_run(seed: int, questions: int, loss: float, *, is_second: bool) -> Sample:
    """Return a run of questions of one to three sessions, in which every metric is worse by about `loss`."""
    random = np.random.default_rng((seed, is_second))
    hard = np.random.default_rng(seed).random(questions)  # of the question, in both runs

    def drawn(name: str, question: int) -> float:
        share = float(np.clip(1 - 0.4 * hard[question] - loss * is_second + random.normal(0, 0.1), 0, 1))
        is_right = float(random.random() < share)
        cost = float(random.lognormal(2 * hard[question] + loss * is_second, 0.3))
        of_kind = {"right": is_right, "recall": round(share * 4) / 4, "tone": 1 + 4 * share, "cost": cost}
        return {**of_kind, "delta": share + random.normal(0, 0.3), "errors": (1 - is_right) * cost}[name]

    sessions, values = [], {name: {} for name in KINDS}
    for question in range(questions):
        key, number = f"q{question:03}", int(random.integers(1, 4))
        for name in KINDS:
            values[name][key] = tuple(drawn(name, question) for _ in range(number))
        verdicts = ("failed", "passed")
        sessions += [
            session(f"{key}.{n}.{is_second}", key, verdicts[int(value)])
            for n, value in enumerate(values["right"][key])
        ]
    made = sample(*sessions, metrics=KINDS)
    return replace(made, values={**values, **made.values})


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.short_form("seed", 2)
def test_no_interval_contradicts_its_word_or_its_p_value(seed: int) -> None:
    """Random runs, unchanged and worse, of few questions and many."""
    questions = (5, 9, 12, 25, 40, 210)[seed % 6]
    loss = (0.0, 0.05, 0.12, 0.3)[seed % 4]
    runs = [random_run(seed, questions, loss, is_second=is_second) for is_second in (False, True)]
    gated = list(KINDS)[: seed % 3]
    changes = {change.metric: change for change in compare(*runs, named=gated).metrics}
    assert changes.keys() == {PASSED, *KINDS}
    assert (changes[PASSED].error, changes[PASSED].corrected_p) == (0.05, changes[PASSED].tested.p_value)
    for change in changes.values():
        assert change.corrected_p is not None
        is_shown = change.change not in (Change.NONE, Change.TOO_LITTLE)
        assert is_shown is (change.corrected_p <= 0.05)
        if not isinstance(found := change.difference, TooLittle):
            none = 1.0 if found.is_ratio else 0.0
            assert is_shown is not (found.low <= none <= found.high)
            assert found.low <= found.estimate <= found.high
            is_better = (found.estimate > none) is change.measured.higher_is_better
            if is_shown and change.measured.higher_is_better is not None:
                assert change.change is (Change.BETTER if is_better else Change.WORSE)


def run_with_unknown(seed: int, questions: int, loss: float, unknown: float, *, is_second: bool) -> Sample:
    """Return a run of which a share is not known: inconclusive, broken, unanswered."""
    random = np.random.default_rng((seed, is_second))
    hard = np.random.default_rng(seed).random(questions)
    graded, unanswered = [], set()
    for question in range(questions):
        key = f"q{question:03}"
        if question and random.random() < unknown / 3:
            unanswered.add(key)
            continue
        for n in range(int(random.integers(1, 4))):
            is_right = random.random() < 0.9 - 0.3 * hard[question] - loss * is_second
            verdict = "passed" if is_right else "failed"
            if random.random() < unknown:
                verdict = "inconclusive" if random.random() < 0.7 else "broken"
            graded.append(session(f"{key}.{n}.{is_second}", key, verdict))
    return replace(
        sample(*graded), unknown={PASSED: undecided(graded, unanswered)}, unanswered=frozenset(unanswered)
    )


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.short_form("seed", 4)
def test_the_headline_the_gates_and_the_interval_of_passed_do_not_contradict_each_other(seed: int) -> None:
    """Random runs with inconclusive and broken sessions, and unanswered questions."""
    questions, unknown = (1, 4, 12, 30, 60)[seed % 5], (0.0, 0.05, 0.3)[seed % 3]
    loss = (0.0, 0.1, 0.4, -0.1)[seed % 4]
    runs = [
        run_with_unknown(seed, questions, loss, unknown, is_second=is_second) for is_second in (False, True)
    ]
    comparison = compare(*runs)
    pairs = comparison.passed
    regressed, fixed = pairs.flipped
    found = [one.key for one in comparison.regressed], [one.key for one in comparison.fixed]
    assert found == (regressed, fixed)
    (passed_change,) = comparison.metrics
    gates = {
        text: judge(parse_condition(text), comparison)
        for text in ("worse", "regressed > 0", "passed worse by 5%", "passed worse by 30%")
    }
    worse, is_all_known = gates["worse"], pairs.comparable == pairs.total
    lines = headlines(comparison)
    if passed_change.first is not None:
        of_known = "" if is_all_known else " by what is known"
        assert lines[0] == f"{comparison.flips}: {passed_change.change}{of_known}"
        assert comparison_markdown(comparison).splitlines()[2] == lines[0]
    assert comparison.flips.startswith(f"{len(regressed)} regressed, {len(fixed)} fixed")
    assert worse.reason.startswith(f"{counted(len(regressed), 'question')} regressed")
    assert f", {len(fixed)} fixed" in worse.reason
    assert (gates["regressed > 0"].outcome is ConditionOutcome.FAILED) is bool(regressed)
    assert gates["regressed > 0"].reason.startswith(f"{counted(len(regressed), 'question')} regressed")
    shown = passed_change.change
    if worse.outcome is ConditionOutcome.FAILED:
        assert shown is Change.WORSE
        assert gates["regressed > 0"].outcome is ConditionOutcome.FAILED
    elif worse.outcome is ConditionOutcome.PASSED:
        assert shown is not Change.WORSE
        assert gates["passed worse by 5%"].outcome is not ConditionOutcome.FAILED
    if is_all_known:
        assert (worse.outcome is ConditionOutcome.FAILED) is (shown is Change.WORSE)
    margins = [gates[f"passed worse by {margin}%"].outcome for margin in (5, 30)]
    assert margins not in (
        [ConditionOutcome.PASSED, ConditionOutcome.FAILED],
        [ConditionOutcome.PASSED, ConditionOutcome.UNSETTLED],
        [ConditionOutcome.UNSETTLED, ConditionOutcome.FAILED],
    )


def test_what_is_unknown_is_no_part_of_what_broke_in_the_headline() -> None:
    """One of two sessions passed; then one failed, and the other is inconclusive: it may have passed."""
    before = [session("a0", "q", "passed"), session("a1", "q", "failed")]
    after = [session("b0", "q", "failed"), session("b1", "q", "inconclusive")]
    first, second = sample(*before), sample(*after)
    comparison = compare(first, replace(second, unknown={PASSED: undecided(after, ())}))
    assert headlines(comparison)[0] == (
        "0 regressed, 0 fixed, 1 not known any more: no difference shown by what is known"
    )
    assert [one.key for one in comparison.inconclusive_in_second] == ["q"]
    assert judge(parse_condition("worse"), comparison).reason == (
        "0 questions regressed, 0 fixed, and of 1 more question it is not known: the test cannot tell"
    )


def test_metrics_that_nobody_asked_for_do_not_hide_that_questions_broke() -> None:
    """7 of 60 questions break and none is fixed, beside 10 metrics that did not change."""
    before = [session(f"a{n}", f"q{n}", "passed") for n in range(60)]
    after = [session(f"b{n}", f"q{n}", "failed" if n < 7 else "passed") for n in range(60)]
    values = {f"m{m}": {f"q{n}": (1.0,) for n in range(60)} for m in range(10)}
    runs = [sample(*sessions, metrics=dict.fromkeys(values, SHARE)) for sessions in (before, after)]
    comparison = compare(*(replace(run, values={**values, **run.values}) for run in runs))
    assert headlines(comparison) == [
        "7 regressed, 0 fixed: worse",
        "60 of 60 questions (100%) can be compared",
    ]
    passed = next(change for change in comparison.metrics if change.metric == PASSED)
    assert (passed.corrected_p, passed.difference.high < 0) == (pytest.approx(0.0081, abs=1e-4), True)


def test_a_question_that_broke_whatever_is_unknown_of_it_counts_in_the_gates_as_in_the_headline() -> None:
    """All its sessions passed; then one of three failed, and another is inconclusive."""
    before = [session(f"a{n}", "q", "passed") for n in range(2)]
    verdicts = ("failed", "passed", "inconclusive")
    after = [session(f"b{n}", "q", verdict) for n, verdict in enumerate(verdicts)]
    comparison = compare(sample(*before), sample(*after))
    results = [judge(parse_condition(text), comparison) for text in ("regressed > 0", "worse")]
    assert headlines(comparison)[0].startswith("1 regressed, 0 fixed: ")
    assert [(one.outcome, one.reason.partition(":")[0]) for one in results] == [
        ("failed", "1 question regressed"),
        ("inconclusive", "1 question regressed (q), 0 fixed"),
    ]
    back = compare(sample(*after), sample(*before))
    assert headlines(back)[0].startswith("0 regressed, 1 fixed: ")
    assert judge(parse_condition("worse"), back).reason == "0 questions regressed, 1 fixed"
