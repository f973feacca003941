"""`spangrade grade`: the judge's options, the choice of sessions, and databases that do not exist."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from gemini_standin import MODEL, GeminiStandIn, gemini_standin
from otlp_sessions import START_NS, Said, write_golden, write_sessions
from paths import ROOT

import spangrade as public
from spangrade import StoreError
from spangrade.tracer.store import Store

QUESTION = {"id": "q1", "user_inputs": ["Hi"], "reference_response": "Hello, how can I help?"}
JUDGE = f"gemini/{MODEL}"


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[GeminiStandIn]:
    """A stand-in that rates every reply 4 of 5, with a key, and verdicts of its own."""
    for name in ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "SPANGRADE_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "the-key")
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "judge.sqlite"))
    with gemini_standin() as standin:
        standin.answer = lambda request: rating(4)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        yield standin


def rating(score: float) -> str:
    return json.dumps({"reason": "it greets", "score": score})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a golden question and two sessions that answer it, each with another reply."""
    monkeypatch.chdir(tmp_path)
    write_golden(tmp_path / "golden.json", QUESTION)
    write_sessions(
        tmp_path / "spans.jsonl", [("s1", [Said("Hi", "Good day!")]), ("s2", [Said("Hi", "Hey!")])]
    )
    return tmp_path


def as_json(done: Done) -> Any:
    return json.loads("\n".join(done.out))


@pytest.mark.exhaustive
def test_what_the_judge_cost_is_printed_and_kept(
    gemini: GeminiStandIn, folder: Path, spangrade: Spangrade
) -> None:
    grade = ("grade", "golden.json", "--spans", "spans.jsonl", "--judge-model", JUDGE)
    done = spangrade(*grade, "--out", "out")
    assert done.code == 0
    line = f"judge {JUDGE}: 2 calls, 0 cache hits, 2000 tokens in, 200 out, $0.001100"
    assert done.out[1].endswith(f"; {line}")
    usage = {"model": JUDGE, "calls": 2, "cache_hits": 0, "input_tokens": 2000, "output_tokens": 200}
    usage |= {"cost_usd": pytest.approx(0.0011), "failures": 0}
    assert json.loads((folder / "out" / "results.json").read_text())["judge"] == usage
    assert json.loads((folder / "out" / "eval_summary.json").read_text())["overall_summary"]["judge"] == usage
    assert f"; {line}\n" in (folder / "out" / "summary.md").read_text()
    again = as_json(spangrade(*grade, "--format", "json"))
    free = {"calls": 0, "cache_hits": 2, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}
    assert again["judge"] == usage | free
    kept = "SELECT judge AS model, columns('judge_(.*)') AS '\\1' FROM runs ORDER BY graded_at"
    stored = [usage | {"votes": 1}, usage | free | {"votes": 1}]
    assert as_json(spangrade("sql", kept, "--format", "json")) == stored


def test_the_api_has_the_same_options(gemini: GeminiStandIn, folder: Path) -> None:
    gemini.answer = lambda request: rating(3)
    run = public.open().grade(
        "golden.json", spans="spans.jsonl", judge=public.JudgeOptions(JUDGE, votes=3, threshold=0.6)
    )
    assert (run.exit_code, str(run)) == (0, "2 sessions: 2 passed")
    assert run.judge is not None
    assert (run.judge.model, run.judge.spent.calls, run.judge.spent.output_tokens) == (JUDGE, 6, 600)


