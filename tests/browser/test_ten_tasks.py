"""*Ten tasks* of docs/pages.md: each is done in a browser, and takes the clicks that stand in the table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from otlp_sessions import Call, Said, write_golden, write_sessions
from paths import ROOT
from playwright.sync_api import Page
from serving import serving
from ten_tasks import TASKS, do, facts_of

import spangrade
from spangrade.evaluator.apps.server.pages.labelling import Reviewer


def documented() -> dict[str, int]:
    text = (ROOT / "docs" / "notes" / "pages.md").read_text(encoding="utf-8")
    table = text.partition("## Ten tasks")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| (\d+)", table, re.MULTILINE)
    return {task: int(clicks) for task, clicks in rows}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1280, "dark"), (390, "light")])
def test_the_ten_tasks_take_the_clicks_of_the_table(
    page: Page, tmp_path: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    db, golden = tmp_path / "s.duckdb", tmp_path / "golden.json"
    asked = [f"Where is my order {number}?" for number in range(24)]
    calls = [Call("look_up", {"id": 1}, error="no such order")]
    expected = [{"id": text, "user_inputs": [text], "reference_trajectory": ["shop"]} for text in asked]
    dataset = write_golden(tmp_path / "asked.json", *expected)
    opened = spangrade.open(db)
    opened.import_files(
        write_sessions(tmp_path / "s.jsonl", [(f"s{text}", [Said(text, calls=calls)]) for text in asked])
    )
    opened.grade(dataset, gates=["tool_success_rate>=0"], name="before")
    opened.grade(dataset, gates=["tool_success_rate>=0.9"], name="after")
    with serving(db, Reviewer("ann", golden)) as served:
        facts = facts_of(db)
        clicks = {task.name: do(task, page, served.url, facts) for task in TASKS}
    assert clicks == documented()
    assert len(opened.external_scores()) == 20
    assert golden.exists()
