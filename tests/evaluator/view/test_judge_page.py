"""The page of judges: what it shows is what `spangrade judge` prints; a disputed label is changed from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from case_database import labelled
from command_line import Spangrade
from hard_sessions import store_session
from made_once import copy_of
from pages import dangers, elements, find_all, name, parsed, text
from serving import Served, serving

import spangrade as package
from spangrade import InputError
from spangrade.evaluator.apps.server.pages.judge_page import judge_page
from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.tracer.store import Store

METRIC = "tool_success_rate"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Thirty sessions of which ten fail; ann labels all, otherwise than the metric three of them, bob ten."""
    return copy_of(labelled(), tmp_path / "s.duckdb")


@pytest.fixture
def served(db: Path) -> Iterator[Served]:
    with serving(db, Reviewer("ann")) as one:
        yield one


def test_its_numbers_are_those_of_the_command(db: Path, spangrade: Spangrade) -> None:
    found = json.loads("\n".join(spangrade("judge", METRIC, "--db", db, "--format", "json").out))
    with Store.open(db, read_only=True) as store:
        page = judge_page(store, {"metric": METRIC})
    agreement = page["agreement"]
    assert agreement.confusion._asdict() == found["confusion"]
    assert agreement.agreed._asdict() == found["agreed"]
    assert agreement.kappa._asdict() == pytest.approx(found["kappa"])
    assert [pair.kappa and pair.kappa._asdict() for pair in page["pairs"]] == [
        one["kappa"] for one in found["pairs"]
    ]
    assert [one.session_id for one in page["disputes"]] == [one["session_id"] for one in found["differing"]]
    assert [one.session_id for one in page["disputes"]] == ["s20", "s21"]  # on s03 ann and bob differ
    assert [(names[0], one.agreed.total) for names, one in page["by_version"]] == [("", 29)]
    assert sum(one.agreed.total for _, one in page["by_month"]) == 29


def test_verdicts_of_earlier_versions_are_compared_too(db: Path) -> None:
    package.open(db).grade(gates=f"{METRIC}>=0")
    with Store.open(db) as store:
        newest = "(SELECT run_id FROM runs ORDER BY graded_at DESC LIMIT 1)"
        store.query(f"UPDATE run_metrics SET version = 'second' WHERE run_id = {newest}")
        page = judge_page(store, {"metric": METRIC})
    versions = {names[1]: one.confusion for names, one in page["by_version"]}
    second = versions.pop("second")
    (first,) = versions.values()
    assert (first.agreed, first.pass_fail) == (27, 2)
    assert (second.agreed, second.pass_fail) == (18, 11)
    assert page["agreement"].confusion == second


def test_months_are_charts_with_intervals_and_the_number_of_sessions(db: Path, served: Served) -> None:
    assert find_all(parsed(served.get(f"/judge?metric={METRIC}").text), data_charts="") == []  # of one month
    package.open(db).grade(gates=f"{METRIC}>=0")
    with Store.open(db) as store:
        newest = "(SELECT run_id FROM runs ORDER BY graded_at DESC LIMIT 1)"
        store.query(f"UPDATE run_metrics SET version = 'second' WHERE run_id = {newest}")
        store.query(f"UPDATE runs SET graded_at = '2100-02-01' WHERE run_id = {newest}")
        page = judge_page(store, {"metric": METRIC})
    months = {names[0]: one for names, one in page["by_month"]}
    agreed, kappa = page["drawn"]["charts"]
    assert agreed["title"] == "Agreement by month, with 95% intervals"
    assert [one["text"] for one in page["drawn"]["slots"]] == list(months)
    for part, chart in (("agreed", agreed), ("kappa", kappa)):
        expected = {
            month: (of.estimate, of.low, of.high)
            for month, one in months.items()
            if (of := getattr(one, part)) is not None
        }
        (line,) = chart["series"]
        shown = {month: (one[0], *one[3:]) for month, one in zip(months, line["points"], strict=True) if one}
        assert shown == expected
    assert len(find_all(parsed(served.get(f"/judge?metric={METRIC}").text), data_charts="")) == 1


def test_a_disputed_label_is_changed_to_the_judges_and_undone(served: Served, db: Path) -> None:
    page = served.get(f"/judge?metric={METRIC}").text
    token = page.partition('name="token" value="')[2].partition('"')[0]
    back = f"/judge?metric={METRIC}"
    body = {"token": token, "back": back, "name": METRIC, "verdict": "pass"}
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    answer = served.get("/session/s20/labels", method="POST", body=urlencode(body), **form)
    assert (answer.status, answer.headers["location"]) == (303, back)
    disputes = find_all(parsed(served.get(back).text), class_="row")
    assert [text(one) for one in disputes] == ["s21"]
    served.get("/undo", method="POST", body=urlencode({"token": token, "back": back}), **form)
    assert len(find_all(parsed(served.get(back).text), class_="row")) == 2


