"""report.html: one file with a policy of its own, of bounded size: a grid, and sessions whole."""

from __future__ import annotations

import base64
import json
import re
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from hard_sessions import ATTACK, SESSION_ID, golden, store_session
from otlp_sessions import Said, write_sessions
from pages import dangers, elements, embedded, find, find_all, name, parsed, text
from paths import SAMPLE

import spangrade
from spangrade.evaluator.reports.html.report import report_html
from spangrade.evaluator.reports.html.session_source import session_source, session_sources
from spangrade.tracer.store import Store


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    spangrade.open(folder / "sample.duckdb").grade(SAMPLE, gates="cost<=0.0002", out=folder / "out")
    return folder


def opened(db: Path) -> partial[Store]:
    return partial(Store.open, db, read_only=True)


def test_a_grade_writes_a_report_that_needs_nothing_but_itself(sample: Path) -> None:
    root = parsed((sample / "out" / "report.html").read_text(encoding="utf-8"))
    assert dangers(root, scripts=1) == []
    assert [
        name(element) for element in elements(root) if element.get("src") or name(element) == "link"
    ] == []
    assert text(find(root, id="contents")).strip() == "This file has all 4 sessions whole."
    rows = find_all(root, data_place="")
    assert [(text(find_all(row, class_="row")[0]), row.get("data-verdict")) for row in rows] == [
        ("My order A-1002 came late.", "failed"),
        ("Hi, where is my order A-1003?", "passed"),
        ("I want to return order A-1002.", "passed"),
        ("Where is order A-9999?", "passed"),
    ]
    sessions = embedded(root, "session")
    assert [dangers(session) for session in sessions] == [[], [], [], []]
    heads = [find(session, class_="title") for session in sessions]
    assert [text(one) for head in heads for one in elements(head) if name(one) == "h1"] == [
        "My order A-1002 came late. conversation-3",
        "Hi, where is my order A-1003? conversation-1",
        "Where is order A-9999? conversation-2",
        "I want to return order A-1002. conversation-4",
    ]


def test_sessions_that_are_read_together_are_what_each_is_alone(sample: Path) -> None:
    run_id = run_of(sample / "sample.duckdb")
    with opened(sample / "sample.duckdb")() as store:
        ids = [session_id for (session_id,) in store.query("SELECT session_id FROM derived.sessions")]
        together = session_sources(store, [*ids, "none"], run_id)
        alone = {session_id: session_source(store, session_id, run_id) for session_id in ids}
    assert together == alone
    assert {one: len(source.spans) > 0 < len(source.verdicts) for one, source in together.items()} == (
        dict.fromkeys(ids, True)
    )
    assert all(source.grade and source.grade.scores and source.question for source in together.values())


