"""Differences of two samples: values worked out by hand, too little data, how often intervals are right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import pytest
from coverage_of_intervals import CONTINUOUS, LOWEST, shares

from spangrade.evaluator.statistics.comparison.differences import (
    Difference,
    Flips,
    TooLittle,
    holm,
    paired_difference,
    unpaired_difference,
)

SHARE = (0.0, 1.0)
POSITIVE = (0.0, math.inf)


def rounded(difference: Difference | TooLittle) -> tuple[float | str | int | bool | Flips | None, ...]:
    assert isinstance(difference, Difference)
    return tuple(round(value, 4) if isinstance(value, float) else value for value in difference)


def paired(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], bounds: tuple[float, float]
) -> Difference | TooLittle:
    first, second = zip(*pairs, strict=True)
    return paired_difference(first, second, bounds).at()


def test_shares_of_the_same_questions_have_the_exact_interval() -> None:
    pairs = [((1.0,), (0.0,))] * 6 + [((0.0,), (1.0,))] + [((1.0,), (1.0,))] * 13
    assert rounded(paired(pairs, SHARE)) == (
        -0.25, -0.504, 0.0172, 0.0731, 20, "exact", False, Flips(1.0, 6.0), 1.0, 0.05
    )  # fmt: skip


def test_shares_of_different_questions_follow_agresti_and_caffo() -> None:
    # (9 + 1) / 12 - (7 + 1) / 12 ± 1.96 × sqrt(0.1389 / 12 + 0.2222 / 12)
    first, second = [(1.0,)] * 7 + [(0.0,)] * 3, [(1.0,)] * 9 + [(0.0,)]
    assert rounded(unpaired_difference(first, second, SHARE).at()) == (
        0.2, -0.1733, 0.5067, 0.3367, 10, "Agresti-Caffo", False, None, 1.0, 0.05
    )  # fmt: skip


def test_a_question_is_one_whatever_the_number_of_its_sessions() -> None:
    once = paired([((1.0,), (0.0,))] * 10, SHARE)
    assert once == paired([((1.0,) * 5, (0.0,) * 5)] * 10, SHARE)


def test_geometric_means_are_compared_as_factors() -> None:
    pairs = [((float(n),), (n * (1.5 if n % 2 else 2.0),)) for n in range(1, 13)]
    difference = paired(pairs, POSITIVE)
    assert isinstance(difference, Difference)
    assert difference.is_ratio
    assert difference.estimate == pytest.approx(math.sqrt(1.5 * 2.0))
    assert difference.low < difference.estimate < difference.high
    assert difference.p_value < 0.0001


def test_values_of_zero_have_no_geometric_mean() -> None:
    pairs = [((float(n % 4),), (float(n % 4 + n % 3),)) for n in range(40)]
    none = paired(pairs, POSITIVE)
    assert isinstance(none, TooLittle)
    assert none.reason == "a value is 0 or less: there is no geometric mean"
    assert none.estimate == pytest.approx(0.975)


@pytest.mark.parametrize(("questions", "p_value"), [(1, 1.0), (4, 0.125), (6, 1 / 32)])
def test_few_costs_have_the_observed_factor_and_the_exact_test_of_all_exchanges(
    questions: int, p_value: float
) -> None:
    few = paired([((1.0,), (2.0 + n,)) for n in range(questions)], POSITIVE)
    assert isinstance(few, TooLittle)
    assert (few.reason, few.needed) == (f"{questions} questions; at least 10 are needed", 10)
    assert (few.is_ratio, few.p_value) == (True, pytest.approx(p_value))
    assert few.estimate == pytest.approx(math.factorial(questions + 1) ** (1 / questions))


def test_without_a_question_there_is_no_difference() -> None:
    assert paired_difference([], [], SHARE) == TooLittle("no question can be compared")
    assert unpaired_difference([], [(0.0,)] * 100, SHARE) == TooLittle("no session has a value in both")


def test_few_shares_have_an_interval_too() -> None:
    six = paired([((1.0,), (0.0,))] * 5 + [((1.0,), (1.0,))], SHARE)
    assert rounded(six) == (-0.8333, -0.9958, -0.0431, 0.0388, 6, "exact", False, Flips(0.0, 5.0), 1.0, 0.05)


def test_costs_that_are_mostly_equal_need_ten_questions_that_differ() -> None:
    equal = [((2.0,), (2.0,))] * 30
    few = paired([*equal, *[((1.0,), (9.0,))] * 9], POSITIVE)
    assert few[0] == "9 of 39 questions differ; at least 10 are needed"
    assert unpaired_difference([(2.0,)] * 30, [(2.0,)] * 20 + [(9.0,)] * 10, POSITIVE) == TooLittle(
        "most of the values are equal"
    )
    rare = paired([*equal, *[((1.0,), (9.0,))] * 10], POSITIVE)
    assert isinstance(rare, Difference)
    assert (rare.estimate, rare.method) == (pytest.approx(9**0.25), "Bonett-Price of logarithms")
    none = paired(equal, POSITIVE)
    assert isinstance(none, Difference)
    assert (none.estimate, none.p_value) == (1.0, 1.0)
    assert none.low < 1.0 < none.high


def test_values_on_another_scale_have_the_same_interval_on_it() -> None:
    pairs = [((n % 5 + 1.0,), (n % 3 + 1.0,)) for n in range(20)]
    scaled = [(((a - 1) / 4,), ((b - 1) / 4,)) for ((a,), (b,)) in pairs]
    rating, share = paired(pairs, (1.0, 5.0)), paired(scaled, SHARE)
    assert isinstance(rating, Difference)
    assert isinstance(share, Difference)
    assert rating[:4] == pytest.approx([share.estimate * 4, share.low * 4, share.high * 4, share.p_value])


def test_holm_multiplies_the_smallest_by_their_number_and_never_falls() -> None:
    assert [p for p, _ in holm([0.01, 0.04, 0.03, 0.5])] == [0.04, 0.09, 0.09, 0.5]
    assert holm([]) == []
    assert [p for p, _ in holm([0.9, 0.9])] == [1.0, 1.0]


def test_holm_tests_each_with_the_error_of_its_step_and_the_rest_with_that_at_which_it_stops() -> None:
    assert [round(0.05 / error) for _, error in holm([0.01, 0.04, 0.03, 0.5])] == [4, 3, 3, 3]
    assert [round(0.05 / error) for _, error in holm([0.001, 0.02, 0.003])] == [3, 1, 2]


@pytest.mark.exhaustive
def test_intervals_contain_the_true_difference() -> None:
    """The grid of .ci/long with few repetitions: too few for one cell, enough for all of a kind."""
    found = shares(repetitions=16, questions=(10, 30))
    means = {key: fmean(share for share, _ in cells) for key, cells in found.items()}
    assert {kind for kind, _ in means} >= {*CONTINUOUS, "binary", "recall", "rare"}
    assert {key: mean for key, mean in means.items() if mean < LOWEST} == {}
