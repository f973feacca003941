"""report.html: one file with a policy of its own, of bounded size, the sessions that matter whole."""

from __future__ import annotations

import base64
import json
import re
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from hard_sessions import ATTACK, SESSION_ID, golden, store_session
from pages import dangers, elements, find, find_all, name, parsed, text
from paths import SAMPLE

import spangrade
from spangrade.evaluator.view.report import report_html
from spangrade.evaluator.view.session_source import session_source, session_sources
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
    assert [text(find_all(row, class_="row")[0]) for row in find_all(root, data_verdict="")] == [
        "My order A-1002 came late.",
        "Hi, where is my order A-1003?",
        "Where is order A-9999?",
        "I want to return order A-1002.",
    ]
    assert [text(find_all(row, class_="verdict")[0]) for row in find_all(root, data_verdict="")] == [
        "failed",
        "passed",
        "passed",
        "passed",
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
    ids = [element.get("id") for element in find_all(root, id="")]
    assert len(ids) == len(set(ids))
    links = {element.get("href") for element in find_all(root, href="")}
    assert {f"#{one}" for one in ids} >= links
    evidence = find_all(root, class_="evidence")
    assert evidence == [] or all((one.get("href") or "").startswith("#s") for one in evidence)


def test_a_larger_run_has_what_did_not_pass_whole_and_the_rest_as_rows(sample: Path) -> None:
    run_id = run_of(sample / "sample.duckdb")
    root = parsed(report_html(opened(sample / "sample.duckdb"), run_id, max_whole=3, max_rows=2))
    (whole,) = find_all(root, class_="whole")
    assert text(find_all(whole, class_="verdict")[0]) == "failed"
    assert " ".join(text(find(root, id="contents")).split()) == (
        "This file has 1 of 4 sessions whole; the others are rows. spangrade view shows all of them."
    )
    assert len(find_all(root, data_verdict="")) == 2
    assert "2 more sessions are in the database" in text(find(root, id="sessions"))


def test_a_report_is_no_larger_than_allowed(sample: Path) -> None:
    run_id = run_of(sample / "sample.duckdb")
    root = parsed(report_html(opened(sample / "sample.duckdb"), run_id, max_bytes=1))
    assert len(find_all(root, class_="whole")) == 1
    assert "This file has 1 of 4 sessions whole" in text(find(root, id="contents"))
    linked = [element.get("href") for element in find_all(find(root, id="sessions"), href="")]
    assert linked == ["#s1"]


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
    (whole,) = find_all(root, class_="whole")
    shown = text(whole)
    assert "<script>window.attacked=1</script>" in shown
    assert "{{ 7 * 7 }}" in shown
    assert "\x00" not in html
    assert "\u202e" not in html
    assert ATTACK[:40] in text(find_all(root, data_metric="trajectory_accuracy")[0])
