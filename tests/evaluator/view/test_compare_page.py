"""The pages of a comparison: what `spangrade compare` finds, and two sessions side by side."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from many_sessions import write_sessions
from otlp_sessions import Call, Said
from otlp_sessions import write_sessions as write_recording
from pages import dangers, parsed
from paths import SAMPLE
from serving import Served, serving

import spangrade
from spangrade import InputError
from spangrade.evaluator.apps.server.pages import compare_page as module
from spangrade.evaluator.apps.server.pages.charts import Interval, interval
from spangrade.evaluator.apps.server.pages.compare_page import (
    PairOfSteps,
    compare_page,
    compare_sessions_page,
    difference_shown,
)
from spangrade.evaluator.reports.comparison import comparison_json
from spangrade.evaluator.statistics.comparison.differences import Difference, TooLittle
from spangrade.tracer.store import Store

pytest.importorskip("scipy", reason="needs the extra `stats`")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, graded three times: all passed, twice, then by gates that some sessions miss."""
    file = tmp_path_factory.mktemp("compare") / "s.duckdb"
    opened = spangrade.open(file)
    opened.grade(SAMPLE, name="again")
    opened.grade(SAMPLE, name="before")
    opened.grade(SAMPLE, name="after", gates=["tool_success_rate>=0.9", "cost<=0.01"])
    return file


@pytest.fixture(scope="module")
def served(db: Path) -> Iterator[Served]:
    with serving(db) as one:
        yield one


def test_the_page_has_the_numbers_of_the_command(tmp_path: Path) -> None:
    db = tmp_path / "many.duckdb"
    write_sessions(db, 500)
    compared = comparison_json(*spangrade.open(db).compare("run-1", "run-2"))
    with Store.open(db, read_only=True) as store:
        page = compare_page(store, {"a": "run-1", "b": "run-2"})
    rows = {row.change.metric: row for row in page["metrics"]}
    assert list(rows) == [one["metric"] for one in compared["metrics"]]
    for one in compared["metrics"]:
        row = rows[one["metric"]]
        assert (row.change.first, row.change.second, row.change.change) == (
            one["first"],
            one["second"],
            one["change"],
        )
        if one["difference"] is None:
            assert (row.difference.endswith(" (no interval)"), row.shape) == (True, None)
        else:
            text = row.difference.replace("−", "-")
            shown = [float(number) for number in re.findall(r"[-+]?\d[\d.e+-]*", text)]
            known = [one["difference"][name] for name in ("estimate", "low", "high")]
            if one["difference"]["is_ratio"]:  # a change in percent
                known = [(number - 1) * 100 for number in known]
            elif one["unit"] == "share":  # in points
                known = [number * 100 for number in known]
            assert shown == pytest.approx(known, rel=0.01, abs=1e-9)
    flips = {title: [row.flip.key for row in found] for title, _, found in page["groups"]}
    questions = {kind: [flip["question_id"] for flip in compared[kind]] for kind in ("regressed", "fixed")}
    assert (flips["Regressed"], flips["Fixed"]) == (questions["regressed"], questions["fixed"])
    assert sum(map(len, questions.values())) > 0


@pytest.mark.parametrize(
    ("difference", "unit", "text"),
    [
        (Difference(-0.417, -0.706, -0.107, 0.01, 12, ""), "share", "−41.7 points (−70.6 to −10.7)"),
        (Difference(1.87, 1.85, 1.88, 0.01, 200, "", is_ratio=True), "USD", "+87% (+85% to +88%)"),
        (Difference(0.5, -0.1, 1.1, 0.01, 12, ""), "calls", "+0.5 (-0.1 to +1.1)"),
        (TooLittle("few", 10, 0.9, is_ratio=True), "seconds", "−10% (no interval)"),
        (Difference(0.0, 0.0, 0.0, 1, 12, ""), "share", "0"),
        (TooLittle("none"), "share", "–"),
    ],
)
def test_rates_differ_by_points_and_factors_are_changes_in_percent(
    difference: Difference | TooLittle, unit: str, text: str
) -> None:
    assert difference_shown(difference, unit) == text


