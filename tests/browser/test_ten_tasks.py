"""*Ten tasks* of docs/pages.md: each is done in a browser, and takes the clicks that stand in the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from otlp_sessions import Call, Said, write_sessions
from paths import ROOT
from playwright.sync_api import Page
from serving import serving
from ten_tasks import TASKS, do, facts_of

import spangrade
from spangrade.evaluator.apps.server.pages.labelling import Reviewer


def documented() -> dict[str, int]:
    text = (ROOT / "docs" / "notes" / "pages.md").read_text(encoding="utf-8")
    table = text.partition("## Ten tasks")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| (\d+)", table, re.MULTILINE)
    return {task: int(clicks) for task, clicks in rows}


@pytest.mark.exhaustive
def test_the_ten_tasks_take_the_clicks_of_the_table(page: Page, tmp_path: Path) -> None:
    db, golden = tmp_path / "s.duckdb", tmp_path / "golden.json"
    failing = [Said("Where is my order?", calls=[Call("look_up", {"id": 1}, error="no such order")])]
    opened = spangrade.open(db)
    opened.import_files(
        write_sessions(tmp_path / "s.jsonl", [(f"s{number}", failing) for number in range(12)])
    )
    opened.grade(gates="tool_success_rate>=0", name="before")
    opened.grade(gates="tool_success_rate>=0.9", name="after")
    with serving(db, Reviewer("ann", golden)) as served:
        facts = facts_of(db)
        clicks = {task.name: do(task, page, served.url, facts) for task in TASKS}
    assert clicks == documented()
    assert len(opened.external_scores()) == 10
    assert golden.exists()
