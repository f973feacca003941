"""Production, runs, simulated users, tests and `watch` in one database: one verdict at every door."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import run as spangrade
from origins import write_sessions_of_all_origins
from pages import elements, embedded, find_all, parsed, text
from paths import SAMPLE
from serving import Served, serving

import spangrade as package
from spangrade import Selection, WatchOptions
from spangrade.evaluator.results.views import place_verdicts
from spangrade.tracer.store import Store

Verdicts = dict[str, str | None]
MOMENTS = ("2026-01-02", "2026-01-01", "2026-01-02", "2026-01-02")  # of the runs: most of them at one


def graded_in_every_way() -> None:
    """Grade the sessions by questions, by policies and by `watch`, with files of each grade."""
    db = package.open("spangrade.duckdb")
    db.import_files(SAMPLE / "spans.otlp.jsonl")
    golden = SAMPLE / "customer_service_golden.json"
    db.grade(golden, gates="tool_success_rate>=0.8", name="golden", out="files/golden")
    db.grade(golden, gates="tool_success_rate>=0.9", name="golden-again", out="files/again")
    db.grade(gates="token_usage<=0", name="strict", out="files/strict")
    db.watch(gates="tool_success_rate>=0.5", options=WatchOptions(once=True))
    db.grade(gates="token_usage<=1000000", name="lenient", out="files/lenient")


def force_ties() -> None:
    with Store.open("spangrade.duckdb") as store:
        runs = sorted(run_id for (run_id,) in store.query("SELECT run_id FROM runs"))
        for number, run_id in enumerate(runs):
            moment = {"run": run_id, "moment": MOMENTS[number % len(MOMENTS)]}
            store.query("UPDATE runs SET graded_at = $moment::TIMESTAMP WHERE run_id = $run", moment)
        store.query("UPDATE verdicts SET given_at = NULL")
        place_verdicts(store, runs)


def shown_by_definition() -> tuple[Verdicts, dict[str, str]]:
    """Return the verdict that each session should show, and the run of it.

    A golden question comes before a policy, then the latest counts, of one moment the first id.
    """
    with Store.open("spangrade.duckdb", read_only=True) as store:
        sessions = [one for (one,) in store.query("SELECT session_id FROM derived.sessions")]
        given = store.query(
            "SELECT session_id, question_id IS NULL, -epoch_us(coalesce(given_at, graded_at)), run_id, "
            "verdict FROM verdicts JOIN runs USING (run_id) WHERE session_id IS NOT NULL ORDER BY ALL DESC"
        )
    last = {session_id: (verdict, run_id) for session_id, _, _, run_id, verdict in given}
    return {one: last.get(one, (None,))[0] for one in sessions}, {one: run for one, (_, run) in last.items()}


def in_the_list(sessions: Verdicts) -> Verdicts:
    done = spangrade("sessions", "--where", "origin:any", "--format", "json", "--limit", "99")
    return {row["session_id"]: row["verdict"] for row in json.loads("\n".join(done.out))}


def in_show(sessions: Verdicts) -> Verdicts:
    found: Verdicts = {}
    for session_id in sessions:
        shown = json.loads("\n".join(spangrade("show", session_id, "--format", "json").out))
        found[session_id] = shown["grade"] and shown["grade"]["verdict"]
    return found


def in_text(sessions: Verdicts) -> Verdicts:
    found: Verdicts = {}
    for session_id in sessions:
        lines = [line.split() for line in spangrade("show", session_id).out]
        found[session_id] = next((line[1].rstrip(",") for line in lines if line[:1] == ["verdict"]), None)
    return found


def in_trend(sessions: Verdicts) -> Verdicts:
    """Return what the trend says of each session: of neither passed nor failed it says nothing."""
    db, found = package.open("spangrade.duckdb"), dict(sessions)
    for session_id in sessions:
        points = db.trend(
            "passed", by="version", origin="any", select=Selection(sessions=[session_id])
        ).points
        known = [point.mean for point in points if point.sessions]
        if known:
            found[session_id] = "passed" if known == [1.0] else "failed"
        else:
            assert sessions[session_id] not in ("passed", "failed")
    return found


def in_sql(sessions: Verdicts) -> Verdicts:
    rows = package.open("spangrade.duckdb").sql("SELECT session_id, verdict FROM sessions")
    return {row["session_id"]: row["verdict"] for row in rows}


def in_grades(sessions: Verdicts) -> Verdicts:
    rows = package.open("spangrade.duckdb").sql("SELECT session_id, verdict FROM grades WHERE shown")
    return {**dict.fromkeys(sessions), **{row["session_id"]: row["verdict"] for row in rows}}


def in_python(sessions: Verdicts) -> Verdicts:
    db = package.open("spangrade.duckdb")
    grades = {session_id: db.latest_grade(session_id) for session_id in sessions}
    assert {one.session_id for one in db.sessions(failed=True)} == {
        name for name, verdict in sessions.items() if verdict in ("failed", "broken")
    }
    return {session_id: grade and grade.verdict for session_id, grade in grades.items()}


def in_list_sessions(sessions: Verdicts) -> Verdicts:
    rows = package.open("spangrade.duckdb").list_sessions(origin="any", sort="verdict")
    return {row["session_id"]: row["verdict"] for row in rows}


def on_pages(served: Served, path: str) -> Verdicts:
    rows = [row for row in elements(parsed(served.get(path).text)) if row.get("data-session")]
    words = {
        str(row.get("data-session")): [text(one) for one in find_all(row, class_="verdict")] for row in rows
    }
    return {session_id: (found or [None])[0] for session_id, found in words.items()}


def on_the_page_of_the_list(sessions: Verdicts) -> Verdicts:
    with serving(Path("spangrade.duckdb")) as served:
        orders = ("", "&sort=verdict")
        by_time, by_verdict = (on_pages(served, f"/sessions?origin=any{order}") for order in orders)
    assert by_time == by_verdict
    return {name: None if verdict == "not graded" else verdict for name, verdict in by_time.items()}


def on_pages_of_sessions(sessions: Verdicts) -> Verdicts:
    with serving(Path("spangrade.duckdb")) as served:
        pages = {one: parsed(served.get(f"/session/{one}").text) for one in sessions}
    found = {one: find_all(page, class_="verdict") for one, page in pages.items()}
    return {one: text(verdicts[0]) if sessions[one] and verdicts else None for one, verdicts in found.items()}


DOORS = (
    in_the_list,
    in_show,
    in_text,
    in_trend,
    in_sql,
    in_grades,
    in_python,
    in_list_sessions,
    on_the_page_of_the_list,
    on_pages_of_sessions,
)


def of_lines(folder: Path) -> dict[str, str]:
    lines = (folder / "sessions.jsonl").read_text(encoding="utf-8").splitlines()
    return {one["session_id"]: one["verdict"] for one in map(json.loads, lines) if one["session_id"]}


def of_junit(folder: Path) -> dict[str, str]:
    found = {}
    root = ElementTree.parse(folder / "junit.xml")  # noqa: S314 (our own)
    for case in root.iter("testcase"):
        values = {one.get("name"): one.get("value") for one in case.iter("property")}
        if "session_id" in values:
            found[str(values["session_id"])] = str(values["verdict"])
            is_red = case.find("failure") is not None or case.find("error") is not None
            assert is_red is (values["verdict"] not in ("passed", "unmatched"))
    return found


def run_of_junit(folder: Path) -> str:
    root = ElementTree.parse(folder / "junit.xml")  # noqa: S314 (our own)
    return next(str(one.get("value")) for one in root.iter("property") if one.get("name") == "run_id")


def of_report(folder: Path) -> dict[str, str]:
    parts = embedded(parsed((folder / "report.html").read_text(encoding="utf-8")), "session")
    return dict(map(_titled, parts))


def of_folder(run_id: str) -> dict[str, str]:
    site = Path("sites") / run_id
    assert spangrade("view", "--export", site, "--run", run_id).code == 0
    return dict(_titled(parsed(page.read_text(encoding="utf-8"))) for page in site.glob("session/*.html"))


def _titled(page: Any) -> tuple[str, str]:
    ids = find_all(page, class_="ids") or find_all(find_all(page, class_="title")[0], class_="recorded")
    title = next(one for one in elements(page) if str(one.tag) == "h1")
    session_id = text(ids[0]) if find_all(title, class_="ids") else text(title)
    return session_id.strip(), text(find_all(page, class_="verdict")[0])


@pytest.fixture
async def in_one_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    await write_sessions_of_all_origins(tmp_path, monkeypatch)
    graded_in_every_way()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("in_one_database")
@pytest.mark.parametrize("prepare", [lambda: None, force_ties], ids=["in order", "at one moment"])
def test_every_door_shows_the_verdict_of_the_definition(prepare: Callable[[], None]) -> None:
    prepare()
    expected, run_of = shown_by_definition()
    origins = {row["origin"] for row in package.open("spangrade.duckdb").sql("FROM sessions")}
    assert origins == {"production", "run", "simulated", "test", "drill", "replay"}
    assert {"passed", "failed"} <= set(expected.values())
    assert len(set(run_of.values())) > 3
    assert {door.__name__: door(expected) for door in DOORS} == {door.__name__: expected for door in DOORS}
    runs = {run.run_id: run for run in package.open("spangrade.duckdb").runs()}
    files = {run_of_junit(folder): folder for folder in Path("files").iterdir()}
    for run_id in {*run_of.values()}:
        of_run = {one: expected[one] for one, run in run_of.items() if run == run_id}
        exports = {"folder": of_folder(run_id)}
        if run_id in runs:
            exports["python"] = {str(one.session_id): str(one.verdict) for one in runs[run_id].sessions}
        if folder := files.get(run_id):
            exports |= {"lines": of_lines(folder), "junit": of_junit(folder), "report": of_report(folder)}
        for name, verdicts in exports.items():
            assert {one: verdicts.get(one) for one in of_run} == of_run, name
    assert len(files) == 8
