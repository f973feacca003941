"""Figures in the documentation that code can print: each is what it prints today."""

from __future__ import annotations

import re
import subprocess
import sys

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


@pytest.mark.exhaustive
def test_the_functions_that_a_span_passes_are_counted_in_the_architecture() -> None:
    """The page is within 2% of the count, which differs a little between releases of DuckDB."""
    script = ROOT / "tests" / "benchmarks" / "hops.py"
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=120
    )
    counted = re.findall(r"(\d+) functions in (\d+) modules", run.stdout)
    page = (ROOT / "docs" / "architecture.md").read_text()
    written = re.findall(r"(\d+) functions in (\d+)\s+modules", page)
    assert len(counted) == len(written) == 5
    for figures, expected in zip(written, counted, strict=True):
        assert [int(figure) for figure in figures] == [
            pytest.approx(int(figure), rel=0.02, abs=1) for figure in expected
        ], f"the page says {figures}, `python tests/benchmarks/hops.py` prints {expected}"


@pytest.mark.parametrize("folder", ["tracer", "converters", "evaluator", "tests"])
def test_the_modules_and_lines_of_a_folder_are_counted_in_the_architecture(folder: str) -> None:
    """The page is within 2%: a change of a few lines need not change it."""
    modules = list((ROOT / folder).rglob("*.py"))
    lines = sum(len(one.read_text().splitlines()) for one in (*modules, *(ROOT / folder).rglob("*.sql")))
    page = (ROOT / "docs" / "architecture.md").read_text()
    (written,) = re.findall(rf"^\| `{folder}/` \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert [int(figure.replace(",", "")) for figure in written] == [
        pytest.approx(len(modules), rel=0.02),
        pytest.approx(lines, rel=0.02),
    ]
