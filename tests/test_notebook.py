"""The notebook of examples/: its cells run one after the other, in a running loop, and show their values."""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT, SAMPLE

import spangrade

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def cells() -> list[str]:
    """Return the code of the notebook's cells."""
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(one["source"]) for one in found if one["cell_type"] == "code"]


async def executed() -> tuple[dict[str, Any], list[Any]]:
    """Return the names that the cells give, and the value of each cell that ends with one."""
    names: dict[str, Any] = {}
    values = []
    for source in cells():
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            values.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))  # noqa: S307 (ours)
    return names, values


@pytest.mark.exhaustive
def test_each_cell_works_in_a_running_loop_and_shows_what_it_says() -> None:
    for name in ("pandas", "polars"):
        pytest.importorskip(name, reason="the last cells are data frames")
    names, values = asyncio.run(executed())
    _, green, red, compared, failed, rows, frame, of_polars = values
    assert (green.exit_code, red.exit_code) == (0, 1)
    assert repr(red).endswith(": 2 sessions: 2 failed>")
    assert repr(failed) == f"<Session {failed.session_id}: 1 turn, 0 calls, agents unknown>"
    assert repr(rows) == "<4 rows: question_id, verdict, reason>"
    assert len(repr(compared)) < 200
    assert compared.exit_code() == 1
    shown = [value._repr_html_() for value in (green, red, compared, failed, rows)]
    for value, words in zip(
        shown,
        (
            "2 sessions: 2 passed",
            "2 sessions: 2 failed",
            "2 regressed, 0 fixed",
            "It is on its way.",
            "<td>A1</td>",
        ),
        strict=True,
    ):
        assert words in value.replace("\xa0", " ")
    assert (
        frame["verdict"].tolist()
        == of_polars["verdict"].to_list()
        == ["passed", "passed", "failed", "failed"]
    )
    assert isinstance(names["db"], spangrade.Database)


def test_what_was_recorded_is_text_in_the_html() -> None:
    with spangrade.open(":memory:") as db:
        run = db.run(lambda text: f"<b>{text}</b>", [{"id": "a", "user_inputs": "<i>hi</i>"}])
        (session,) = db.sessions()
        html = (
            session._repr_html_() + run._repr_html_() + db.sql("SELECT '<u>x</u>' AS \"<s>\"")._repr_html_()
        )
    assert not [tag for tag in ("<b>", "<i>", "<u>", "<s>") if tag in html]


def test_a_database_a_graded_session_and_a_run_are_tables_with_verdicts(tmp_path: Path) -> None:
    db = spangrade.open(tmp_path / "s.duckdb")
    run = db.grade(SAMPLE, gates=["tool_success_rate>=0.9"], name="mine")
    of_db, of_run = db._repr_html_() or "", run._repr_html_() or ""
    assert of_db.count("<tr>") == 1 + 1 + 1 + 4
    assert [of_db.count(one) for one in ("<td>mine</td>", "<td>failed</td>", "Where is order A-9999?")] == [
        1,
        2,
        1,
    ]
    assert of_run.count("<tr>") == 1 + 4
    assert "<th>tool_success_rate</th>" in of_run
    assert ("<td>✕ 0</td>" in of_run or "<td>✕ 0.5</td>" in of_run, "<td>✓ 1</td>" in of_run) == (True, True)
    graded = (db.graded_session("conversation-2")._repr_html_() or "").replace("\xa0", " ")
    assert "failed" in graded
    alone = db.session("conversation-2")._repr_html_() or ""
    assert ("not graded" in graded, "not graded" in alone, "verdict" in alone) == (False, False, False)
