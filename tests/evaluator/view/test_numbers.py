"""Every number in the tables of the pages is that of SQL over the same database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import pytest
from case_database import every_value
from pages import elements, name, parsed, parsed_part, text
from serving import Served, serving

import spangrade
from spangrade import Rows
from spangrade.evaluator.reports.html.rendering import count, percent, seconds, usd

Format = Callable[[Any], str]


def words(value: object) -> str:
    return "" if value is None else " ".join(str(value).split())


class Table(NamedTuple):
    """A table of a page: under which heading, how its columns are shown, and the query of its rows.

    A format of None is a column without a number of its own.
    """

    heading: str
    formats: tuple[Format | None, ...]
    query: str


RUN = "(SELECT run_id FROM runs WHERE name = 'after')"
SHOWN = f"(SELECT session_id, verdict AS shown FROM verdicts WHERE run_id = {RUN})"
PERCENTILES = "quantile_disc({0}, 0.5), quantile_disc({0}, 0.95)"
USAGE = """
    SELECT '{0}', min(v), quantile_disc(v, 0.5), quantile_disc(v, 0.9), quantile_disc(v, 0.95),
        quantile_disc(v, 0.99), max(v), sum(v), count(v), count(*) - count(v)
    FROM (SELECT {1} AS v FROM sessions)
"""
PAGES: dict[str, list[Table]] = {
    "/tools": [
        Table(
            "Tools",
            (words, count, count, count, seconds, seconds, None),
            f"""SELECT tool_name, count(*), count_if(ok = false), count_if(ok IS NULL), {PERCENTILES}, ''
            FROM tool_interactions WHERE NOT handoff AND coalesce(approval, 'approved') = 'approved'
            GROUP BY 1 ORDER BY 3 DESC, 2 DESC, 1""".format("latency_s"),
        ),
        Table(
            "Models",
            (words, count, count, count, count, count, usd, count, seconds, seconds, None),
            f"""SELECT coalesce(model, 'not recorded'), count(*),
                count_if(unanswered OR (session_id, span_id) IN (SELECT (session_id, span_id) FROM errors)),
                sum(input_tokens), sum(output_tokens),
                count_if(NOT unanswered AND input_tokens + output_tokens IS NULL), sum(cost_usd),
                count_if(NOT unanswered AND cost_usd IS NULL), {PERCENTILES}, ''
            FROM llm_calls GROUP BY model ORDER BY 7 DESC NULLS LAST, 2 DESC, 1""".format("latency_s"),
        ),
    ],
    "/run/after/summary": [
        Table(
            "By reason",
            (count, words, words, words, None),
            f"""SELECT count(*), shown, metric, reason, '' FROM scores JOIN {SHOWN} USING (session_id)
            WHERE run_id = {RUN} AND NOT passed AND shown = 'failed'
            GROUP BY ALL ORDER BY 1 DESC, metric, reason""",
        ),
        Table(
            "By tool",
            (words, count, count, count, count, count),
            f"""SELECT tool_name, count(DISTINCT session_id) FILTER (shown = 'failed'), 0,
                count(DISTINCT session_id), count_if(ok = false), count(*)
            FROM tool_interactions JOIN {SHOWN} USING (session_id) GROUP BY 1 ORDER BY 2 DESC, 4 DESC, 1""",
        ),
        Table(
            "By agent",
            (words, count, count, count),
            f"""SELECT agent, count_if(shown = 'failed'), 0, count(*)
            FROM (SELECT session_id, unnest(agents) AS agent FROM sessions) JOIN {SHOWN} USING (session_id)
            GROUP BY 1 ORDER BY 2 DESC, 4 DESC, 1""",
        ),
        Table(
            "Inconclusive sessions: what is missing",
            (count, words, None),
            f"""SELECT count(*), reason, '' FROM verdicts
            WHERE run_id = {RUN} AND verdict = 'inconclusive' GROUP BY reason ORDER BY 1 DESC, 2""",
        ),
        Table(
            "Cost and latency per session",
            (words, *(usd,) * 7, count, count),
            USAGE.format("Cost", "cost_usd"),
        ),
    ],
    "/trends?series=version&since=2026-01-01&until=2027-01-01": [
        Table(
            "Numbers by day and version",
            (words, words, count, count, count, percent, usd, usd, count, count, seconds, seconds, count),
            f"""SELECT started_at::DATE, coalesce(agent_version, '–'), count(*), count(shown),
                count_if(shown = 'passed'), count_if(shown = 'passed') / count(shown), favg(cost_usd),
                fsum(cost_usd), count(*) - count(cost_usd), sum(input_tokens + output_tokens), {PERCENTILES},
                count_if(errors > 0)
            FROM sessions LEFT JOIN {SHOWN} USING (session_id) WHERE started_at >= '2026-01-01'
            GROUP BY 1, 2 ORDER BY 1 DESC, 2""".format("total_s"),
        ),
    ],
    "/runs": [
        Table(
            "Runs",
            (None, None, None, count, None, count, count, count, count),
            f"""SELECT '', '', '', count(*), '', count_if(verdict = 'failed'),
                count_if(verdict = 'inconclusive'), count_if(verdict = 'broken'),
                count_if(verdict = 'unmatched')
            FROM verdicts GROUP BY run_id ORDER BY run_id = {RUN} DESC""",
        ),
    ],
}
# Rows that have another unit than the others of their table, which a query of their own gives.
OTHER_ROWS = {
    "Cost and latency per session": Table(
        "", (words, *(seconds,) * 7, count, count), USAGE.format("Latency", "total_s")
    ),
}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(every_value()) as one:
        yield one


def expected(db: Path, table: Table) -> list[list[str]]:
    found: Rows = spangrade.open(db).sql(table.query)
    return [
        ["" if form is None else form(value) for form, value in zip(table.formats, row.values(), strict=True)]
        for row in found.rows()
    ]


def tables(page: Element) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the heading and the cells of each table in the main part of a page."""
    heading = ""
    for one in elements(next((e for e in elements(page) if name(e) == "main"), page)):
        if name(one) in ("h1", "h2", "h3"):
            heading = words(text(one))
        if name(one) == "table":
            rows = [row for row in elements(one) if name(row) == "tr"]
            yield (
                heading,
                [[words(text(c)) for c in elements(r) if name(c) in ("td", "th")] for r in rows[1:]],
            )


