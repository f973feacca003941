"""Markup and scripts in every field that can be recorded: the pages show them and run nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from otlp_sessions import START_NS, Call, Said, write_sessions
from playwright.sync_api import Page, expect
from serving import Served, serving
from settled import settle

import spangrade
from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.evaluator.metrics.external import ExternalScore, Source, save_external_scores
from spangrade.evaluator.reports.html.links import url_part
from spangrade.tracer.store import Store

# Each would set `window.hit`, open a dialog, or ask another host.
CORPUS = (
    "<script>window.hit=1;alert(1)</script>",
    '"><img src=x onerror="window.hit=1;alert(1)">',
    "'><svg onload=window.hit=1>",
    "</title></textarea></script><script>window.hit=1</script>",
    '<iframe srcdoc="<script>parent.hit=1</script>"></iframe>',
    "<a href='javascript:window.hit=1' autofocus onfocus=window.hit=1>x</a>",
    "{{ 7 * 7 }}{% for x in (1,) %}{{ self }}{% endfor %}",
    "<div data-load=javascript:window.hit=1 data-into=main onload=window.hit=1>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<style>@import 'https://evil.example/x.css';</style><link rel=stylesheet href=//evil.example/x.css>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=hit=1&gt;'>",
    "javascript:window.hit=1",
    "]]><![CDATA[<script>window.hit=1</script>",
    "\u202e<b onmouseover=window.hit=1>\u2066\x1b[31m",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    sessions = [
        (
            f"{number}{text}",
            [
                Said(
                    text,
                    text,
                    [Call(text, {text: text}, {text: [text]}), Call("ok", {"a": text}, error=text)],
                ),
                Said(text, None, error=text),
            ],
        )
        for number, text in enumerate(CORPUS)
    ]
    spans = folder / "spans.jsonl"
    lines = []
    for number, (session_id, turns) in enumerate(sessions):
        text = CORPUS[number]
        day = START_NS + number * 86_400 * 10**9
        file = write_sessions(spans, [(session_id, turns)], agent=text, start_ns=day)
        request = json.loads(file.read_text())
        for resource in request["resourceSpans"]:
            known = {"service.version": text, "user.id": text, text: text}
            resource["resource"] = {"attributes": attributes(known)}
            for scope in resource["scopeSpans"]:
                scope["scope"] = {"name": text, "version": text}
                for span in scope["spans"]:
                    state = json.dumps({text: text})
                    span["attributes"] += attributes(
                        {"gen_ai.response.model": text, "spangrade.state": state}
                    )
                    event = {"name": text, "timeUnixNano": span["startTimeUnixNano"]}
                    span["events"] = [event | {"attributes": attributes({text: text})}]
        lines.append(json.dumps(request))
    spans.write_text("\n".join(lines))
    db = folder / "hostile.duckdb"
    spangrade.open(db).import_files(spans)
    with Store.open(db) as store:
        for number, text in enumerate(CORPUS):
            values = {"run": f"r{number}{text}", "text": text, "session": sessions[number][0]}
            store.query(
                "INSERT INTO runs (run_id, dataset, metrics, judge, thresholds) "
                "SELECT $run, $text, [$text], $text, json_object($text, '<= 0.1')",
                {"run": values["run"], "text": text},
            )
            store.query(
                "INSERT INTO verdicts BY NAME SELECT $run AS run_id, session_id, $text AS question_id, "
                "verdict, $text AS reason FROM (VALUES ($session, 'failed'), ($session, 'inconclusive'), "
                "($session, 'broken'), (NULL, 'inconclusive')) AS given(session_id, verdict)",
                values,
            )
            store.query(
                "INSERT INTO scores BY NAME SELECT $run AS run_id, $session AS session_id, $text AS metric, "
                "$text AS question_id, unnest([0.0, 0.5, 1.0]) AS value, false AS passed, "
                "'score' AS outcome, $text AS reason, '[]' AS evidence",
                values,
            )
            store.query(
                "INSERT INTO runs (run_id, name, dataset, metrics) "
                "SELECT 'second ' || $run, $text, $text, []",
                {"run": values["run"], "text": text},
            )
            store.query(
                "INSERT INTO verdicts BY NAME SELECT 'second ' || $run AS run_id, $session AS session_id, "
                "$text AS question_id, 'passed' AS verdict, $text AS reason",
                values,
            )
            store.query(
                "INSERT INTO scores BY NAME SELECT 'second ' || $run AS run_id, $session AS session_id, "
                "$text AS metric, $text AS question_id, 1.0 AS value, true AS passed, 'score' AS outcome, "
                "$text AS reason, '[]' AS evidence",
                values,
            )
            ((span,),) = store.query(
                "SELECT min(span_id) FROM derived.tool_interactions WHERE session_id = $session",
                {"session": values["session"]},
            )
            given = ExternalScore(values["session"], text, 1.0, Source.PERSON, 0, text, True, text, text)
            label = given._replace(name="label", label="fail", value=0.0, passed=False)
            people = [label._replace(author=author) for author in (text, f"another {text}")]
            judged = [one._replace(name=text) for one in people]
            comment = given._replace(name="comment", evidence=(span,))
            save_external_scores(store, [given._replace(name=f"score {text}"), *people, *judged, comment])
    return db


def attributes(values: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


@pytest.fixture(scope="module")
def served(hostile: Path) -> Iterator[Served]:
    with serving(hostile) as one:
        yield one


def visit(page: Page, address: str) -> None:
    page.goto(address)
    settle(page)
    for _ in range(2):  # those that were loaded into the others, too
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        settle(page)
    for chart in page.locator(".charts figure").all()[:2]:  # the crosshair shows names and values
        chart.focus()
        page.keyboard.press("Home")
        expect(page.locator(".charts .u-legend .u-value").first).not_to_have_text("–")
    page.evaluate("document.querySelectorAll('header details').forEach(one => { one.open = false; })")
    assert page.evaluate("window.hit") is None
    assert page.locator("iframe, meta[http-equiv=refresh], main script, main style, main link").count() == 0
    assert (
        page.evaluate(
            "[...document.querySelectorAll('*')].flatMap(one => [...one.attributes])"
            ".filter(one => one.name.startsWith('on') || one.name.startsWith('hx-on') || "
            "(['href', 'src', 'action'].includes(one.name) && /^\\s*javascript:/i.test(one.value)))"
            ".map(one => one.name)"
        )
        == []
    )


def test_the_lists_show_markup_as_text(page: Page, served: Served) -> None:
    for path in (
        "/runs",
        "/trends",
        "/tools?by=agent",
        "/tools?by=version",
        "/overview?since=2025-01-01",
        "/sessions?q=window.hit",
        "/judge",
        "/sessions",
    ):
        visit(page, served.url + path)
    for name in ("tool", "agent", "model", "version"):
        page.locator("[data-query]").fill(f"{name}:")
        expect(page.locator("#completions option")).to_have_count(len(CORPUS) + (name == "tool"))
    assert page.evaluate("window.hit") is None
    shown = " ".join(page.locator("a.row").all_inner_texts())
    assert CORPUS[0] in shown
    assert "{{ 7 * 7 }}" in shown


@pytest.mark.parametrize("number", range(len(CORPUS)))
@pytest.mark.short_form("number", 4)
def test_a_session_shows_markup_as_text(page: Page, served: Served, number: int) -> None:
    visit(page, f"{served.url}/session/{url_part(f'{number}{CORPUS[number]}')}")


@pytest.mark.parametrize("number", range(len(CORPUS)))
@pytest.mark.short_form("number", 4)
def test_a_run_shows_markup_as_text(page: Page, served: Served, number: int) -> None:
    run = f"{served.url}/run/{url_part(f'r{number}{CORPUS[number]}')}"
    visit(page, f"{run}?against={quote(f'second r{number}{CORPUS[number]}')}")


@pytest.mark.parametrize("number", range(len(CORPUS)))
@pytest.mark.short_form("number", 4)
def test_a_comparison_and_a_metric_show_markup_as_text(page: Page, served: Served, number: int) -> None:
    text = CORPUS[number]
    run = f"r{number}{text}"
    visit(page, f"{served.url}/compare?{urlencode({'a': run, 'b': f'second {run}'})}")
    expect(page.get_by_role("heading", name="Fixed: 1")).to_be_visible()
    page.get_by_role("link", name="side by side").first.click()
    visit(page, page.url)
    expect(page.locator(".side")).to_have_count(2)
    other = (number + 1) % len(CORPUS)
    third = f"r{other}{CORPUS[other]}"
    visit(page, f"{served.url}/compare?{urlencode({'a': run, 'b': f'second {run}', 'c': third})}")
    visit(page, f"{served.url}/trends?{urlencode({'metric': text, 'by': 'version'})}")


@pytest.mark.parametrize("number", range(len(CORPUS)))
@pytest.mark.short_form("number", 4)
def test_a_judge_its_disputes_and_people_show_markup_as_text(page: Page, served: Served, number: int) -> None:
    visit(page, f"{served.url}/judge?{urlencode({'metric': CORPUS[number]})}")
    expect(page.locator("h1")).to_contain_text("agrees with people on 0 of 1 sessions")
    expect(page.get_by_role("region", name="1 dispute")).to_contain_text("another")
    expect(page.get_by_role("region", name="People")).to_contain_text("another")


@pytest.mark.parametrize("number", range(len(CORPUS)))
@pytest.mark.short_form("number", 4)
def test_a_reviewer_of_any_name_sees_markup_as_text(
    page: Page, hostile: Path, tmp_path: Path, number: int
) -> None:
    text = CORPUS[number]
    db = tmp_path / "hostile.duckdb"
    db.write_bytes(hostile.read_bytes())
    session = url_part(f"{number}{text}")
    with serving(db, Reviewer(text, tmp_path / "golden.json")) as served:
        for queue in ("suggested", "disputed", "unlabelled"):
            visit(page, f"{served.url}/review?queue={queue}")
        visit(page, f"{served.url}/sessions?{urlencode({'similar': f'{number}{text}', 'origin': 'any'})}")
        visit(page, f"{served.url}/session/{session}?queue=unlabelled")
        expect(page.locator("form.golden")).to_be_visible()
        expect(page.locator(".remark")).to_have_count(1)
        page.keyboard.press("e")
        expect(page.get_by_label("Comment on")).to_be_visible()
        page.keyboard.press("m")
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(f"more {text}")
        page.keyboard.press("Enter")
        expect(page.locator("form:has([data-key=u])")).to_contain_text("comment: more")
        visit(page, page.url)
        visit(page, f"{served.url}/judge?{urlencode({'metric': text})}")
        expect(page.locator("form:has([data-key=u])")).to_contain_text("comment: more")


@pytest.mark.parametrize("number", range(len(CORPUS)))
@pytest.mark.short_form("number", 4)
def test_a_session_as_a_file_shows_markup_as_text(
    page: Page, served: Served, tmp_path: Path, number: int
) -> None:
    session = url_part(f"{number}{CORPUS[number]}")
    for query in ("", "?redacted=1"):
        file = tmp_path / "session.html"
        file.write_text(served.get(f"/session/{session}/file.html{query}").text, encoding="utf-8")
        visit(page, file.as_uri())
        expect(page.locator("h1")).to_be_visible()


@pytest.mark.parametrize("number", range(len(CORPUS)))
@pytest.mark.short_form("number", 4)
def test_what_is_in_an_address_is_shown_as_text(
    page: Page, served: Served, number: int, problems: list[str]
) -> None:
    text = CORPUS[number]
    quoted = quote(text)
    names = ("text", "agent", "tool", "error", "run", "reason")
    visit(page, f"{served.url}/sessions?{'&'.join(f'{name}={quoted}' for name in names)}")
    for path in (
        "?sort=",
        "?since=",
        "?min_cost=",
        "trends?since=",
        "trends?metric=",
        "judge?metric=",
        "sessions?similar=",
        "sessions?q=",
        "tools?by=",
        "tools?agent=",
        "overview?version=",
        "compare?b=x&a=",
        "session/",
        "runs/",
        "nothing/",
    ):
        visit(page, f"{served.url}/{path}{quote(text, safe='')}")
    problems[:] = [one for one in problems if "the server responded with a status of 40" not in one]
