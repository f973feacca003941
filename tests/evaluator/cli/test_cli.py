"""The command line: what it prints, what it exits with, and what it says of bad input."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import spangrade
from made_once import copy_of
from paths import SAMPLE

from spangrade import __version__
from spangrade.tracer.store import Store

SPANS = SAMPLE / "spans.otlp.jsonl"
GOLDEN = SAMPLE / "customer_service_golden.json"


def answer(*arguments: str | Path, cwd: Path) -> Any:
    done = spangrade(*arguments, "--format", "json", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graded")
    done = spangrade("grade", SAMPLE, "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_import_says_what_came_in_and_what_was_there(tmp_path: Path) -> None:
    first = answer("import", SPANS, cwd=tmp_path)
    second = answer("import", SPANS, cwd=tmp_path)
    assert first == {
        "db": "spangrade.duckdb",
        "spans": 44,
        "logs": 0,
        "duplicates": 0,
        "sessions": 4,
        "new_sessions": 4,
        "records_lost": 0,
        "files_lost": 0,
        "lacking": {},
        "not_read": {
            "spans": {},
            "tools": 0,
            "turns": {},
            "without_session": 0,
            "unnamed": 0,
            "placeholder": None,
            "model_calls": 0,
            "all_model_calls": 17,
            "help": None,
        },
    }
    assert second == first | {"spans": 0, "duplicates": 44, "new_sessions": 0}


def test_a_gzipped_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "spans.txt").write_bytes(gzip.compress(SPANS.read_bytes()))
    assert answer("import", "spans.txt", cwd=tmp_path)["spans"] == 44


def test_grading_leaves_results_scores_and_runs(graded: Path) -> None:
    results = json.loads((graded / "out" / "results.json").read_text())
    assert (results["sessions"], results["verdicts"]["passed"], results["exit_code"]) == (4, 4, 0)
    lines = (graded / "out" / "sessions.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["question_id"] for line in lines) == sorted(
        question["id"] for question in json.loads(GOLDEN.read_text())["golden_questions"]
    )
    rows = answer(
        "sql", "SELECT count(DISTINCT session_id) AS n FROM scores JOIN runs USING (run_id)", cwd=graded
    )
    assert rows == [{"n": 4}]


def test_only_the_sessions_of_the_spans_given_are_graded(graded: Path, tmp_path: Path) -> None:
    copy_of(graded / "spangrade.duckdb", tmp_path / "spangrade.duckdb")
    (tmp_path / "one.jsonl").write_text(SPANS.read_text().splitlines()[0])
    done = spangrade("grade", GOLDEN, "--spans", "one.jsonl", "--format", "json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["sessions"]) == (
        4,
        1,
    )  # the other questions are unanswered


def test_the_json_of_a_grading_names_the_run_and_every_session(graded: Path) -> None:
    printed = answer("grade", GOLDEN, cwd=graded)
    runs = answer("sql", "SELECT run_id FROM runs", cwd=graded)
    assert {"run_id": printed["run_id"]} in runs
    assert {(one["session_id"], one["verdict"], one["reason"]) for one in printed["grades"]} == {
        (f"conversation-{number}", "passed", "") for number in range(1, 5)
    }


def test_a_gate_that_is_missed_fails_with_exit_1(graded: Path) -> None:
    done = spangrade("grade", GOLDEN, "--metric", "tool_success_rate>=1", cwd=graded)
    assert done.returncode == 1
    assert "tool_success_rate" in done.stdout


def test_sessions_and_show_print_json_alone(graded: Path) -> None:
    listed = answer("sessions", cwd=graded)
    assert len(listed) == 4
    shown = answer("show", listed[3]["session_id"], cwd=graded)
    assert list(shown) == [
        "session_id",
        "session_id_source",
        "question_id",
        "started_at",
        "turns",
        "trajectory",
        "agents",
        "tool_interactions",
        "handoffs",
        "state_variables",
        "llm_calls",
        "usage",
        "models",
        "cost_usd",
        "cost_unknown",
        "latency",
        "errors",
        "missing_spans",
        "sampled",
        "sample_ratio",
        "agent_version",
        "user_id",
        "tags",
        "environment",
        "unreadable_spans",
        "not_understood",
        "app_name",
        "service_name",
        "requested_calls",
        "cost_estimated",
        "cost_configured",
        "tool_declarations",
        "declared_to",
        "system_instruction",
        "recorded_scores",
        "identity_doubt",
        "prompts",
        "origin",
        "origin_run",
        "simulated",
        "simulated_messages",
        "state_spans",
        "unfinished",
        "assembly_error",
        "records",
        "grade",
        "external_scores",
    ]
    assert list(shown["turns"][0]) == [
        "index",
        "user_input",
        "final_response",
        "latency_s",
        "started_at",
        "trace_ids",
        "failed",
        "driven",
        "raised",
        "calls_unknown",
        "calls_outside",
    ]
    assert [session["handoffs"] for session in listed] == [
        [["customer_service", "returns_agent"]],
        [],
        [],
        [],
    ]
    assert shown["session_id"] == listed[3]["session_id"]


def test_lists_are_json_lists(graded: Path) -> None:
    listed = [(row["agents"], row["handoffs"]) for row in answer("sessions", cwd=graded)]
    agents = ["customer_service", "returns_agent"]
    assert (listed[3], listed[0]) == (([agents[0]], []), (agents, [agents]))


def test_the_version_is_printed_by_the_command_and_by_the_module(tmp_path: Path) -> None:
    for command in ([Path(sys.executable).with_name("spangrade")], [sys.executable, "-m", "spangrade"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


def test_sessions_are_derived_again_on_request(graded: Path, tmp_path: Path) -> None:
    copy_of(graded / "spangrade.duckdb", tmp_path / "spangrade.duckdb")
    assert answer("doctor", "--derive-all", cwd=tmp_path) == {"db": "spangrade.duckdb", "derived": 4}
    assert (
        spangrade("doctor", "--derive-all", cwd=tmp_path).stdout == "4 sessions derived in spangrade.duckdb\n"
    )


def test_a_session_may_be_named_by_the_beginning_of_its_id(graded: Path, tmp_path: Path) -> None:
    ambiguous = spangrade("show", "conv", cwd=graded)
    assert (ambiguous.returncode, ambiguous.stderr.count("\n")) == (2, 1)
    assert "give more of the id" in ambiguous.stderr
    (tmp_path / "one.jsonl").write_text(SPANS.read_text().splitlines()[0])
    spangrade("import", "one.jsonl", cwd=tmp_path)
    assert answer("show", "conv", cwd=tmp_path)["session_id"].startswith("conv")


def test_tables_hold_what_agents_said_and_no_markup_of_theirs(tmp_path: Path) -> None:
    line = SPANS.read_text().splitlines()[0]
    (tmp_path / "odd.jsonl").write_text(
        line.replace("Thank you", "[red]\\u001b[31mThank").replace("Great", "[bold]Great")
    )
    spangrade("import", "odd.jsonl", cwd=tmp_path)
    (session,) = answer("sessions", cwd=tmp_path)
    done = spangrade("show", session["session_id"], cwd=tmp_path)
    assert done.returncode == 0
    assert "[bold]Great" in done.stdout
    assert "\x1b" not in done.stdout


def test_columns_of_one_name_are_both_printed(graded: Path) -> None:
    assert answer("sql", "SELECT 1 AS a, 2 AS a", cwd=graded) == [{"a": 1, "a_2": 2}]


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO runs VALUES ('x', now(), 'y', [])",
        "DROP TABLE spans",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "COPY spans TO 'out.csv'",
        "ATTACH 'other.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "EXPORT DATABASE 'out'",
    ],
)
def test_sql_can_neither_write_nor_reach_a_file(query: str, graded: Path) -> None:
    done = spangrade("sql", query, cwd=graded)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("spangrade: SQL: ")
    assert sorted(path.name for path in graded.iterdir()) == ["out", "spangrade.duckdb"]


def bad_files(folder: Path) -> dict[str, tuple[bytes, str]]:
    """Inputs that cannot be used, and what is said of each."""
    good = SPANS.read_bytes()
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "x",
        "startTimeUnixNano": "5",
        "endTimeUnixNano": "9",
    }

    def document(**changes: str) -> bytes:
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span | changes]}]}]}).encode()

    return {
        "truncated.jsonl": (good[:3000], "truncated.jsonl: JSON cut short at byte 3000"),
        "empty.json": (b"", "empty.json: an empty file"),
        "binary.pb": (bytes(range(256)) * 20, "binary.pb: binary content of another kind"),
        "utf16.jsonl": (good.decode().encode("utf-16"), "utf16.jsonl: UTF-16 or UTF-32 text; expected UTF-8"),
        "deep.json": (b"[" * 100_000 + b"]" * 100_000, "deep.json: JSON nested too deeply"),
        "no_id.json": (document(spanId=""), "spans[0]: no spanId; expected 16 hexadecimal digits"),
        "no_time.json": (document(startTimeUnixNano="soon"), "spans[0]: startTimeUnixNano"),
        "other.json": (b'{"hello": 1}', "other.json"),
    }


@pytest.mark.parametrize("name", list(bad_files(Path())))
@pytest.mark.short_form("name", 5)
def test_a_file_that_cannot_be_read_costs_no_other(name: str, tmp_path: Path) -> None:
    content, said = bad_files(tmp_path)[name]
    (tmp_path / name).write_bytes(content)
    done = spangrade("import", name, SPANS, "--format", "json", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[0]
    assert json.loads(done.stdout)["spans"] == 44


def test_a_bad_line_costs_no_other_and_strict_refuses_all(tmp_path: Path) -> None:
    lines = SPANS.read_text().splitlines()
    (tmp_path / "s.jsonl").write_text("\n".join([*lines[:2], "{oops", *lines[2:]]))
    strict = spangrade("import", "s.jsonl", "--strict", cwd=tmp_path)
    assert (strict.returncode, strict.stderr.splitlines()[0][:25]) == (2, "spangrade: s.jsonl:3: not")
    assert not (tmp_path / "spangrade.duckdb").exists()
    done = spangrade("import", "s.jsonl", "--format", "json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["spans"], json.loads(done.stdout)["records_lost"]) == (
        2,
        44,
        1,
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"endTimeUnixNano": "4"}, "ends before it starts"),
        ({"parentSpanId": "b" * 16}, "is its own parent"),
        ({"parentSpanId": "c" * 16}, ""),
    ],
)
@pytest.mark.short_form("changes", 3)
def test_an_odd_span_is_kept_and_said(changes: dict[str, str], said: str, tmp_path: Path) -> None:
    named = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
        {"key": "gen_ai.agent.name", "value": {"stringValue": "x"}},
    ]
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "x",
        "startTimeUnixNano": "5",
        "endTimeUnixNano": "9",
    }
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [{**span, **changes, "attributes": named}]}]}]}
    (tmp_path / "odd.json").write_text(json.dumps(document))
    done = spangrade("import", "odd.json", cwd=tmp_path)
    assert done.returncode == 0
    assert said in done.stderr
    (session,) = answer("sessions", cwd=tmp_path)
    assert session["agents"] == ["x"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("grade", GOLDEN, "--metric", "tool_usage_acuracy>=1"),
            'metric "tool_usage_acuracy" is not known; did you mean "tool_usage_accuracy"?',
        ),
        (("grade", GOLDEN, "--metric", "tools:recall>=2"), "expected a threshold from 0 to 1, found 2"),
        (("grade", "none.json"), "none.json: cannot be read"),
        (("show", "nobody"), 'no session "nobody"'),
        (("show", "x", "--db", "none.duckdb"), "none.duckdb: no such database: import spans first"),
        (("import", "none.jsonl"), "none.jsonl: no such file"),
        (("import", "."), ".: a directory"),
        (("sql", "SELEC 1"), "SQL: Parser Error"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(arguments: tuple[str | Path, ...], said: str, graded: Path) -> None:
    done = spangrade(*arguments, cwd=graded)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_that_another_process_writes_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spangrade", "sessions"]
    with Store.open(tmp_path / "spangrade.duckdb"):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "spangrade.duckdb: another process has this database open" in done.stderr


def test_the_metrics_are_listed(tmp_path: Path) -> None:
    names = {row["name"] for row in answer("lint", "--metrics", cwd=tmp_path)}
    assert {"tools", "trajectory_accuracy", "state_management_fidelity", "cost"} <= names
