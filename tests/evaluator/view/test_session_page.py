"""The page of a session: what it shows is what was derived, and what was recorded is only text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from command_line import Spangrade
from hard_sessions import ATTACK, SESSION_ID, golden, large_spans, store_session
from made_once import copy_of_sample
from otlp_sessions import Call, Said, write_sessions
from pages import dangers, elements, find, find_all, name, parsed, parsed_part, text
from paths import SAMPLE
from recordings import NAMES, database, recorded_sessions

import spangrade.evaluator.apps.server.pages.app  # noqa: F401 (it has the templates of pages)
from spangrade import open as open_database
from spangrade.evaluator.metrics.external import ExternalScore, Source, save_external_scores
from spangrade.evaluator.reports.html.links import ServerLinks
from spangrade.evaluator.reports.html.rendering import render
from spangrade.evaluator.reports.html.session_page import session_page, session_part
from spangrade.evaluator.reports.html.texts import CHUNK, LONGEST
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.store import Store

UNKNOWN = object()
_HEAD = {"database": "spans", "notice": ""}


def page(store: Store, session_id: str) -> Element:
    """Return the page of a session as a browser parses it."""
    return parsed(render("session.html", {**_HEAD, **session_page(store, session_id)}, ServerLinks()))


def part(store: Store, session_id: str, name_: str, container: str = "div", **values: str) -> Element:
    """Return a part that is loaded on demand."""
    made = session_part(store, session_id, name_, values)
    assert made is not None
    return parsed_part(render(*made, ServerLinks()), container)


def as_shown(value: Any) -> Any:
    """Return a JSON value as a page shows it."""
    if value is None:
        return UNKNOWN
    whole = value if isinstance(value, str) else dumps(value, indent=True)
    return " ".join(whole[:LONGEST].split())


def conversation_of(root: Element) -> list[Any]:
    """Return the turns of a page: the user's message, the calls with arguments and results, the reply."""
    found = []
    for turn in find_all(root, class_="turn"):
        user, reply = find(turn, class_="user"), find(turn, class_="reply")
        calls = [
            [
                text(next(element for element in elements(item) if name(element) == "strong")),
                "failed" in (item.get("class") or "").split(),
                *(" ".join(text(one).split()) for one in elements(item) if name(one) == "pre"),
            ]
            for item in find_all(turn, class_="item")
            if {"tool", "hand-off"} & set((item.get("class") or "").split())
        ]
        found.append([message(user), calls, message(reply)])
    return found


def message(element: Element) -> Any:
    texts = [one for one in elements(element) if name(one) == "pre" and one.get("class") == "recorded"]
    return " ".join(text(texts[0]).split()) if texts else UNKNOWN


def derived_conversation(session: Mapping[str, Any]) -> list[Any]:
    turns = []
    for turn in session["turns"]:
        calls = [call for call in session["tool_interactions"] if call["turn"] == turn["index"]]
        calls.sort(key=lambda call: call["started_at"])
        made = [
            [
                call["tool_name"],
                call["ok"] is False,
                *(
                    one
                    for value in (call["input_arguments"], call["output"])
                    if (one := as_shown(value)) is not UNKNOWN
                ),
            ]
            for call in calls
        ]
        turns.append([as_shown(turn["user_input"]), made, as_shown(turn["final_response"])])
    return turns