@pytest.mark.exhaustive
def test_a_comparison_leads_to_both_sessions_of_a_flip(served: Served) -> None:
    page = served.get("/compare?a=before&b=after")
    assert page.status == 200
    links = [html.unescape(one) for one in re.findall(r'href="(/compare/sessions\?[^"#]+)"', page.text)]
    assert len(links) == 2
    for link in links:
        sides = served.get(link)
        assert sides.status == 200
        assert dangers(parsed(sides.text)) == []
        verdicts = re.findall(
            r'<p><span class="verdict (\w+)">\1</span> by the run <a [^>]+>(\w+)</a>', sides.text
        )
        assert verdicts == [("passed", "before"), ("failed", "after")]
        sessions = re.findall(r'<a class="recorded" href="(/session/[^"]+\?run=[0-9a-f]+)">', sides.text)
        assert {served.get(one).status for one in sessions} == {200}
    spans = set(re.findall(r'class="span-link" href="(/session/[^"#]+)#span-', sides.text))
    assert spans == set(sessions)


def test_trajectories_stand_side_by_side(db: Path) -> None:
    with Store.open(db, read_only=True) as store:
        page = compare_sessions_page(store, {"first": "conversation-1", "second": "conversation-2"})
        names = [
            [
                name
                for (name,) in store.query(
                    "SELECT name FROM trajectory WHERE session_id = $id ORDER BY position", {"id": one}
                )
            ]
            for one in ("conversation-1", "conversation-2")
        ]
    assert [step.first for step in page["steps"] if step.first is not None] == names[0]
    assert [step.second for step in page["steps"] if step.second is not None] == names[1]
    assert {step.result for step in page["steps"] if step.first == step.second} == {"same", "other arguments"}
    assert {step.result for step in page["steps"] if step.first is None} <= {"only in the second"}
    assert {step.result for step in page["steps"] if step.second is None} <= {"only in the first"}


def test_sessions_of_the_same_steps_part_where_arguments_or_failures_differ(tmp_path: Path) -> None:
    calls = {
        "usual": [Call("find", {"order": "A-1"}), Call("cancel", {"order": "A-1"})],
        "again": [Call("find", {"order": "A-1"}, "ready"), Call("cancel", {"order": "A-1"})],
        "other": [Call("find", {"order": "A-1"}), Call("cancel", {"order": "A-2"})],
        "fails": [Call("find", {"order": "A-1"}, error="timeout"), Call("cancel", {"order": "A-1"})],
    }
    made = [(name, [Said("cancel A-1", calls=each)]) for name, each in calls.items()]
    db = tmp_path / "s.duckdb"
    spangrade.open(db).import_files([write_recording(tmp_path / "s.otlp.jsonl", made)])
    with Store.open(db, read_only=True) as store:
        pages = {
            name: compare_sessions_page(store, {"first": "usual", "second": name})
            for name in ("again", "other", "fails")
        }
    assert {name: page["parted"] for name, page in pages.items()} == {"again": None, "other": 2, "fails": 1}
    differing = PairOfSteps("cancel", "cancel", "other arguments", ('{"order":"A-1"}', '{"order":"A-2"}'), 1)
    assert pages["other"]["steps"][2] == differing
    assert pages["fails"]["steps"][1] == PairOfSteps("find", "find", "failed in the second", turn=1)
    with serving(db) as served:
        shown = served.get("/compare/sessions?first=usual&second=other").text
    assert '<strong class="recorded">cancel</strong>: other arguments.' in shown
    assert re.search(r'id="parted".*A-2', shown)


def test_without_two_runs_the_page_lets_people_choose(served: Served) -> None:
    page = served.get("/compare")
    assert page.status == 200
    assert re.findall(r'<input name="(\w)" list="runs"', page.text) == ["a", "b"]
    runs = page.text.partition("<main")[2]
    assert re.findall(r'<option value="(\w+)">', runs) == ["after", "before", "again"]


