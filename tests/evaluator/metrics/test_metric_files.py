"""Metrics from files: SQL over the views, Python modules, definitions; graded and stored like any other."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import spangrade
from gemini_standin import gemini_standin
from grading import run_metric
from paths import ROOT, SAMPLE
from recordings import import_files

from spangrade import InputError
from spangrade.evaluator.derive import load
from spangrade.evaluator.metrics import Inconclusive, Metric, Outcome, Score
from spangrade.evaluator.metrics.columns import COLUMNS
from spangrade.evaluator.metrics.definitions import MANAGED
from spangrade.evaluator.metrics.files import requested, with_files
from spangrade.evaluator.metrics.queries import Query, load_query
from spangrade.tracer.store import Store

SPANS = SAMPLE / "spans.otlp.jsonl"

HEADER = """\
-- How many words the agent said.
-- name: words
-- threshold: 100
-- direction: lower
-- unit: words
-- description: Words of all replies.

"""
WORDS = """\
SELECT session_id, sum(len(string_split(final_response, ' '))) AS value, count(*) || ' replies' AS reason
FROM turns GROUP BY session_id
"""
PYTHON = """\
from spangrade.evaluator.metrics import metric
from spangrade.evaluator.metrics.tools import tool_usage_accuracy
from spangrade.evaluator.metrics import Score

@metric(unit="turns", higher_is_better=False)
def turns(session):
    "How many turns there were."
    return Score(len(session.turns))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Store.open(tmp_path_factory.mktemp("db") / "s.duckdb") as store:
        import_files(store, [SPANS])
        yield store


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def answers(metric: Metric, store: Store) -> dict[str, Outcome]:
    assert isinstance(metric.function, Query)
    metric.function.run(store)
    return {one.session_id: run_metric(metric, one, None) for one in load(store)}


def refusal(path: Path, store: Store | None = None) -> str:
    def load_and_run() -> None:
        metric = load_query(path)
        if store is not None:
            answers(metric, store)

    with pytest.raises(InputError) as error:
        load_and_run()
    return str(error.value).replace(str(path), "FILE")


def test_a_query_gives_each_session_its_value_and_its_reason(file: Any, store: Store) -> None:
    metric = load_query(file("words.sql", f"{HEADER}{WORDS}-- threshold: 5\n"))  # below the query: a remark
    assert (metric.name, metric.threshold, metric.higher_is_better, metric.unit, metric.description) == (
        "words",
        100,
        False,
        "words",
        "Words of all replies.",
    )
    outcomes = answers(metric, store)
    expected = {
        one.session_id: sum(len((turn.final_response or "").split(" ")) for turn in one.turns)
        for one in load(store)
    }
    assert {
        key: (one.value, one.passed, one.reason) for key, one in outcomes.items() if isinstance(one, Score)
    } == {
        one.session_id: (
            expected[one.session_id],
            expected[one.session_id] <= 100,
            f"{len(one.turns)} replies",
        )
        for one in load(store)
    }


