"""Markup and scripts in every field of a run: report.html shows them and runs nothing."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from otlp_sessions import Call, Said, write_sessions
from playwright.sync_api import Page, expect

import spangrade

# Each would end the element that it is embedded in, set `window.hit`, open a dialog, or ask another host.
TEXTS = (
    "</template><script>window.hit=1</script>",
    "<!--<script>window.hit=1</script>",
    "--!></template></main><img src=x onerror=window.hit=1>",
    "</script><svg onload=window.hit=1>",
    "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
    "![x](javascript:window.hit=1) [y](javascript:window.hit=1) <b onmouseover=window.hit=1>z</b>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "#opened\u202e\x1b[31m{{ 7 * 7 }}]]>",
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    db = spangrade.open(folder / "s.duckdb")
    for number, text in enumerate(TEXTS):
        call = Call(text, {text: text}, {text: [text]}, error=text)
        said = [Said(text, text, [call]), Said(text, None, error=text)]
        db.import_files(write_sessions(folder / f"{number}.jsonl", [(f"{number}{text}", said)], agent=text))
    questions = [
        {
            "id": f"q{number}{text}",
            "user_inputs": [text, text],
            "agents_evaluated": [text],
            "metadata": {"topic": text},
            "reference_data": {"reference_response": text, "reference_state_variables": {text: text}},
        }
        for number, text in enumerate(TEXTS)
    ]
    db.grade(questions, out=folder / "out")
    return (folder / "out" / "report.html").as_uri()


def test_a_report_and_its_sessions_show_markup_as_text(page: Page, report: str, problems: list[str]) -> None:
    page.goto(report)
    rows = page.locator(".grid a.row")
    expect(rows).to_have_count(len(TEXTS))
    for number in range(len(TEXTS)):
        page.goto(report)
        rows.nth(number).click()
        expect(page.locator("#opened h1")).to_be_visible()
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("window.hit") is None
        assert page.locator("iframe, meta[http-equiv=refresh], main script, main link").count() == 0
        assert page.url.startswith(report)
    assert problems == []
