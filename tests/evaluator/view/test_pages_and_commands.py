"""What the pages show of every recording is what the commands print and SQL returns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from command_line import Spangrade
from made_once import made_once
from pages import elements, find, find_all, name, parsed, parsed_part, text
from paths import FIXTURES
from serving import Served, serving

import spangrade as package
from spangrade.evaluator.metrics.latency import nearest_rank
from spangrade.evaluator.reports.html.links import url_part
from spangrade.evaluator.reports.html.rendering import brief, change, count, seconds, unit, usd

GATES = ["tool_success_rate>=0.9", "cost<=0.001"]


def is_gate(metric: str) -> bool:
    return any(gate.startswith(metric) for gate in GATES)


def make(db: Path) -> None:
    opened = package.open(db)
    opened.import_files(sorted(FIXTURES.rglob("*.otlp.jsonl")))
    opened.grade(gates="cost<=1", name="before")
    opened.grade(gates=GATES, name="after")


@pytest.fixture(scope="module")
def db() -> Path:
    return made_once("recordings_graded_twice", make)


@pytest.fixture(scope="module")
def served(db: Path) -> Iterator[Served]:
    with serving(db) as one:
        yield one


def printed(spangrade: Spangrade, db: Path, *command: str) -> Any:
    return json.loads("\n".join(spangrade(*command, "--db", db, "--format", "json").out))


def rows(db: Path, query: str) -> list[dict[str, Any]]:
    return list(package.open(db).sql(query).rows())


def words(element: Element) -> str:
    return " ".join(text(element).split())


def cells(row: Element) -> list[str]:
    return [words(cell) for cell in elements(row) if name(cell) in ("td", "th")]


def all_rows(served: Served, path: str, links: str) -> list[Element]:
    """Return the rows of a list over all of its pages."""
    found: list[Element] = []
    while True:
        page = parsed(served.get(path).text)
        found += [row for row in elements(page) if row.get(links)]
        following = find_all(page, rel="next")
        if not following:
            return found
        path = str(following[0].get("href"))


def test_the_list_has_the_sessions_of_the_command(served: Served, db: Path, spangrade: Spangrade) -> None:
    shown = {
        str(row.get("data-session")): [words(find(row, class_="verdict")), *cells(row)[3:7]]
        for row in all_rows(served, "/sessions", "data-session")
    }
    listed = printed(spangrade, db, "sessions", "--limit", "1000")
    assert len(listed) > 100
    assert shown == {
        one["session_id"]: [
            one["verdict"],
            seconds(one["total_s"]),
            usd(one["cost_usd"]),
            count(None if one["input_tokens"] is None else one["input_tokens"] + one["output_tokens"]),
            count(one["turns"]),
        ]
        for one in listed
    }


def test_the_runs_have_the_verdicts_of_the_command(served: Served, db: Path, spangrade: Spangrade) -> None:
    names = ("sessions", "failed", "inconclusive", "broken", "unmatched")
    page = parsed(served.get("/runs").text)
    shown = [cells(row) for row in elements(page) if find_all(row, class_="row") and name(row) == "tr"]
    assert [[row[3], *row[5:]] for row in shown] == [
        [count(run[one]) for one in names] for run in printed(spangrade, db, "runs")
    ]


def grid(served: Served) -> dict[str, tuple[str, str, list[str]]]:
    """Return the rows of the grid: the verdict, what it was, and the cells."""
    first = served.get("/run/after?against=before").text
    total = int(str(find(parsed(first), data_grid="").get("data-total")))
    parts = [parsed(first)]
    parts += [
        parsed_part(served.get(f"/run/after/rows?against=before&skip={skip}").text, "tbody")
        for skip in range(100, total, 100)
    ]
    found = {}
    for row in (row for part in parts for row in find_all(part, data_place="")):
        state, subject, *measured = cells(row)
        key = words(find_all(row, class_="ids")[0])
        found[key] = (state, subject, measured)
    assert len(found) == total
    return found


@pytest.mark.exhaustive
def test_the_grid_has_the_scores_that_are_stored(served: Served, db: Path) -> None:
    units = {one["metric"]: unit(one["unit"]) for one in rows(db, "FROM run_metrics")}
    head = parsed(served.get("/run/after?against=before").text)
    columns = [one for one in elements(find(head, data_grid="")) if one.get("title") and name(one) == "th"]
    metrics = [str(one.get("title")).removesuffix(" (a gate)") for one in columns]
    assert len(metrics) >= 10
    verdicts = {
        (one["name"], one["session_id"]): one["verdict"]
        for one in rows(db, "FROM verdicts JOIN runs USING (run_id)")
    }
    scores = {
        (one["name"], one["session_id"], one["metric"]): one
        for one in rows(
            db,
            # A bound, such as "at best 0.8", decides a gate and is not a value.
            "SELECT * REPLACE (if(outcome = 'score', value, NULL) AS value) "
            "FROM scores JOIN runs USING (run_id)",
        )
    }

    def cell(session: str, metric: str) -> str:
        mine, theirs = (scores.get((run, session, metric)) for run in ("after", "before"))
        if mine is None:
            return "·"
        made = [] if mine["passed"] is None else ["passed" if mine["passed"] else "failed"]
        if mine["passed"] is None and mine["outcome"] == "inconclusive" and is_gate(metric):
            made = ["inconclusive"]
        if mine["value"] is not None:
            made.append(brief(mine["value"], units[metric]))
            if theirs and theirs["value"] not in (None, mine["value"]):
                made.append(change(mine["value"] - theirs["value"], units[metric]))
        return "".join(made) or "–"

    shown = grid(served)
    assert len(shown) > 100
    for session, (state, _, measured) in shown.items():
        now, before = (verdicts[run, session] for run in ("after", "before"))
        assert state == (now if now == before else f"{now}was {before}")
        assert measured == [cell(session, metric) for metric in metrics], session


@pytest.mark.exhaustive
def test_the_grid_and_the_comparison_have_the_flips_of_the_command(
    served: Served, db: Path, spangrade: Spangrade
) -> None:
    compared = printed(spangrade, db, "compare", "before", "after")
    flips = {
        kind: {one["question_id"] or one["second"][0]["session_id"] for one in compared[kind]}
        for kind in ("regressed", "fixed")
    }
    states = {key: state for key, (state, _, _) in grid(served).items()}
    assert flips["regressed"] == {key for key, state in states.items() if state == "failedwas passed"}
    assert flips["fixed"] == {key for key, state in states.items() if state == "passedwas failed"}
    assert flips["regressed"]
    page = words(parsed(served.get("/compare?a=before&b=after").text))
    assert f"Regressed: {len(flips['regressed'])}" in page


TOOLS = """
SELECT tool_name, count(*) AS calls, count(CASE ok WHEN false THEN 1 END) AS failed,
    count(CASE WHEN ok IS NULL THEN 1 END) AS unknown,
    list_sort(list(latency_s) FILTER (latency_s IS NOT NULL)) AS seconds