def test_the_sentence_is_first_then_what_regressed_then_the_gates_and_the_rest_is_folded(
    served: Served,
) -> None:
    page = served.get("/compare?a=before&b=after").text.partition("<main")[2]
    places = [
        page.index(one) for one in ('class="answer"', "Regressed: 2", 'aria-label="Gates"', "<summary>")
    ]
    assert places == sorted(places)
    gates = page[places[2] : places[3]]
    assert re.findall(r'metric-name">(\w+)<', gates)[0] == "passed"
    assert "tool_success_rate" in gates


def test_an_empty_comparison_offers_the_two_newest_runs_of_one_dataset(db: Path, served: Served) -> None:
    with Store.open(db, read_only=True) as store:
        older, newer = compare_page(store, {})["newest"]
        query = "SELECT run_id FROM runs WHERE dataset = $dataset ORDER BY graded_at"
        runs = store.query(query, {"dataset": older["dataset"]})
    assert [older["run_id"], newer["run_id"]] == [run_id for (run_id,) in runs][-2:]
    page = served.get("/compare").text
    assert f"/compare?a={older['run_id']}&amp;b={newer['run_id']}" in page
    assert 'name="c"' not in page


def test_two_sessions_stand_turn_by_turn_with_their_replies_word_by_word(tmp_path: Path) -> None:
    attack = "<script>window.hit=1</script>"
    call = Call("find", {"order": "A-1"})
    made = [
        ("one", [Said("Hi", f"It costs 5 EUR {attack}", [call]), Said("Thanks", "Bye.", [call])]),
        (
            "two",
            [Said("Hi", f"It costs 6 EUR {attack}"), Said("Thanks", "Bye.", [call]), Said("More?", "No.")],
        ),
    ]
    db = tmp_path / "s.duckdb"
    spangrade.open(db).import_files([write_recording(tmp_path / "s.otlp.jsonl", made)])
    with Store.open(db, read_only=True) as store:
        page = compare_sessions_page(store, {"first": "one", "second": "two"})
    calls = [(one.turn, one.first, one.second) for one in page["steps"] if "find" in (one.first, one.second)]
    assert calls == [(1, "find", None), (2, "find", "find")]
    changed = [
        [part.text for part in words or () if part.changed]
        for one in page["turns"]
        for words in (one.replies.expected, one.replies.actual)
    ]
    assert changed == [["5"], ["6"], [], [], [], ["No."]]
    with serving(db) as served:
        shown = served.get("/compare/sessions?first=one&second=two").text
    assert dangers(parsed(shown)) == []
    assert "<del>5</del>" in shown
    assert "<ins>6</ins>" in shown
    assert "It has no turn 3." in shown


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/compare?a=before&b=none", "no run &#34;none&#34;"),
        ("/compare?a=before&b=cost_usd+%3E+0", "no run &#34;cost_usd &gt; 0&#34;"),
        ("/compare/sessions?first=conversation-1", "second: expected the id of a session"),
        ("/compare/sessions?first=conversation-1&second=none", "no session &#39;none&#39;"),
    ],
)
def test_what_cannot_be_compared_is_400_and_says_why(served: Served, path: str, message: str) -> None:
    answer = served.get(path)
    assert answer.status == 400
    assert message in answer.text


def test_a_run_that_is_too_large_for_a_page_is_not_compared(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 3)
    with Store.open(db, read_only=True) as store, pytest.raises(InputError, match="has 4 sessions"):
        compare_page(store, {"a": "before", "b": "after"})


def test_a_picture_has_no_difference_in_its_middle() -> None:
    assert interval(0.02, -0.01, 0.05) == Interval(80.8, 138.4, 196.0, 100.0)
    assert interval(0, 0, 0) == Interval(100.0, 100.0, 100.0, 100.0)
    assert interval(1, 0.5, 2, is_ratio=True) == Interval(4.0, 100.0, 196.0, 100.0)