@pytest.mark.parametrize(
    ("option", "code", "calls"),
    [
        (["--judge-max-calls", "0"], 4, 0),
        (["--judge-max-calls", "1"], 4, 1),
        (["--judge-max-cost", "0"], 4, 0),
        (["--judge-votes", "3"], 0, 6),
        (["--judge-threshold", "0.9"], 1, 2),
    ],
)
@pytest.mark.short_form("option", 4)
def test_an_option_of_the_judge_limits_the_run(
    gemini: GeminiStandIn, folder: Path, spangrade: Spangrade, option: list[str], code: int, calls: int
) -> None:
    grade = ("grade", "golden.json", "--spans", "spans.jsonl", "--judge-model", JUDGE, *option)
    assert (spangrade(*grade).code, gemini.calls) == (code, calls)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--judge-model", "gemni/x"], "judge 'gemni/x': no provider 'gemni' is installed"),
        (["--judge-model", "gemini/nope"], "judge gemini/nope: 404: models/nope is not found"),
        (["--judge-votes", "2"], "$SPANGRADE_JUDGE_VOTES: judge.votes: expected an odd number"),
    ],
)
def test_an_unknown_judge_is_one_line_before_anything_runs(
    gemini: GeminiStandIn, folder: Path, spangrade: Spangrade, option: list[str], message: str
) -> None:
    gemini.models = {MODEL}
    done = spangrade("grade", "golden.json", "--spans", "spans.jsonl", *option)
    assert (done.code, done.out, len(done.err), gemini.calls) == (2, [], 1, 0)
    assert done.err[0].startswith(f"spangrade: {message}")
    assert not (folder / "spangrade.duckdb").exists()