@pytest.mark.exhaustive
@pytest.mark.parametrize("recording", NAMES)
def test_a_page_shows_what_show_prints_of_every_recording(recording: str, spangrade: Spangrade) -> None:
    db = database(recording)
    ids = [session.session_id for session in recorded_sessions(recording)]
    assert ids
    printed = [spangrade("show", one, "--db", db, "--format", "json").out for one in ids]
    with Store.open(db, read_only=True) as store:
        for session_id, lines in zip(ids, printed, strict=True):
            session = json.loads("\n".join(lines))
            root = page(store, session_id)
            assert conversation_of(root) == derived_conversation(session)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graded database, to be read only."""
    folder = tmp_path_factory.mktemp("hostile")
    store_session(folder / "hostile.duckdb")
    (folder / "golden.json").write_text(json.dumps(golden()), encoding="utf-8")
    open_database(folder / "hostile.duckdb").grade(folder / "golden.json")
    return folder / "hostile.duckdb"


@pytest.mark.exhaustive
def test_what_was_recorded_is_only_text_in_a_page_and_its_parts(hostile: Path) -> None:
    span_id = f"{2:016x}"
    with Store.open(hostile, read_only=True) as store:
        root = page(store, SESSION_ID)
        assert dangers(root) == []
        assert "<script>window.attacked=1</script>" in text(root)
        parts = [
            part(store, SESSION_ID, "waterfall"),
            part(store, SESSION_ID, "turn", "ol", number="1"),
            part(store, SESSION_ID, "span", id=span_id),
            part(store, SESSION_ID, "attribute", id=span_id, field=f"attributes.{ATTACK}"),
            part(store, SESSION_ID, "text", table="turns", number="1", field="user_input"),
            part(store, SESSION_ID, "text", table="state", number="0", field=ATTACK),
            part(store, SESSION_ID, "golden"),
        ]
    assert [dangers(one) for one in parts] == [[]] * len(parts)
    assert all("window.attacked" in text(one) for one in parts)


def test_the_golden_question_on_the_page_is_a_valid_one(hostile: Path, tmp_path: Path) -> None:
    with Store.open(hostile, read_only=True) as store:
        question = json.loads(text(find(page(store, SESSION_ID), id="golden")))
    (tmp_path / "new.json").write_text(json.dumps({"golden_questions": [question]}), encoding="utf-8")
    shutil.copyfile(hostile, tmp_path / "copy.duckdb")
    run = open_database(tmp_path / "copy.duckdb").grade(tmp_path / "new.json")
    assert [one.verdict for one in run.sessions] == ["passed"]


def test_a_reason_leads_to_the_spans_that_are_its_evidence(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    open_database(db).grade(SAMPLE, gates="trajectory_single_tool_use:look_up_order")
    with Store.open(db, read_only=True) as store:
        ((session_id, evidence),) = store.query(
            "SELECT session_id, evidence FROM scores WHERE len(evidence::VARCHAR[]) > 0 ORDER BY 1 LIMIT 1"
        )
        root = page(store, session_id)
    spans = json.loads(evidence)
    link = find(root, data_spans=" ".join(spans))
    assert link.get("href") == f"#span-{spans[0]}"
    assert find(root, id=f"span-{spans[0]}").get("data-span") == spans[0]


@pytest.mark.parametrize(
    ("name_", "values"),
    [
        ("nothing", {}),
        ("span", {"id": "none"}),
        ("attribute", {"id": "none"}),
        ("turn", {"number": "9"}),
        ("table", {"table": "turns"}),
        ("text", {"table": "turns", "number": "9", "field": "user_input"}),
        ("text", {"table": "state", "number": "9", "field": "x"}),
        ("text", {"table": "sqlite_master", "number": "-1", "field": "__class__"}),
        ("text", {"table": "turns", "number": "1", "field": "__class__"}),
    ],
)
def test_a_part_that_does_not_exist_is_none(hostile: Path, name_: str, values: dict[str, str]) -> None:
    with Store.open(hostile, read_only=True) as store:
        assert session_part(store, SESSION_ID, name_, values) is None


def test_a_large_session_opens_without_its_spans_and_loads_them_in_portions(tmp_path: Path) -> None:
    db = tmp_path / "large.duckdb"
    with Store.open(db) as store:
        store.add(large_spans(3_000))
    open_database(db).derive()
    with Store.open(db, read_only=True) as store:
        root = page(store, "large")
        assert find_all(root, class_="item") == []
        assert find_all(root, class_="span") == []
        more = find(find(root, class_="hidden-items"), data_load="")
        assert more.get("data-load") == "/session/large/turn?number=1&skip=0"
        assert len(find_all(part(store, "large", "turn", "ol", number="1", skip="200"), class_="item")) == 200
        first = part(store, "large", "waterfall")
        assert len(find_all(first, class_="span")) == 500
        assert text(find(first, data_swap="tr")) == "Show more spans (2,500 more)"
        last = part(store, "large", "waterfall", "tbody", skip="2900")
        assert (len(find_all(last, class_="span")), find_all(last, class_="rest")) == (100, [])


@pytest.mark.exhaustive
def test_a_message_of_five_megabytes_is_cut_and_loaded_in_portions(tmp_path: Path) -> None:
    db = tmp_path / "large.duckdb"
    message_ = "".join(f"{number:09d} " for number in range(500_000))
    with Store.open(db) as store:
        store.add(large_spans(3, message_))
    open_database(db).derive()
    with Store.open(db, read_only=True) as store:
        html = render("session.html", {**_HEAD, **session_page(store, "large")}, ServerLinks())
        assert len(html) < 100_000
        more = find(parsed(html), class_="more").get("data-load")
        assert more == f"/session/large/text?table=turns&number=1&field=user_input&offset={LONGEST}"
        place = {"table": "turns", "number": "1", "field": "user_input"}
        middle = part(store, "large", "text", **place, offset=str(LONGEST))
        assert (
            text(next(one for one in elements(middle) if name(one) == "pre"))
            == (message_[LONGEST : LONGEST + CHUNK])
        )
        last = part(store, "large", "text", **place, offset=str(len(message_) - 10))
        assert (text(last).strip(), find_all(last, class_="more")) == (message_[-10:].strip(), [])


@pytest.mark.exhaustive
def test_a_session_is_shown_with_the_grade_of_the_run_that_is_asked_for(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    database = open_database(db)
    database.grade(SAMPLE, name="before")
    database.grade(SAMPLE, name="after", gates=["cost<=0.000001"])
    with Store.open(db, read_only=True) as store:
        ids = dict(store.query("SELECT name, run_id FROM runs"))
        for run, verdict, other in (("before", "passed", "after"), ("after", "failed", "before")):
            values = session_page(store, "conversation-1", ids[run])
            shown = parsed(render("session.html", {**_HEAD, **values}, ServerLinks()))
            assert values["page"].grade.verdict == verdict
            (list_of_runs,) = find_all(shown, class_="runs")
            (link,) = [one for one in elements(list_of_runs) if name(one) == "a"]
            assert (text(link), link.get("href")) == (other, f"/session/conversation-1?run={ids[other]}")
        assert session_page(store, "conversation-1")["page"].grade.run_id == ids["after"]
        values = session_page(store, "conversation-1", "none")
        shown = render("session.html", {**_HEAD, **values}, ServerLinks())
        assert 'The run <span class="recorded">none</span> has not graded this session.' in shown


def test_scores_of_people_traces_and_programs_are_shown(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    database = open_database(copy_of_sample(db))
    (span_id,) = (
        database.sql("SELECT span_id FROM tool_interactions WHERE session_id = 'conversation-1' LIMIT 1")
        .rows()[0]
        .values()
    )
    score = ExternalScore(
        "conversation-1",
        "<b>tone",
        0.25,
        Source.PERSON,
        10**18,
        "fail",
        False,
        "ann",
        "too <i>curt",
        1,
        (span_id,),
    )
    with Store.open(db) as store:
        save_external_scores(store, [score])
        shown = page(store, "conversation-1")
    (given,) = find_all(shown, class_="given")
    assert " ".join(text(given).split()) == (
        "failed <b>tone fail 0.25 turn 1 person ann, 2001-09-09 01:46:40 UTC span too <i>curt"
    )
    assert [one.get("href") for one in elements(given) if name(one) == "a"] == ["#turn-1", f"#span-{span_id}"]


def test_what_is_not_recorded_is_folded_to_its_number(tmp_path: Path) -> None:
    turns = [Said("Where is it?", tokens=None, calls=[Call("search", {"q": 1}, only_requested=True)])]
    opened = open_database(tmp_path / "s.duckdb")
    opened.import_files(write_sessions(tmp_path / "s.jsonl", [("lacking", turns), ("whole", [Said("Hi")])]))
    with Store.open(tmp_path / "s.duckdb") as store:
        lacking, whole = (find_all(page(store, one), class_="fold")[0] for one in ("lacking", "whole"))
        listed = find_all(lacking, class_="findings")[0]
        number = sum(name(one) == "li" for one in elements(listed))
    assert (name(lacking), lacking.get("open")) == ("details", None)
    assert text(next(one for one in elements(lacking) if name(one) == "summary")) == f"Not recorded {number}"
    assert number > 0
    assert text(whole) == "Not recorded nothing is missing"