def test_a_session_that_is_not_returned_or_null_is_inconclusive(file: Any, store: Store) -> None:
    first, second, *rest = [one.session_id for one in load(store)]
    rows = f"('{first}', NULL, 'too new'), ('{second}', NULL, NULL)"
    query = f"SELECT * FROM (VALUES {rows}) t(session_id, value, reason)"
    outcomes = answers(load_query(file("m.sql", f"-- name: m\n{query}")), store)
    assert outcomes == {
        first: Inconclusive("too new"),
        second: Inconclusive("the query's value is NULL"),
        **dict.fromkeys(rest, Inconclusive("the query does not return this session")),
    }


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELEC 1", "FILE: Parser Error: "),
        ("SELECT session_id, nothing AS value FROM sessions", "FILE: Binder Error: "),
        (
            "SELECT session_id FROM sessions",
            "FILE: expected the columns session_id, value and reason, found",
        ),
        ("SELECT 's' AS session_id, 'x' AS value", "FILE: session \"s\": value 'x' is not a number"),
        (
            "SELECT 's' AS session_id, 1 AS value UNION ALL SELECT 's', 2",
            'FILE: session "s" is returned twice',
        ),
        ("SELECT 1; SELECT 2", "FILE: expected one SELECT, found 2 statements"),
        ("", "FILE: expected one SELECT, found no statements"),
        ("DELETE FROM spans", "FILE: expected a SELECT, found DELETE"),
        ("SET enable_external_access = true", "FILE: expected a SELECT, found SET"),
        ("EXPLAIN ANALYZE COPY spans TO 'x'", "FILE: expected EXPLAIN of one SELECT"),
        ("SELECT 's' AS session_id, 1 AS value FROM enable_logging(storage = 'file')", "FILE: "),
        (f"SELECT session_id, 1 AS value FROM '{SPANS}'", "FILE: Permission Error: "),
        ("SELECT session_id, 1 AS value FROM read_csv('/etc/passwd')", "FILE: Permission Error: "),
        ("SELECT session_id, 1 AS value FROM 'https://localhost/x.parquet'", "FILE: Permission Error: "),
    ],
)
def test_a_query_that_is_wrong_writes_or_reaches_out_is_refused_in_one_line(
    file: Any, store: Store, query: str, said: str
) -> None:
    text = refusal(file("m.sql", f"-- name: m\n{query}"), store)
    assert text.startswith(said)
    assert "\n" not in text
    assert store.query("SELECT count(*) FROM spans") == [(44,)]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("", 'FILE: name: found ""; expected a line "-- name: NAME"'),
        ("-- name: my words", 'FILE: name: found "my words"; expected a line "-- name: NAME"'),
        ("-- name: a\n-- name: b", "FILE:2: name is given twice"),
        ("-- name: a\n-- treshold: 3", 'FILE:2: unknown key "treshold"; did you mean "threshold"?'),
        ("-- name: a\n-- threshold: many", 'FILE: threshold: expected a number, found "many"'),
        ("-- name: a\n-- direction: up", 'FILE: direction: found "up"; expected higher or lower'),
    ],
)
def test_a_wrong_header_is_told_with_its_line(file: Any, header: str, said: str) -> None:
    assert refusal(file("m.sql", f"{header}\n{WORDS}")) == said


