"""The grid of a run: rows by question, cells by metric, and what changed against another run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from pages import dangers, find, find_all, parsed, parsed_part, text
from paths import SAMPLE
from serving import Served, serving

import spangrade
from spangrade import InputError
from spangrade.evaluator.reports.html.grid_page import grid_page, grid_part, shown_direction
from spangrade.evaluator.reports.html.run_page import run_page
from spangrade.tracer.store import Store

# Of each question the sessions in the runs `first` and `second`: whether each passed, its value of `quality`.
QUESTIONS = {
    "broke": ([(True, 0.9)], [(False, 0.3)]),
    "fixed": ([(False, 0.2)], [(True, 1.0)]),
    "same": ([(True, 1.0)], [(True, 1.0)]),
    "repeated": ([(True, 1.0), (True, 1.0), (True, 1.0)], [(True, 1.0), (False, 0.5), (True, 0.9)]),
    "slower": ([(True, 1.0)], [(True, 0.9)]),
    "new": ([], [(True, 1.0)]),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    db = tmp_path_factory.mktemp("grid") / "s.duckdb"
    with Store.open(db) as made:
        pass
    spangrade.open(db).derive()
    with Store.open(db) as made:
        for number, run in enumerate(("first", "second")):
            made.query(
                "INSERT INTO runs (run_id, name, dataset, metrics, graded_at) "
                "SELECT $run || ' id', $run, 'g.json', [], make_timestamp(2026, 1, 1 + $number, 0, 0, 0)",
                {"run": run, "number": number},
            )
            made.query(
                "INSERT INTO run_metrics SELECT $run || ' id', 'quality', '1', 0.8, true, 'share', 0, 1",
                {"run": run},
            )
            for question, sides in QUESTIONS.items():
                asked = {"user_inputs": [f"Please {question}"], "metadata": {"topic": question[:1]}}
                made.query(
                    "INSERT INTO golden_questions VALUES ($1, $2)",
                    [run + question, orjson.dumps(asked).decode()],
                )
                made.query("INSERT INTO run_questions VALUES ($1 || ' id', $2, $1 || $2)", [run, question])
                for place, (passed, value) in enumerate(sides[number]):
                    verdict = "passed" if passed else "failed"
                    values = [f"{run} id", f"{run}-{question}-{place}", question]
                    made.query(
                        "INSERT INTO verdicts (run_id, session_id, question_id, verdict, reason) "
                        "VALUES ($1, $2, $3, $4, 'because')",
                        [*values, verdict],
                    )
                    made.query(
                        "INSERT INTO scores "
                        "(run_id, session_id, question_id, metric, value, passed, outcome, reason) "
                        "VALUES ($1, $2, $3, 'quality', $4, $5, 'score', 'why')",
                        [*values, value, passed],
                    )
        yield made


def test_a_cell_of_a_gate_that_failed_leads_with_the_place(store: Store) -> None:
    places = '[{"span": "0af7", "path": "pay(id)"}]'
    store.query(
        "UPDATE scores SET evidence = $1 WHERE run_id = 'second id' AND question_id = 'broke'", [places]
    )
    rows = grid_page(store, "second id", {})["rows"]
    reasons = {row.key: [cell.reason for cell in row.cells if cell] for row in rows}
    assert reasons["broke"] == ["pay(id): why"]
    assert reasons["same"] == ["why"]


def keys(store: Store, **texts: str) -> list[str]:
    return [row.key for row in grid_page(store, "second id", texts)["rows"]]


def test_rows_come_by_their_worst_change_against_the_run_before(store: Store) -> None:
    page = grid_page(store, "second id", {})
    assert (page["base"]["name"], page["total"], [one.metric for one in page["columns"]]) == (
        "first",
        6,
        ["quality"],
    )
    rows = {row.key: row for row in page["rows"]}
    assert list(rows) == ["broke", "repeated", "slower", "same", "fixed", "new"]
    shown = {
        key: (
            row.words,
            row.before,
            row.verdict,
            row.share_before,
            row.share,
            row.cells[0]._replace(reason=""),
        )
        for key, row in rows.items()
    }
    assert shown["broke"][:5] == ("Please broke", "passed", "failed", "", "")
    assert shown["repeated"][:5] == ("Please repeated", "passed", "failed", "3 of 3", "2 of 3")
    assert {key: (one[5].state, one[5].share, one[5].style) for key, one in shown.items()} == {
        "broke": ("failed", "", ""),
        "repeated": ("failed", "2 of 3", ""),
        "slower": ("passed", "", ""),
        "same": ("passed", "", ""),
        "fixed": ("passed", "", ""),
        "new": ("passed", "", ""),
    }
    assert shown["broke"][5].value == 0.3
    assert shown["broke"][5].change == pytest.approx(-0.6)
    assert (shown["same"][5].change, shown["new"][5].change, shown["new"][1]) == (None, None, None)


@pytest.mark.parametrize(
    ("before", "now", "bounds", "direction"),
    [
        ([1.0], [0.0], (0.0, 1.0), 0),
        ([1.0, 1.0], [0.0, 0.0], (0.0, 1.0), 0),
        ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], (0.0, 1.0), -1),
        ([1.0, 0.0, 1.0, 0.0], [1.0] * 4, (0.0, 1.0), 0),
        ([0.1] * 5, [0.9] * 5, (0.0, 1.0), 1),
        ([0.5, 0.6] * 20, [0.7, 0.8] * 20, (0.0, 1.0), 1),
        ([1.0, 1.1] * 20, [9.0, 9.1] * 20, (0.0, math.inf), 0),  # without bounds hundreds are needed
    ],
)
def test_a_change_is_coloured_only_where_its_interval_excludes_none(
    before: list[float], now: list[float], bounds: tuple[float, float], direction: int
) -> None:
    assert shown_direction(before, now, bounds) == direction
    assert shown_direction(now, before, bounds) == -direction


def test_the_change_of_a_question_with_repeats_is_coloured_beyond_noise(store: Store) -> None:
    def style(values: list[float]) -> tuple[str, float | None]:
        for place, value in enumerate(values):
            store.query(
                "UPDATE scores SET value = $1 WHERE session_id = $2", [value, f"second-repeated-{place}"]
            )
        (row,) = [row for row in grid_page(store, "second id", {})["rows"] if row.key == "repeated"]
        assert row.cells[0] is not None
        return row.cells[0].style, row.cells[0].change

    try:
        assert style([0.0, 0.0, 0.0]) == ("worse", -1.0)
        assert style([0.0, 1.0, 0.0]) == ("", pytest.approx(-2 / 3))
    finally:
        style([1.0, 0.5, 0.9])


def test_what_nobody_asked_for_and_nothing_recorded_is_not_shown(tmp_path: Path) -> None:
    database = spangrade.open(tmp_path / "s.duckdb")
    gates = ["cache_efficiency>=0.5", "thinking_metrics"]  # of which nothing is recorded, as of two others
    graded = database.grade(SAMPLE, gates=gates, out=tmp_path)
    with Store.open(database.path, read_only=True) as store:
        columns = [one.metric for one in grid_page(store, graded.run_id, {})["columns"]]
        sections = [one["metric"] for one in (run_page(store, graded.run_id) or {})["metrics"]]
        valued = {metric for (metric,) in store.query("SELECT metric FROM scores WHERE value IS NOT NULL")}
    shown = {*valued, *gates, "cache_efficiency"}
    unknown = {*graded.metrics} - shown
    assert unknown == {"grounding_utilization", "sandbox_usage"}
    assert {*columns} == {*sections} == {*graded.shown_metrics} == {*graded.metrics} - unknown
    summary = (tmp_path / "summary.md").read_text()
    assert "thinking_metrics" in summary
    assert not [name for name in unknown if name in summary]


def test_gates_come_first_those_that_sessions_fail_then_those_that_are_unknown(tmp_path: Path) -> None:
    database = spangrade.open(tmp_path / "s.duckdb")
    graded = database.grade(
        SAMPLE, gates=["latency_metrics<=1000", "cache_efficiency>=0.5", "cost<=0.000001"]
    )
    with Store.open(database.path, read_only=True) as store:
        columns = grid_page(store, graded.run_id, {})["columns"]
    gates = [one.metric for one in columns if one.judged]
    assert gates[:2] == ["cost", "cache_efficiency"]
    assert "latency_metrics" in gates
    assert [one.judged for one in columns] == sorted((one.judged for one in columns), reverse=True)


def test_a_row_leads_to_sessions_whose_verdicts_differ(store: Store) -> None:
    (row,) = [row for row in grid_page(store, "second id", {})["rows"] if row.key == "repeated"]
    assert (row.session_id, row.base_session_id) == ("second-repeated-1", "first-repeated-2")


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"verdict": "failed"}, ["broke", "repeated"]),
        ({"metric": "quality"}, ["broke", "repeated"]),
        ({"metadata": "topic=s"}, ["slower", "same"]),
        ({"metadata": "topic = none"}, []),
        ({"text": "PLEASE F"}, ["fixed"]),
        ({"changed": "1"}, ["broke", "repeated", "slower", "fixed", "new"]),
        ({"changed": "1", "against": "none"}, ["broke", "repeated", "fixed", "new", "same", "slower"]),
        ({"sort": "verdict"}, ["broke", "repeated", "fixed", "new", "same", "slower"]),
    ],
)
def test_filters_leave_the_questions_that_they_name(
    store: Store, texts: dict[str, str], found: list[str]
) -> None:
    assert keys(store, **texts) == found


def test_rows_are_fetched_from_any_place_on(store: Store) -> None:
    part = grid_part(store, "second id", {"against": "first", "skip": "4"})
    assert ([row.key for row in part["rows"]], part["total"], part["skip"]) == (["fixed", "new"], 6, 4)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"verdict": "green"}, "verdict: 'green'; expected one of"),
        ({"sort": "size"}, "sort: 'size'; expected one of change, verdict"),
        ({"metadata": "topic"}, "metadata: 'topic'; expected a key and its value"),
        ({"against": "nothing"}, 'no run "nothing"'),
    ],
)
def test_a_filter_that_cannot_be_used_is_an_error(store: Store, texts: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        grid_page(store, "second id", texts)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file: Path = tmp_path_factory.mktemp("grid") / "sample.duckdb"
    spangrade.open(file).grade(SAMPLE, name="before")
    spangrade.open(file).grade(SAMPLE, name="after", gates=["tool_success_rate>=0.9"])
    with serving(file) as one:
        yield one


def test_the_page_of_a_run_has_its_name_as_address_and_the_verdicts_of_the_run(served: Served) -> None:
    page = served.get("/run/after")
    root = parsed(page.text)
    assert (page.status, dangers(root)) == (200, [])
    rows = find_all(root, data_place="")
    assert [text(find_all(row, class_="row")[0]) for row in rows][:2] == [
        "My order A-1002 came late.",
        "Where is order A-9999?",
    ]
    assert [" ".join(text(find_all(row, class_="state")[0]).split()) for row in rows] == [
        "failedwas passed",
        "failedwas passed",
        "passed",
        "passed",
    ]
    headings = [" ".join(text(one).split()) for one in find_all(root, class_="gate")]
    assert headings[:3] == ["tool success rate", "turns answered", "trajectory accuracy"]
    links = [find_all(row, class_="row")[0].get("href") for row in rows]
    sides = served.get(links[0].partition("#")[0])
    assert (sides.status, "Both took the same" in sides.text) == (200, True)
    runs = [
        one for one in find_all(parsed(sides.text), href="") if (one.get("href") or "").startswith("/run/")
    ]
    assert [text(one) for one in runs] == ["before", "after"]
    grid = parsed(served.get("/run/after").text)
    assert re.fullmatch(r"/run/\w+/summary", find(grid, class_="loaded").get("data-load") or "")
    assert dangers(parsed_part(served.get("/run/after/summary").text)) == []
    session = parsed(served.get("/session/conversation-3").text)
    (run,) = [one for one in find_all(session, href="") if (one.get("href") or "").startswith("/run/")]
    assert text(run) == "after"
    listed = parsed(served.get("/runs").text)
    assert [text(one) for one in find_all(listed, class_="row")] == ["after", "before"]


def test_questions_are_counted_apart_from_sessions_that_answer_none(tmp_path: Path) -> None:
    database = spangrade.open(tmp_path / "s.duckdb")
    sample = orjson.loads((SAMPLE / "customer_service_golden.json").read_bytes())
    (tmp_path / "two.json").write_bytes(orjson.dumps({"golden_questions": sample["golden_questions"][:2]}))
    database.import_files(SAMPLE / "spans.otlp.jsonl")
    run = database.grade(tmp_path / "two.json", gates="cost<=1")
    alone = database.grade(gates="cost<=1")
    with Store.open(database.path, read_only=True) as store:
        texts = [grid_page(store, one.run_id, {})["rows_text"] for one in (run, alone)]
    assert texts == ["2 questions, 2 sessions without one", "4 sessions"]
