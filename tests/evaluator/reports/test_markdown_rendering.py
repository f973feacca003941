"""Markdown reports as GitHub renders them: recorded text stays text, in the cell that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from spangrade.evaluator.grading.metadata import Groups
from spangrade.evaluator.grading.run import Grade, Run
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import Score
from spangrade.evaluator.reports.comparison import comparison_markdown
from spangrade.evaluator.reports.comparison_head import head_of_comparison
from spangrade.evaluator.reports.headline import as_markdown
from spangrade.evaluator.reports.markdown import markdown
from spangrade.evaluator.statistics.comparison.compare import compare
from spangrade.evaluator.statistics.comparison.condition import Compared, judge, parse_condition
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.comparison.sample import PASSED, Measured, Sample, passed
from spangrade.tracer.base.canonical_json import canonical

GITHUB = MarkdownIt("gfm-like", {"linkify": False, "html": True})
# What each text is shown as: one line, in which nothing ends the code span or the cell.
HOSTILE = {
    "a|b": "a¦b",
    "a \\| b \\": "a \\¦ b \\",
    "`code` ``": "'code' ''",
    "<img src=x onerror=alert(1)></td></table>": "<img src=x onerror=alert(1)></td></table>",
    "line\n\n| x | y |\n|---|---|\r\n# title": "line ¦ x ¦ y ¦ ¦---¦---¦� # title",
    "[a](javascript:alert(1)) ![i](https://x.example/i.png)": (
        "[a](javascript:alert(1)) ![i](https://x.example/i.png)"
    ),
    "@team #1 https://x.example *b* ~~s~~ &lt; :x:": "@team #1 https://x.example *b* ~~s~~ &lt; :x:",
    "  \t": "",
    "<!-- --> ---\n***": "<!-- --> --- ***",
}


def shown(text: str, number: str = "") -> str:
    """Return a hostile text, with a number after it, as it is shown."""
    return f"{HOSTILE[text]}{number}" or "–"


def tables(text: str) -> list[list[list[str]]]:
    """Return the rows of each table after its head, each cell with its text."""
    found: list[list[list[str]]] = []
    before = ""
    for token in GITHUB.parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif before in ("th_open", "td_open"):
            found[-1][-1].append("".join(child.content for child in token.children or ()))
        before = token.type
    return [rows[1:] for rows in found]


def markup(text: str) -> set[str]:
    """Return the types of everything that a text is rendered as."""
    return {token.type.removesuffix("_open") for token in _tokens(GITHUB.parse(text)) if token.nesting >= 0}


def _tokens(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _tokens(token.children or [])


ALLOWED = {
    "heading", "paragraph", "inline", "text", "code_inline", "bullet_list", "list_item", "strong",
    "table", "thead", "tbody", "tr", "th", "td", "softbreak", "html_block", "fence",
}  # fmt: skip


def only_our_html(text: str) -> bool:
    """Return whether all HTML that a text has is what folds a part of it."""
    html = {token.content for token in _tokens(GITHUB.parse(text)) if token.type == "html_block"}
    return all(
        re.fullmatch(r"</details>\n*|<details><summary>All of the (run|comparison)</summary>\n*", one)
        for one in html
    )


def hostile_comparison(texts: list[str]) -> str:
    """Return the Markdown of two runs in which everything recorded is one of these texts."""
    questions = [f"{text}{n}" for n in range(12) for text in texts]
    samples = []
    for verdict in (Verdict.PASSED, Verdict.FAILED):
        graded = tuple(Graded(q, q, verdict, texts[n % len(texts)], (q,)) for n, q in enumerate(questions))
        value = float(verdict is Verdict.PASSED)
        values = {text: dict.fromkeys(questions, (value,)) for text in texts}
        metrics = {text: Measured(True, (0.0, 1.0), text, (0.5,), (text + verdict,)) for text in texts}
        samples.append(
            Sample(
                texts[0],
                None,
                graded,
                {PASSED: passed(graded), **values},
                {},
                metrics,
                dict.fromkeys(questions, canonical({"user_inputs": texts, str(verdict): texts[0]})),
            )
        )
    comparison = compare(*samples, allow_changed=True)
    compared = Compared(comparison, (judge(parse_condition("passed worse by 0.1"), comparison),))
    head = as_markdown(head_of_comparison(compared, compared.exit_code()))
    return comparison_markdown(*compared, head=head)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_comparison_shows_recorded_text_in_its_own_cell(text: str) -> None:
    rendered = hostile_comparison([text])
    assert markup(rendered) <= ALLOWED
    assert only_our_html(rendered)
    broken, metrics = tables(rendered)
    name = shown(text)
    assert [row[0] for row in metrics] == ["passed", name]
    assert {len(row) for row in metrics} == {7}
    assert [row[-1] for row in metrics] == ["12", "12"]
    keys = [shown(text, number) for number in sorted(map(str, range(12)))]
    assert broken == [[key, "1 of 1, then 0 of 1", "–", name] for key in keys]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_run_shows_recorded_text_in_its_own_cell(text: str) -> None:
    run = Run("r1", text, gates=[text], groups=Groups("metadata.topic", {"q1": text}))
    run.add(Grade(text, "q1", Verdict.FAILED, text, {text: Score(0.5, False, text)}))
    rendered = markdown(run)
    assert markup(rendered) <= ALLOWED
    assert only_our_html(rendered)
    groups, metrics = tables(rendered)
    assert [row[0] for row in groups] == [shown(text)]
    assert metrics == [[shown(text), "0.5", "0.5", "0.5", "0", "1", "0", "0"]]


@pytest.mark.exhaustive
def test_a_comparison_fits_a_comment_however_large_the_runs() -> None:
    assert len(hostile_comparison(["x" * 5_000 + str(n) for n in range(60)])) < 65_536
