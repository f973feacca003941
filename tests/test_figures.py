"""Figures in the documentation that code can print: each is what it prints today."""

from __future__ import annotations

import pytest
from coverage_beside_bootstrap import CHANGES, row
from paths import ROOT


@pytest.mark.parametrize("chances", CHANGES)
def test_the_coverage_of_twenty_questions_in_the_readme_is_what_is_computed(
    chances: tuple[float, float],
) -> None:
    computed = row(20, *chances)
    assert computed in (ROOT / "docs" / "comparing.md").read_text()
    assert computed.replace(" 20 |", "", 1) in (ROOT / "README.md").read_text()