FROM tool_interactions
WHERE NOT handoff AND coalesce(approval, '') NOT IN ('asked', 'rejected')
GROUP BY tool_name
"""
MODELS = """
SELECT coalesce(model, 'not recorded') AS name, count(*) AS calls,
    count(CASE WHEN unanswered OR EXISTS (
        FROM errors AS e WHERE (e.session_id, e.trace_id, e.span_id) = (c.session_id, c.trace_id, c.span_id)
    ) THEN 1 END) AS failed,
    sum(input_tokens) AS input, sum(output_tokens) AS output, sum(cost_usd) AS cost,
    count(CASE WHEN input_tokens + output_tokens IS NULL AND NOT unanswered THEN 1 END) AS uncounted,
    count(CASE WHEN cost_usd IS NULL AND NOT unanswered THEN 1 END) AS unknown,
    list_sort(list(latency_s) FILTER (latency_s IS NOT NULL)) AS seconds
FROM llm_calls AS c
GROUP BY model
"""


def percentiles(values: list[float] | None) -> list[str]:
    return ["–", "–"] if not values else [seconds(nearest_rank(values, share)) for share in (0.5, 0.95)]


def test_tools_and_models_have_the_numbers_of_plain_queries(served: Served, db: Path) -> None:
    root = parsed(served.get("/tools?origin=any").text)
    with_pictures = [cells(row) for row in elements(root) if name(row) == "tr"]
    for _, calls, failed, *_, picture in with_pictures:
        bars = re.findall(r"(\d+) calls?, (\d+) failed", picture)
        if calls != "Calls":
            assert [str(sum(map(int, one))) for one in zip(*bars, strict=True)] == [calls, failed]
    shown = [row[:-1] for row in with_pictures]
    start = next(number for number, row in enumerate(shown) if row[0] == "Model")
    tools, models = shown[1:start], shown[start + 1 :]
    counts = ("calls", "failed", "unknown")
    assert sorted(tools) == sorted(
        [one["tool_name"], *(count(one[key]) for key in counts), *percentiles(one["seconds"])]
        for one in rows(db, TOOLS)
    )
    counts = ("calls", "failed", "input", "output", "uncounted")
    assert sorted(models) == sorted(
        [
            *(one["name"], *(count(one[key]) for key in counts)),
            *(usd(one["cost"]), count(one["unknown"]), *percentiles(one["seconds"])),
        ]
        for one in rows(db, MODELS)
    )
    assert len(tools) > 10
    assert len(models) > 5


@pytest.mark.exhaustive
def test_a_session_has_the_scores_of_the_run_that_are_stored(served: Served, db: Path) -> None:
    stored = rows(db, "FROM scores JOIN runs USING (run_id) WHERE name = 'after'")
    run = stored[0]["run_id"]
    sessions = sorted({one["session_id"] for one in stored})[::4]
    assert len(sessions) > 25
    for session in sessions:
        page = parsed(served.get(f"/session/{url_part(session)}?run={run}").text)
        shown = {str(one.get("data-metric")): words(one) for one in find_all(page, class_="outcome")}
        for one in stored:
            if one["session_id"] == session:
                line = shown.pop(one["metric"])
                # What is not a gate decides nothing.
                unknown = "inconclusive" if is_gate(one["metric"]) else "unknown"
                state = {"score": "measured", "inconclusive": unknown}.get(
                    one["outcome"], one["outcome"].replace("_", " ")
                )
                if one["passed"] is not None:
                    state = "passed" if one["passed"] else "failed"
                assert line.startswith(f"{state} {one['metric']}")
                assert one["value"] is None or f" {count(one['value'])}" in line
                assert " ".join(one["reason"].split()) in line
        assert shown == {}
