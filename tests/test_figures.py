"""Figures in the documentation that code can print: each is what it prints today."""

from __future__ import annotations

import re

from coverage_beside_bootstrap import row
from paths import ROOT

ROW = re.compile(r"^\| (\d+)% break, (\d+)% are fixed \| (\d+) \| .*$", re.MULTILINE)


def test_the_coverage_beside_a_bootstrap_is_what_is_computed() -> None:
    rows = list(ROW.finditer((ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")))
    assert len(rows) >= 5
    for found in rows:
        broken, fixed, questions = map(int, found.groups())
        assert found[0] == row(questions, broken / 100, fixed / 100)