def test_without_labels_it_says_how_to_begin(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb"):
        pass
    with serving(tmp_path / "s.duckdb") as one:
        assert "--allow-labels" in one.get("/judge").text
        assert one.get("/judge?metric=none").status == 400


def test_a_metric_that_nobody_labelled_is_refused(db: Path) -> None:
    with (
        Store.open(db, read_only=True) as store,
        pytest.raises(InputError, match=f"expected one of {METRIC}"),
    ):
        judge_page(store, {"metric": "cost"})


def test_what_was_recorded_is_only_text(tmp_path: Path) -> None:
    store_session(tmp_path / "s.duckdb")
    opened = package.open(tmp_path / "s.duckdb")
    opened.grade(gates="tool_success_rate>=1")
    (session,) = [
        row["session_id"] for row in opened.sql("SELECT session_id FROM derived.sessions LIMIT 1").rows()
    ]
    hostile = "<script>window.attacked=1</script>"
    for verdict, by in (("pass", hostile), ("pass", "ann")):
        opened.label(session, verdict, by=by, note=hostile)
    with Store.open(tmp_path / "s.duckdb") as store:
        store.query("UPDATE verdicts SET verdict = 'failed', reason = $reason", {"reason": hostile})
        store.query(
            "INSERT INTO scores BY NAME "
            "SELECT * REPLACE ($name AS metric) FROM scores WHERE source = 'person'",
            {"name": hostile},
        )
        store.query("UPDATE runs SET judge = $judge", {"judge": hostile})
    with serving(tmp_path / "s.duckdb", Reviewer(hostile)) as one:
        root = parsed(one.get("/judge?metric=passed").text)
        assert dangers(root) == []
        assert text(root).count(hostile) > 5
        assert dangers(parsed(one.get(f"/judge?{urlencode({'metric': hostile})}").text)) == []


def test_the_filters_of_the_header_choose_among_the_labelled_sessions(db: Path) -> None:
    with Store.open(db, read_only=True) as store:
        ((until,),) = store.query(
            "SELECT make_timestamp_ns(start_ns)::VARCHAR FROM derived.sessions WHERE session_id = 's21'"
        )
        page = judge_page(store, {"metric": METRIC, "until": until, "agent": "shop"})
        nobody = judge_page(store, {"metric": METRIC, "agent": "no such agent"})
        none = judge_page(store, {"agent": "no such agent"})
    assert [one.session_id for one in page["disputes"]] == ["s20"]
    assert sum(page["agreement"].confusion) == 20  # 21 but for s03, on which ann and bob differ
    assert [row["sessions"] for row in page["metrics"]] == [21]
    assert page["scope"] == {"until": until, "agent": "shop"}
    assert (sum(nobody["agreement"].confusion), nobody["metrics"], none["metric"]) == (0, [], "")


@pytest.mark.exhaustive
def test_the_filters_of_the_header_stand_on_every_page_and_go_along(served: Served) -> None:
    kept = "agent=shop&version=1.3"
    pages = ("/session/s01?", "/runs?", "/compare?", f"/judge?metric={METRIC}&", "/review?")
    names = ("Overview", "Sessions", "Runs", "Compare", "Over time", "Tools", "Judge")
    run = find_all(parsed(served.get("/runs").text), class_="row")[0].get("href") or ""
    for path in (*pages, f"{run}?"):
        root = parsed(served.get(path + kept).text)
        (menu,) = find_all(root, class_="scope")
        assert (path, "agent shop · version 1.3" in " ".join(text(menu).split())) == (path, True)
        links = {text(one): one.get("href") or "" for one in elements(root) if name(one) == "a"}
        assert [one for one in names if not links[one].endswith(kept)] == [], path
        action = next(one for one in elements(menu) if name(one) == "form").get("action")
        assert (path, action) == (path, None if path.startswith("/judge") else "/sessions")
    rows = find_all(parsed(served.get(f"/runs?{kept}").text), class_="row")
    assert [row.get("href") for row in rows] == [f"{run}?{kept}"]
    rows = find_all(parsed(served.get(f"/review?queue=unlabelled&{kept}").text), class_="row")
    assert {(row.get("href") or "").partition("?")[2] for row in rows} == {f"{kept}&queue=unlabelled"}