@pytest.mark.parametrize("path", PAGES)
def test_every_number_of_a_table_is_that_of_sql(served: Served, path: str) -> None:
    db = every_value()
    read = parsed_part if path.endswith("/summary") else parsed  # a part of the page of a run
    shown = dict(tables(read(served.get(path).text)))
    for table in PAGES[path]:
        hidden = [place for place, form in enumerate(table.formats) if form is None]
        cells = [["" if p in hidden else c for p, c in enumerate(r)] for r in shown.pop(table.heading)]
        wanted = expected(db, table)
        if table.heading in OTHER_ROWS:
            wanted += expected(db, OTHER_ROWS[table.heading])
        assert cells == wanted, table.heading
    if "summary" in path:  # the others are the distributions of the metrics
        counts = spangrade.open(db).sql(
            f"SELECT metric, count(*) AS n FROM scores WHERE run_id = {RUN} AND outcome = 'score' GROUP BY 1"
        )
        known = {row["metric"]: row["n"] for row in counts.rows()}
        found = {heading.split()[0]: sum(int(row[2]) for row in rows) for heading, rows in shown.items()}
        assert found == {metric: known[metric] for metric in found}
    else:
        assert shown == {}


def test_the_line_of_a_metric_is_that_of_sql(served: Served) -> None:
    page = parsed_part(served.get("/run/after/summary").text)
    lines = {
        words(text(find_first(one, "h3"))).split()[0]: words(text(find_first(one, "p")))
        for one in elements(page)
        if one.get("class") == "metric"
    }
    query = f"""
        SELECT metric, count_if(passed) AS passed, count(passed) AS judged, avg(v) AS mean,
            count(v) AS scores, quantile_disc(v, 0.5) AS p50, quantile_disc(v, 0.95) AS p95,
            min(v) AS lowest, max(v) AS highest, count_if(outcome = 'inconclusive') AS inconclusive
        FROM (SELECT *, CASE WHEN outcome = 'score' THEN value END AS v FROM scores WHERE run_id = {RUN})
        GROUP BY metric
        HAVING scores > 0 OR judged > 0
    """
    for row in spangrade.open(every_value()).sql(query).rows():
        numbers = [f"{count(row['scores'])} scores"]
        if row["scores"]:
            numbers[0] += (
                f": mean {count(row['mean'])}, p50 {count(row['p50'])}, p95 {count(row['p95'])}, "
                f"from {count(row['lowest'])} to {count(row['highest'])}"
            )
        if row["judged"]:
            share = row["passed"] / row["judged"]
            numbers.insert(0, f"{row['passed']} of {row['judged']} passed: {percent(share)}")
        if row["inconclusive"]:
            numbers.append(f"{row['inconclusive']} inconclusive")
        shown = lines.pop(row["metric"])
        if row["judged"]:
            rate, _, rest = shown.partition(" (")
            shown = f"{rate} · {rest.partition(' · ')[2]}"
        assert shown == " · ".join(numbers), row["metric"]
    assert lines == {}