def test_its_policy_has_the_hashes_of_its_own_style_and_script(sample: Path) -> None:
    html = (sample / "out" / "report.html").read_bytes()
    (policy,) = re.findall(rb'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    (style,) = re.findall(rb"<style>(.*?)</style>", html, re.DOTALL)
    (script,) = re.findall(rb"<script>(.*?)</script>", html, re.DOTALL)
    hashes = [base64.b64encode(sha256(part).digest()).decode() for part in (script, style)]
    assert policy.decode().replace("&#39;", "'") == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert html.index(policy) < html.index(b"<style>")


def test_every_id_is_there_once_and_every_link_leads_to_one(sample: Path) -> None:
    root = parsed((sample / "out" / "report.html").read_text(encoding="utf-8"))
    parts = [root, *embedded(root, "session")]
    ids = [element.get("id") for part in parts for element in find_all(part, id="")]
    assert len(ids) == len(set(ids))
    links = {element.get("href") for part in parts for element in find_all(part, href="")}
    assert {f"#{one}" for one in ids} >= links
    assert {"#s0", "#s1", "#s2", "#s3"} <= links


def test_a_larger_run_has_what_did_not_pass_whole_and_the_rest_as_rows(sample: Path) -> None:
    run_id = run_of(sample / "sample.duckdb")
    html = report_html(opened(sample / "sample.duckdb"), run_id, max_whole=2, max_rows=3, max_detailed=1)
    root = parsed(html)
    failed, passed = embedded(root, "session")
    assert text(find_all(failed, class_="verdict")[0]) == "failed"
    assert [len(find_all(one, data_copy="")) for one in (failed, passed)] == [1, 0]
    assert " ".join(text(find(root, id="contents")).split()) == (
        "This file has 2 of 4 sessions whole, first those that did not pass or changed, 1 of them with their "
        "golden question and the attributes of spans, and 3 of 4 questions. spangrade view shows all of them."
    )
    assert len(find_all(root, data_place="")) == 3


@pytest.mark.exhaustive
def test_a_long_run_has_each_row_and_each_session_once_as_far_as_the_size_allows(tmp_path: Path) -> None:
    sessions = [(f"s{number:03}", [Said(f"hello {number}", "yes")]) for number in range(150)]
    db = tmp_path / "s.duckdb"
    spangrade.open(db).import_files(write_sessions(tmp_path / "spans.jsonl", sessions))
    spangrade.open(db).grade(gates="cost<=1")
    root = parsed(report_html(opened(db), run_of(db), max_others=150))
    rows = [row for part in (root, *embedded(root, "rows")) for row in find_all(part, data_place="")]
    assert [row.get("data-place") for row in rows] == [str(number) for number in range(150)]
    links = {find(row, class_="row").get("href") for row in rows}
    assert links == {f"#s{number}" for number in range(150)}
    parts = embedded(root, "session")
    assert {f"#{find(part, class_='title').get('id')}" for part in parts} == links
    smaller = parsed(report_html(opened(db), run_of(db), max_others=150, max_bytes=1))
    (group,) = find_all(smaller, data_group="session")
    assert 1 < int(group.get("data-count") or 0) < 150
    assert f"This file has {group.get('data-count')} of 150 sessions whole" in text(
        find(smaller, id="contents")
    )
    shown = [
        one.get("href") for one in find_all(find(smaller, id="questions"), class_="row") if one.get("href")
    ]
    assert len(shown) == len({*shown}) <= int(group.get("data-count") or 0)


@pytest.mark.exhaustive
def test_what_did_not_pass_or_changed_is_whole_and_of_the_others_100_sessions_in_all(tmp_path: Path) -> None:
    sessions = [(f"s{number:03}", [Said("hello", tokens=(number, 0))]) for number in range(1, 151)]
    db = tmp_path / "s.duckdb"
    spangrade.open(db).import_files(write_sessions(tmp_path / "spans.jsonl", sessions))
    for most in (150, 30, 140):
        spangrade.open(db).grade(gates=f"token_usage<={most}", name=f"at-most-{most}")
    with opened(db)() as store:
        of_name = dict(store.query("SELECT name, run_id FROM runs"))

    def whole(name: str) -> list[str]:
        root = parsed(report_html(opened(db), of_name[name]))
        return [text(find(part, class_="ids")) for part in embedded(root, "session")]

    assert whole("at-most-150") == [f"s{number:03}" for number in range(1, 101)]
    assert whole("at-most-30") == [f"s{number:03}" for number in range(31, 151)]
    assert whole("at-most-140") == [f"s{number:03}" for number in (*range(141, 151), *range(31, 141))]


def run_of(db: Path) -> str:
    with Store.open(db, read_only=True) as store:
        return str(store.query("SELECT run_id FROM runs")[0][0])


def test_what_was_recorded_is_text_and_nothing_else(tmp_path: Path) -> None:
    db = tmp_path / "hostile.duckdb"
    store_session(db)
    (tmp_path / "golden.json").write_text(json.dumps(golden()), encoding="utf-8")
    run = spangrade.open(db).grade(tmp_path / "golden.json", out=tmp_path / "out")
    assert [one.session_id for one in run.sessions] == [SESSION_ID]
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    root = parsed(html)
    assert dangers(root, scripts=1) == []
    (whole,) = embedded(root, "session")
    assert dangers(whole) == []
    shown = text(whole)
    assert "<script>window.attacked=1</script>" in shown
    assert "{{ 7 * 7 }}" in shown
    assert "\x00" not in html
    assert "\u202e" not in html
    assert ATTACK[:40] in text(find_all(whole, data_metric="trajectory_accuracy")[0])