def test_a_module_brings_the_metrics_that_it_makes(file: Any) -> None:
    known, own = with_files([file("mine.py", PYTHON)])
    assert [(metric.name, metric.unit, metric.description) for metric in own] == [
        ("turns", "turns", "How many turns there were.")
    ]
    assert known["turns"] is own[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nimport nowhere\n", "FILE:2: ModuleNotFoundError: No module named 'nowhere'"),
        ("def f(:\n", "FILE:1: invalid syntax"),
        ("def f():\n    return 1 / 0\nf()\n", "FILE:2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)\n", "FILE:2: SystemExit: 0"),
        ("exec(compile('\\n\\n1/0', '~', 'exec'))\n", "FILE:1: ZeroDivisionError: division by zero"),
        ("x = 1\n", "FILE: no metric; expected a function with the decorator @metric()"),
        (
            PYTHON.replace("def turns", "def tool_usage_accuracy"),
            'FILE: another metric has the name "tool_usage_accuracy"',
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_with_its_line(file: Any, text: str, said: str) -> None:
    path = file("mine.py", text)
    with pytest.raises(InputError) as error:
        with_files([path])
    assert str(error.value).replace(str(path), "FILE") == said


def words_file(file: Any, more: str) -> Path:
    """Write a module with the metric `words`: how many words the agent said in a session."""
    counted = "float(sum(len(turn.final_response.split()) for turn in session.turns))"
    return file(
        "words.py", f"from spangrade import metric\n\n{more}\ndef words(session):\n    return {counted}\n"
    )


@pytest.mark.parametrize("more", ["@metric(unit='count')", "@metric(unit='count', higher_is_better=False)"])
def test_a_gate_of_ones_own_metric_says_that_less_is_better(file: Any, tmp_path: Path, more: str) -> None:
    path = words_file(file, more)
    (asked,) = requested(["words<=13"], [path])
    assert (asked.threshold, asked.higher_is_better) == (13, False)
    done = spangrade(
        "grade", "--spans", SPANS, "--metrics-file", path, "--metric", "words<=13", "--format", "json",
        cwd=tmp_path,
    )  # fmt: skip
    query = "SELECT value, passed FROM latest_scores WHERE metric = 'words'"
    found = json.loads(spangrade("sql", query, "--format", "json", cwd=tmp_path).stdout)
    assert done.stderr == ""
    assert {row["passed"] for row in found} == {True, False}
    assert [row["passed"] for row in found] == [row["value"] <= 13 for row in found]


def test_a_gate_that_ones_own_metric_cannot_have_ends_with_the_line_that_works(file: Any) -> None:
    with pytest.raises(InputError) as refused:
        requested(["words<=3"], [words_file(file, "@metric")])
    line = '@metric(unit="words", higher_is_better=False)'
    assert str(refused.value).endswith(f"; one that counts says so: {line}")
    (asked,) = requested(["words<=3"], [words_file(file, line)])
    assert (asked.threshold, asked.higher_is_better) == (3, False)
    with pytest.raises(InputError) as misspelt:
        requested(["words<=3"], [words_file(file, '@metric(better="lower")')])
    assert str(misspelt.value).endswith(
        'a smaller value is better: @metric(unit="count", higher_is_better=False)'
    )
    with pytest.raises(InputError, match=r"; write words<=3$"):
        requested(["words<3"], [words_file(file, line)])


def test_a_metric_of_a_file_takes_the_place_of_one_that_comes_with_spangrade_and_needs_no_reference(
    file: Any, tmp_path: Path
) -> None:
    path = file("mine.py", PYTHON.replace("def turns", "def retries").replace("False", "True"))
    (asked,) = requested(["retries>=1"], [path])
    assert (asked.threshold, asked.description) == (1, "How many turns there were.")
    db = tmp_path / "one.duckdb"
    assert spangrade("import", SPANS, "--db", db)
    done = spangrade("grade", "--metrics-file", path, "--metric", "retries>=1", "--db", db)
    said = (
        "metric retries: it is that of a file, in place of the metric of this name that comes with spangrade"
    )
    assert (done.returncode, said in " ".join(done.stderr.split())) == (0, True)


def test_a_module_that_changed_within_a_second_at_the_same_length_is_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "size.py"
    thresholds = []
    for threshold in (3, 4):
        code = f"@metric(threshold={threshold}, unit='calls')\ndef size(_): ...\n"
        path.write_text(f"from spangrade import metric\n\n{code}")
        os.utime(path, (1_780_000_000, 1_780_000_000))
        (size,) = with_files([path])[1]
        thresholds.append(size.threshold)
    assert thresholds == [3, 4]


def test_a_file_of_another_kind_or_none_is_refused(tmp_path: Path) -> None:
    for name, said in (("m.txt", "read from"), ("m.py", "no such file"), ("m.sql", "cannot be read")):
        with pytest.raises(InputError, match=f"{name}: .*{said}"):
            with_files([tmp_path / name])


def test_a_judged_metric_whose_name_is_taken_is_told_apart(file: Any) -> None:
    definition = {
        "template": "{response} Score: [1-5]",
        "agents": ["shop"],
    }
    path = file("m.json", json.dumps({"metrics": {"cost": definition, "kindness": definition}}))
    asked = requested(["kindness>=4", "cost<=2"], [path])
    assert [(metric.name, metric.threshold) for metric in asked] == [
        ("kindness", 4),
        ("cost", 2),
        ("cost@judge", None),
    ]
    with pytest.raises(InputError, match=r'm\.json: another metric has the name "cost@judge"'):
        with_files([path, path])


def test_files_of_all_kinds_are_graded_stored_and_gated_by_the_command_line(
    file: Any, tmp_path: Path
) -> None:
    file("words.sql", HEADER + WORDS)
    file("mine.py", PYTHON)
    definition = {"template": "Is it kind? {response} Score: [1-5]"}
    file("kind.json", json.dumps({"metrics": {"kindness": definition}}))
    options = [part for name in ("words.sql", "mine.py", "kind.json") for part in ("--metrics-file", name)]
    with gemini_standin() as gemini:
        gemini.answer = lambda request: json.dumps({"reason": "it is", "score": 3})
        done = spangrade(
            "grade",
            SAMPLE,
            *options,
            "--metric",
            "kindness>=2",
            "--format",
            "json",
            cwd=tmp_path,
            GEMINI_API_KEY="key",
            GOOGLE_GEMINI_BASE_URL=gemini.url,
            GOOGLE_API_KEY="",
        )
    assert (done.returncode, done.stderr) == (0, "")
    totals = json.loads(done.stdout)["metrics"]
    assert {
        name: (totals[name]["scores"], totals[name]["pass_rate"]) for name in ("words", "turns", "kindness")
    } == {
        "words": (4, 1.0),
        "turns": (4, None),
        "kindness": (4, 1.0),
    }
    rows = spangrade(
        "sql",
        "SELECT metric, count(*) AS n FROM scores WHERE metric IN ('words', 'turns', 'kindness') "
        "GROUP BY ALL ORDER BY metric",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert json.loads(rows.stdout) == [
        {"metric": "kindness", "n": 4},
        {"metric": "turns", "n": 4},
        {"metric": "words", "n": 4},
    ]
    listed = spangrade("lint", "--metrics", *options, "--format", "json", cwd=tmp_path)
    found = {row["name"]: (row["unit"], row["threshold"]) for row in json.loads(listed.stdout)}
    assert (found["words"], found["turns"], found["kindness"]) == (
        ("words", 100.0),
        ("turns", None),
        ("rating", None),
    )


def test_a_wrong_file_is_bad_input_to_the_command_line(file: Any, tmp_path: Path) -> None:
    file("m.sql", "-- name: m\nSELEC")
    done = spangrade("grade", SAMPLE, "--metrics-file", "m.sql", cwd=tmp_path)
    assert done.returncode == 2
    assert "m.sql: Parser Error" in done.stderr


def test_a_query_with_a_misspelt_column_is_refused_before_anything_is_graded(
    file: Any, tmp_path: Path
) -> None:
    file("m.sql", "-- name: m\nSELECT session_id, total_latency AS value FROM sessions")
    done = spangrade("grade", SAMPLE, "--metrics-file", "m.sql", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        'spangrade: m.sql: Binder Error: Referenced column "total_latency" not found'
    )
    assert "Candidate bindings: " in done.stderr
    assert done.stderr.count("\n") == 1
    runs = spangrade("sql", "SELECT count(*) AS n FROM runs", "--format", "json", cwd=tmp_path)
    assert json.loads(runs.stdout) == [{"n": 0}]


def test_a_query_that_fails_at_run_time_breaks_its_metric_alone(file: Any, tmp_path: Path) -> None:
    file("m.sql", "-- name: m\nSELECT session_id, error('no such price') AS value FROM sessions")
    done = spangrade("grade", SAMPLE, "--metrics-file", "m.sql", "--format", "json", cwd=tmp_path)
    totals = json.loads(done.stdout)
    assert (done.returncode, done.stderr, totals["verdicts"]["broken"]) == (3, "", 4)
    assert (totals["metrics"]["m"]["failures"], totals["metrics"]["turns_answered"]["scores"]) == (4, 4)
    query = "SELECT DISTINCT reason FROM scores WHERE metric = 'm'"
    rows = json.loads(spangrade("sql", query, "--format", "json", cwd=tmp_path).stdout)
    assert [row["reason"] for row in rows] == ["m.sql: Invalid Input Error: no such price"]


PAGE = ROOT / "docs" / "metrics.md"


def shown(language: str) -> list[str]:
    page = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}.*?\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def test_the_files_that_the_documentation_shows_are_metrics(file: Any, store: Store) -> None:
    (definitions,), (query,), modules = shown("json"), shown("sql"), shown("python")
    paths = [file("m.json", definitions), file("slow_tools.sql", query), file("m.py", "\n".join(modules))]
    _, own = with_files(paths)
    assert [(metric.name, metric.bounds, metric.needs, metric.threshold) for metric in own] == [
        ("helpfulness", (1, 5), None, None),
        ("brevity", (0, 10), None, None),
        ("safety", (0, 1), None, None),
        ("slowest_tool_s", (-math.inf, math.inf), None, 2),
        ("tone_kept", (0, 1), "tone", 1),
        ("apologises", (0, 1), None, None),
    ]
    slowest = answers(own[3], store)
    assert {
        one.session_id: max(call.latency_s or 0 for call in one.tool_interactions)
        for one in load(store)
        if one.tool_interactions
    } == {key: one.value for key, one in slowest.items() if isinstance(one, Score)}


def test_every_column_and_managed_metric_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {name for name in (*COLUMNS, *MANAGED) if f"`{name}`" not in page} == set()


def test_a_metric_that_needs_several_parts_is_refused_as_nothing_would_read_them(tmp_path: Path) -> None:
    (tmp_path / "vip.py").write_text(PYTHON.replace("@metric(", '@metric(needs=("vip",), '))
    with pytest.raises(InputError) as refused:
        with_files([tmp_path / "vip.py"])
    found = "TypeError: needs: expected the name of one part of the question, found ('vip',)"
    assert str(refused.value) == f"{tmp_path / 'vip.py'}:5: {found}"