def find_first(root: Element, tag: str) -> Element:
    return next(one for one in elements(root) if name(one) == tag)


def test_the_overview_has_the_numbers_of_sql(served: Served) -> None:
    query = f"""
        SELECT count(*) AS sessions, count_if(shown = 'passed') AS passed,
            count_if(shown = 'failed') AS failed, count_if(shown = 'inconclusive') AS inconclusive,
            sum(cost_usd) AS cost, avg(cost_usd) AS mean,
            count(*) - count(cost_usd) AS unknown, quantile_disc(total_s, 0.5) AS p50,
            quantile_disc(total_s, 0.95) AS p95
        FROM sessions LEFT JOIN {SHOWN} USING (session_id) WHERE started_at >= '2026-01-03'
    """
    (row,) = spangrade.open(every_value()).sql(query).rows()
    [(_, numbers)] = tables(parsed(served.get("/overview?since=2026-01-03").text))
    shown = {line[0]: line[1] for line in numbers}
    wanted = {
        "Sessions": count(row["sessions"]),
        "Passed": count(row["passed"]),
        "Failed": count(row["failed"]),
    }
    wanted |= {"Inconclusive": count(row["inconclusive"]), "Cost": usd(row["cost"])}
    wanted |= {"Mean cost": usd(row["mean"]), "Unknown costs": count(row["unknown"])}
    wanted |= {"Latency p50": seconds(row["p50"]), "Latency p95": seconds(row["p95"])}
    assert {key: value for key, value in shown.items() if key in wanted} == wanted
    # Nobody labelled a session.
    others = {value for key, value in shown.items() if key not in wanted}
    assert others <= {"0", wanted["Sessions"], wanted["Failed"]}


def test_the_numbers_of_each_session_are_those_of_sql(served: Served) -> None:
    query = """
        SELECT *, (SELECT count(*) FROM tool_interactions t WHERE t.session_id = s.session_id) AS calls
        FROM sessions s ORDER BY session_id
    """
    for row in list(spangrade.open(every_value()).sql(query).rows())[::12]:
        page = parsed(served.get(f"/session/{row['session_id']}").text)
        facts = facts_of(page)
        parts = [
            f"{part} {seconds(row[column])}"
            for part, column in (("models", "llm_s"), ("tools", "tool_s"), ("framework", "framework_s"))
            if row[column] is not None
        ]
        assert facts["Latency"].split(" ")[0] == seconds(row["total_s"]).split(" ")[0]
        assert [one for one in parts if one not in facts["Latency"]] == []
        assert facts["Tokens"].startswith(
            f"{count(row['input_tokens'])} in, {count(row['output_tokens'])} out"
        )
        for part, column in (("cached", "cached_input_tokens"), ("reasoning", "reasoning_tokens")):
            if row[column] is not None:
                assert f"{count(row[column])} {part}" in facts["Tokens"]
        assert facts["Cost"].split()[0] == usd(row["cost_usd"])
        assert [facts["Turns"], facts["Calls"]] == [count(row["turns"]), count(row["calls"])]
        assert facts.get("Errors", "0").split()[0] == count(row["errors"])


def facts_of(page: Element) -> dict[str, str]:
    """Return the terms and values at the head of a session's page."""
    found = {}
    first = next(one for one in elements(page) if name(one) == "dl")
    term = ""
    for one in elements(first):
        if name(one) == "dt":
            term = words(text(one))
        elif name(one) == "dd":
            found[term] = words(text(one))
    return found


def test_the_list_has_the_numbers_of_sql(served: Served) -> None:
    query = (
        f"SELECT *, input_tokens + output_tokens AS tokens FROM sessions LEFT JOIN {SHOWN} USING (session_id)"
    )
    wanted = {
        row["session_id"]: [
            row["shown"],
            seconds(row["total_s"]),
            usd(row["cost_usd"]),
            count(row["tokens"]),
            count(row["turns"]),
        ]
        for row in spangrade.open(every_value()).sql(query).rows()
    }
    shown: dict[str, list[str]] = {}
    path = "/sessions"
    while path:
        page = parsed(served.get(path).text)
        for row in elements(page):
            if session := row.get("data-session"):
                cells = [words(text(cell)) for cell in elements(row) if name(cell) in ("td", "th")]
                assert session not in shown
                shown[session] = [cells[0], *cells[3:7]]
        following = [one for one in elements(page) if one.get("rel") == "next"]
        path = str(following[0].get("href")) if following else ""
    assert shown == wanted
