"""Every page: its commands run, in order, in a clean folder, and print what it says (run_pages.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import ROOT
from run_pages import lacking, play

# The examples of the generated page of commands are run by tests/evaluator/cli/test_every_command.py.
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem != "commands"),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_reader_types_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    played = play(page, tmp_path)
    wrong = [f"{page.name}:{block.line}: {why}\n{printed}" for block, printed, why in played if why]
    assert wrong == []


def test_lines_are_expected_in_their_order_and_ids_and_what_is_left_out_are_any() -> None:
    printed = "run 0a1b2c3d took 5 s\n  2 sessions:   2 passed\nexit code 0"
    assert lacking("run ffff0000 took … s\n2 sessions: 2 passed", printed) == ""
    assert lacking("exit code 0\nrun ffff0000 …", printed) == "run ffff0000 …"
    assert lacking("2 sessions", printed) == "2 sessions"
