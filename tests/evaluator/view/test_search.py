"""The search: where words occur in a session, and filters by labels, scores, rules and behaviour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hard_sessions import store_session
from otlp_sessions import Call, Said, write_sessions
from pages import dangers, elements, find_all, name, parsed, text
from serving import Served, serving

import spangrade as package
from spangrade import InputError
from spangrade.evaluator.reports.html.sessions_page import sessions_page
from spangrade.tracer.store import Store


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    look_up = Call("look_up", {"id": 1}, {"note": 'he said "Blue"'})
    sessions = [
        ("said", [Said("I want the BLUE one, please")]),
        ("answered", [Said("hi"), Said("and now?", "It is blue.")]),
        ("called", [Said("hi", calls=[look_up])]),
        ("again", [Said("hi", calls=[Call("look_up", {"id": 2})])]),
        ("failed", [Said("hi", calls=[Call("look_up", {"id": 3}, error="no"), Call("refund")])]),
    ]
    opened = package.open(folder / "s.duckdb")
    opened.import_files(write_sessions(folder / "s.jsonl", sessions))
    opened.grade(gates="tool_success_rate>=0.9")
    opened.label("said", "pass", by="ann")
    opened.label("called", "fail", by="ann")
    opened.score("said", {"thumbs": 1}, by="ann")
    opened.score("failed", {"thumbs": 0}, by="ann")
    return folder / "s.duckdb"


@pytest.fixture(scope="module")
def served(db: Path) -> Iterator[Served]:
    with serving(db) as one:
        yield one


def listed(db: Path, line: str) -> set[str]:
    with Store.open(db, read_only=True) as store:
        return {one["session_id"] for one in sessions_page(store, {"q": line})["sessions"]}


@pytest.mark.parametrize(
    ("line", "sessions"),
    [
        ("label:pass", {"said"}),
        ("label:none", {"answered", "again", "failed"}),
        ("thumbs<1", {"failed"}),
        ("thumbs>=0", {"said", "failed"}),
        ("rule:tool_success_rate", {"failed"}),
        ("similar:called", {"called", "again"}),
        ("similar:nothing", set()),
        ("error:no", {"failed"}),
    ],
)
def test_filters_by_labels_scores_rules_and_behaviour(db: Path, line: str, sessions: set[str]) -> None:
    assert listed(db, line) == sessions


@pytest.mark.parametrize("line", ["label:maybe", "score:thumbs", 'score:"<1"'])
def test_a_filter_that_cannot_be_used_is_refused(db: Path, line: str) -> None:
    with pytest.raises(InputError, match=r"expected"):
        listed(db, line)


def test_the_list_shows_why_it_hit_and_opens_the_session_there(served: Served) -> None:
    root = parsed(served.get("/sessions?q=blue").text)
    rows = {str(row.get("data-session")): row for row in elements(root) if row.get("data-session")}
    shown = {
        session: (
            text(find_all(row, class_="hit")[0]),
            [text(one) for one in elements(row) if name(one) == "mark"],
        )
        for session, row in rows.items()
    }
    assert shown == {
        "said": ("user: I want the BLUE one, please", ["BLUE"]),
        "answered": ("reply: It is blue.", ["blue"]),
        "called": ('look_up returned: {"note":"he said \\"Blue\\""}', ["Blue"]),
    }
    links = {session: str(find_all(row, class_="row")[0].get("href")) for session, row in rows.items()}
    assert (links["said"], links["answered"]) == ("/session/said#turn-1", "/session/answered#turn-2")
    assert links["called"].startswith("/session/called#span-")
    for link in links.values():
        assert f'id="{link.partition("#")[2]}"' in served.get(link.partition("#")[0]).text
    quoted = parsed(served.get("/sessions?q=%22said%20%5C%22blue%22").text)
    assert [text(one) for one in elements(quoted) if name(one) == "mark"] == ['said \\"Blue']


def test_a_session_leads_to_similar_ones(served: Served) -> None:
    (link,) = [one for one in elements(parsed(served.get("/session/again").text)) if text(one) == "Similar"]
    rows = [
        row for row in elements(parsed(served.get(str(link.get("href"))).text)) if row.get("data-session")
    ]
    assert {row.get("data-session") for row in rows} == {"called", "again"}


def test_what_was_recorded_is_only_text_around_a_hit(tmp_path: Path) -> None:
    store_session(tmp_path / "s.duckdb")
    with serving(tmp_path / "s.duckdb") as one:
        root = parsed(one.get("/sessions?q=%22script%3Ewindow%22&origin=any").text)
        assert dangers(root) == []
        assert [text(each) for each in elements(root) if name(each) == "mark"]