def test_an_unknown_model_of_the_environment_is_reported_too_unless_nothing_may_ask_it(
    gemini: GeminiStandIn, folder: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemini.models = {MODEL}
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", "gemini/nope")
    grade = ("grade", "golden.json", "--spans", "spans.jsonl")
    assert (spangrade(*grade).code, len(gemini.checks)) == (2, 1)
    without = ("--no-references", "--metric", "tool_success_rate>=0")
    assert spangrade(*grade, *without).code != 2
    assert len(gemini.checks) == 1


def test_an_outage_of_the_judge_is_not_the_agents_failure(
    gemini: GeminiStandIn, folder: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemini.failures = [403] * 2
    done = spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--judge-model", JUDGE, "--out", "out")
    assert done.code == 3
    assert done.out[0] == "2 sessions: 2 broken; 2 judge failures"
    results = json.loads((folder / "out" / "results.json").read_text())
    totals = results["metrics"]["final_response_match"]
    assert (totals["judge_failures"], totals["failures"], results["judge"]["failures"]) == (2, 0, 2)
    kept = "SELECT DISTINCT outcome, judge_failures FROM scores JOIN runs USING (run_id) WHERE value IS NULL"
    kept += " AND metric = 'final_response_match'"
    assert as_json(spangrade("sql", kept, "--format", "json")) == [
        {"outcome": "judge_failure", "judge_failures": 2}
    ]


# --- which sessions, and which database


@pytest.mark.exhaustive
def test_the_last_import_is_graded_alone(folder: Path, spangrade: Spangrade) -> None:
    old = write_sessions(folder / "old.jsonl", [("s0", [Said("Hi", "No.")])], start_ns=START_NS - 10**15)
    new = write_sessions(folder / "new.jsonl", [("s9", [Said("Hi", QUESTION["reference_response"])])])
    assert spangrade("import", new).code == 0
    assert spangrade("import", old).code == 0
    done = spangrade("grade", "golden.json", "--last-import", "--format", "json")
    assert [one["session_id"] for one in as_json(done)["grades"]] == ["s0"]
    assert spangrade("import", new).code == 0  # its spans are there already
    assert spangrade("import", folder / "golden.json").code == 2  # nothing was imported
    done = spangrade("grade", "golden.json", "--last-import", "--format", "json")
    assert (done.code, [one["session_id"] for one in as_json(done)["grades"]]) == (0, ["s9"])


def test_a_last_import_that_is_not_known_is_refused(folder: Path, spangrade: Spangrade) -> None:
    Store.open("spangrade.duckdb").close()
    done = spangrade("grade", "golden.json", "--last-import")
    assert (done.code, done.out, len(done.err)) == (2, [], 1)


def test_a_mistyped_database_is_refused_and_not_created(folder: Path, spangrade: Spangrade) -> None:
    done = spangrade("grade", "golden.json", "--db", "typo.duckdb")
    message = "typo.duckdb: no such database: import spans first, or name another"
    assert (done.code, done.out, done.err) == (2, [], [f"spangrade: {message}"])
    with pytest.raises(StoreError, match="no such database"):
        public.open("typo.duckdb").grade("golden.json")
    (folder / "broken.jsonl").write_text("{not json\n")
    for command in (
        ["import", "broken.jsonl"],
        ["import", "none.jsonl"],
        ["grade", "golden.json", "--spans", "none.jsonl"],
    ):
        done = spangrade(*command, "--db", "typo.duckdb")
        assert (done.code, done.out, len(done.err)) == (2, [], 2)
        assert done.err[1] == "spangrade: typo.duckdb: not created, because nothing could be imported"
    assert not list(folder.glob("typo*"))


@pytest.mark.exhaustive
def test_scores_and_runs_exist_before_a_first_grade(folder: Path, spangrade: Spangrade) -> None:
    assert spangrade("import", "spans.jsonl").code == 0
    query = "SELECT session_id, metric, dataset, judge_calls FROM scores JOIN runs USING (run_id)"
    assert as_json(spangrade("sql", query, "--format", "json")) == []
    queries = re.findall(
        r"^```sql\n(.*?)^```", (ROOT / "docs" / "sql.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert len(queries) >= 5
    for documented in queries:
        assert spangrade("sql", documented).code == 0


def test_all_sessions_that_did_not_pass_are_listed_on_request(folder: Path, spangrade: Spangrade) -> None:
    many = [(f"other{number:02}", [Said(f"question {number}")]) for number in range(22)]
    write_sessions(folder / "many.jsonl", many)
    grade = ("grade", "golden.json", "--spans", "many.jsonl")
    short, long = spangrade(*grade).out, spangrade(*grade, "--all").out
    assert sum("other" in line for line in short) == 0
    assert sum("other" in line for line in long) == 22


@pytest.mark.exhaustive
def test_what_missed_a_threshold_says_value_and_threshold(folder: Path, spangrade: Spangrade) -> None:
    gates = ("--no-references", "--metric", "token_usage<=10", "--metric", "latency_metrics<=100")
    done = spangrade(
        "grade", "golden.json", "--spans", "spans.jsonl", *gates, "--format", "json", "--out", "out"
    )
    assert done.code == 1
    (reason, *_) = {one["reason"] for one in as_json(done)["grades"]}
    assert reason.startswith("token_usage: 15, expected <= 10")
    junit = (folder / "out" / "junit.xml").read_text()
    assert ">token_usage is 15, expected &lt;= 10: " in junit


def test_the_user_and_the_state_are_columns_of_the_csv(folder: Path, spangrade: Spangrade) -> None:
    spans = json.loads((folder / "spans.jsonl").read_text())
    root = spans["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    root["attributes"] += [
        {
            "key": "spangrade.state",
            "value": {"stringValue": '{"id": 9223372036854775807}'},
        },
        {"key": "user.id", "value": {"stringValue": "u1"}},
    ]
    (folder / "spans.jsonl").write_text(json.dumps(spans))
    spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--out", "out")
    with (folder / "out" / "evaluation_results.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert (row["session_id"], row["user_id"]) == ("s1", "u1")
    assert row["session_state"] == '{"state":{"id":9223372036854775807}}'


@pytest.mark.exhaustive
def test_metrics_are_listed_if_all_is_asked_for(folder: Path, spangrade: Spangrade) -> None:
    spangrade("import", "spans.jsonl")

    def listed(*options: str) -> set[str]:
        done = spangrade("grade", "golden.json", "--no-references", "--metric", "latency_metrics", *options)
        return {line.split()[1] for line in done.out if line.startswith("│ ")}

    assert listed() == set()
    assert {"turns_answered", "latency_metrics", "token_usage", "cost"} <= listed("--all")
