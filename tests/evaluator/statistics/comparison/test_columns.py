"""Differences of shares are the same with numpy's columns and with lists."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.evaluator.statistics.comparison.by_question import ByQuestion
from spangrade.evaluator.statistics.comparison.compare import difference_of
from spangrade.evaluator.statistics.comparison.differences import Difference
from spangrade.evaluator.statistics.comparison.sample import Measured

SHARES = st.sampled_from([0.0, 0.25, 0.5, 1.0])
QUESTIONS = st.lists(st.lists(SHARES, min_size=1, max_size=3), min_size=1, max_size=40)
UNIT = Measured(None, (0.0, 1.0), "")


def found(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], *, is_paired: bool
) -> list[float]:
    """Return the difference, its interval and its p-value."""
    difference = difference_of(first, second, UNIT, is_paired=is_paired).at()
    assert isinstance(difference, Difference)
    return [difference.estimate, difference.low, difference.high, difference.p_value]


@given(first=QUESTIONS, second=QUESTIONS, is_paired=st.booleans())
def test_a_difference_of_few_questions_is_the_same_without_numpy(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], is_paired: bool
) -> None:
    number = min(len(first), len(second), 29)  # from 30 on it may be Student's t
    sides = (first[:number], second[:number]) if is_paired else (first[:29], second[:29])
    expected = found(*sides, is_paired=is_paired)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("numpy", "scipy"):
            patch.setitem(sys.modules, module, None)
        assert found(*sides, is_paired=is_paired) == pytest.approx(expected, abs=1e-12)


@given(questions=QUESTIONS, data=st.data())
def test_questions_are_chosen_and_filled_the_same_without_numpy(
    questions: Sequence[Sequence[float]], data: st.DataObject
) -> None:
    missing = data.draw(st.lists(st.integers(0, 2), min_size=len(questions), max_size=len(questions)))

    def filled() -> list[list[float]]:
        from spangrade.evaluator.statistics.comparison.columns import columns

        side = ByQuestion.of(questions).filled(0.5, columns().asarray(missing))
        chosen = side.where(side.counts > 1)
        return [
            [float(one) for one in column]
            for column in (side.values, side.counts, side.means, chosen.values, chosen.counts)
        ]

    expected = filled()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numpy", None)
        assert filled() == expected
