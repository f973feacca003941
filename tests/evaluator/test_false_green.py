"""What was green and must not be: each row of the table in docs/verdicts.md, graded by the command line."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from made_once import new_database
from otlp_sessions import START_NS, Call, Said, write_golden, write_sessions

FIND = {"tool_name": "find", "input_arguments": {"q": "shears"}}
TRAJECTORY = {"reference_trajectory": ["shop"]}
FOUND = Said("Hi", "Found.", [Call("find", {"q": "shears"})])
LATER_NS = START_NS + 3600 * 10**9


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no judge."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "SPANGRADE_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def graded(spangrade: Spangrade) -> Any:
    """Grade one session, the turn given, against the question "Hi" with the references given."""

    def grade(turn: Said, *options: str, **references: Any) -> Done:
        new_database(Path("spangrade.duckdb"))  # a span that is there already is not imported again
        write_golden(Path("golden.json"), {"id": "q1", "user_inputs": ["Hi"], **references})
        write_sessions(Path("spans.jsonl"), [("s1", [turn])])
        return spangrade("grade", "golden.json", "--spans", "spans.jsonl", *options)

    return grade


def reason(done: Done) -> str:
    """The one session's reason, of a grade with `--format json`."""
    (grade,) = json.loads("\n".join(done.out))["grades"]
    return str(grade["reason"])


def test_a_gate_that_measured_no_session_is_inconclusive_and_named(graded: Any) -> None:
    definition = {"instruction": "Rate.", "rating_scores": {"1": "bad", "5": "good"}, "agents": ["shopp"]}
    definition["dataset_mapping"] = {"response": {"source_column": "final_response"}}
    Path("m.json").write_text(json.dumps({"metrics": {"kindness": definition}}))
    gate = ("--metrics-file", "m.json", "--metric", "kindness>=4")
    done = graded(FOUND, *gate, **TRAJECTORY, reference_tool_interactions=[FIND])
    assert (done.code, done.out[0]) == (4, "1 session: 1 passed; 1 gate applies to no session: kindness")
    assert any("kindness" in line for line in done.out[:-1])
    missing = graded(Said("Hi"), *gate, reference_tool_interactions=[FIND])  # the default gates stay
    assert missing.code == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--metric", "latency_metrics<=100"], 1),
        (["--metric", "tool_recall>=0"], 0),  # it reads the same reference, and takes the place of its gate
        (["--metric", "latency_metrics<=100", "--no-reference", "reference_tool_interactions"], 0),
        (["--metric", "latency_metrics<=100", "--no-references"], 0),
    ],
)
def test_a_requested_gate_does_not_drop_those_of_the_references(
    graded: Any, options: list[str], code: int
) -> None:
    assert graded(Said("Hi"), *options, reference_tool_interactions=[FIND]).code == code


def test_a_requested_gate_takes_the_place_of_the_gate_of_its_reference(graded: Any) -> None:
    options = ("--metric", "response_match>=0.7")
    reference = {"reference_response": "Your order is on its way."}
    assert graded(Said("Hi", "Your order is on its way!"), *options, **reference).code == 0
    assert graded(Said("Hi", "No."), *options, **reference).code == 1


def test_a_reply_is_compared_or_the_reason_names_what_could_not_be(graded: Any) -> None:
    reference = {"reference_response": "We are open."}
    assert graded(Said("Hi", "We  are open."), **reference).code == 0
    done = graded(Said("Hi", "We are closed."), "--format", "json", **reference)
    assert done.code == 4
    assert "reference_response cannot be compared: the last reply differs, and judge" in reason(done)
    assert "set GEMINI_API_KEY" in reason(done)


@pytest.mark.parametrize("references", [{}, {"reference_policy": "be kind"}])
def test_nothing_to_compare_with_is_inconclusive_unless_a_gate_is_requested(
    graded: Any, references: dict[str, Any]
) -> None:
    done = graded(Said("Hi"), "--format", "json", **references)
    assert (done.code, reason(done).partition(":")[0]) == (4, "nothing to compare with")
    assert graded(Said("Hi"), "--metric", "latency_metrics<=100", **references).code == 0


@pytest.mark.parametrize("form", ["rows.csv", "rows.jsonl"])
def test_a_simulation_without_references_is_inconclusive(spangrade: Spangrade, form: str) -> None:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
    ids = {"trace_id": 7, "span_id": 5, "parent_span_id": None}
    trace = [{**ids, "name": "invoke_agent shop", "start_time": 1, "end_time": 2, "attributes": attributes}]
    row = {"question_id": "q1", "user_inputs": ["Hi"], "agents_evaluated": ["shop"], "session_id": "s1"}
    row |= {"final_response": "Hello", "session_trace": trace}
    with Path(form).open("w") as file:
        if form.endswith(".csv"):
            cells = {
                name: value if isinstance(value, str) else json.dumps(value) for name, value in row.items()
            }
            table = csv.DictWriter(file, list(cells))
            table.writeheader()
            table.writerow(cells)
        else:
            file.write(json.dumps(row) + "\n")
    done = spangrade("grade", form, "--format", "json")
    assert done.code == 4
    assert "nothing to compare with" in reason(done)


def test_a_session_of_errors_without_a_reply_failed(graded: Any) -> None:
    done = graded(Said("Hi", None, error="503 overloaded"), "--format", "json", **TRAJECTORY)
    assert done.code == 1
    assert "ended in an error" in reason(done)


@pytest.mark.parametrize(
    ("calls", "reference", "code"),
    [
        ([Call("find", {"q": "shears"}, error="timeout")], FIND, 1),
        ([Call("find", {"q": "shears"}, error="timeout"), Call("find", {"q": "shears"})], FIND, 0),
        ([Call("find", {"q": "shears"}, error="timeout")], {**FIND, "status": "error"}, 0),
        ([Call("find", {"q": "shears"})], {**FIND, "status": "error"}, 1),
        ([Call("find", {"q": "shears"}, {"error": "none"})], {**FIND, "output": {"error": "none"}}, 0),
    ],
)
def test_a_failed_call_does_not_meet_a_reference_call(
    graded: Any, calls: list[Call], reference: dict[str, Any], code: int
) -> None:
    assert graded(Said("Hi", "Done.", calls), reference_tool_interactions=[reference]).code == code


def test_sessions_without_a_question_are_judged_by_the_gates_that_need_none(
    graded: Any, spangrade: Spangrade
) -> None:
    assert graded(Said("Hi"), **TRAJECTORY).code == 0
    write_sessions(Path("more.jsonl"), [("s2", [Said("Something else", calls=[Call("find", error="down")])])])
    grade = ("golden.json", "--spans", "spans.jsonl", "--spans", "more.jsonl")
    unmatched = spangrade("grade", *grade)
    assert (unmatched.code, unmatched.out[0]) == (0, "2 sessions: 1 passed, 1 unmatched")

    assert spangrade("grade", *grade, "--require-match").code == 4
    assert spangrade("grade", *grade, "--metric", "tool_success_rate>=1").code == 1


def test_an_old_session_that_passed_does_not_hide_a_newer_one_that_crashed(spangrade: Spangrade) -> None:
    write_golden(Path("golden.json"), {"id": "q1", "user_inputs": ["Hi"], **TRAJECTORY})
    write_sessions(Path("old.jsonl"), [("old", [Said("Hi")])])
    write_sessions(Path("new.jsonl"), [("new", [Said("Hi", None, error="crashed")])], start_ns=LATER_NS)
    assert spangrade("import", "new.jsonl", "old.jsonl").code == 0

    def verdicts(*options: str) -> dict[str, str]:
        printed = json.loads("\n".join(spangrade("grade", "golden.json", "--format", "json", *options).out))
        return {one["session_id"]: one["verdict"] for one in printed["grades"]}

    assert verdicts() == {"old": "passed", "new": "failed"}
    assert verdicts("--latest-per-question") == {"new": "failed"}
    told = spangrade("grade", "golden.json", "--latest-per-question").err
    assert told == [
        "spangrade: latest_per_question: 1 session left out: a later one answers the same question"
    ]
    assert verdicts("--since", "2026-01-01T09:30Z") == {"new": "failed"}
    assert verdicts("--until", "2026-01-01T09:30Z") == {"old": "passed"}
    assert verdicts("--session", "old") == {"old": "passed"}


EXITS = """
import sys
import spangrade

@spangrade.metric(threshold=1)
def leaves(session):
    sys.exit(0)

@spangrade.metric(threshold=1)
async def leaves_later(session):
    sys.exit(0)
"""


@pytest.mark.parametrize("name", ["leaves", "leaves_later"])
def test_a_metric_that_exits_is_broken(graded: Any, name: str) -> None:
    Path("m.py").write_text(EXITS)
    done = graded(Said("Hi"), "--metrics-file", "m.py", "--format", "json", **TRAJECTORY)
    assert done.code == 3
    assert f"{name}: SystemExit: 0" in reason(done)


def test_a_module_of_metrics_that_exits_is_bad_input(graded: Any) -> None:
    Path("m.py").write_text("import sys\nsys.exit(0)\n")
    done = graded(Said("Hi"), "--metrics-file", "m.py", **TRAJECTORY)
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert "m.py" in done.err[0]


@pytest.mark.parametrize("group", ["spangrade.metrics", "spangrade.dialects", "spangrade.readers"])
def test_a_plugin_that_exits_is_bad_input(graded: Any, folder: Path, group: str) -> None:
    graded(Said("Hi"), **TRAJECTORY)
    package = folder / "packages" / "acme-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{group}]\nacme = acme_plugin:METRICS\n")
    (folder / "packages" / "acme_plugin.py").write_text("import sys\nsys.exit(0)\n")
    command = [sys.executable, "-m", "spangrade", "grade", "golden.json", "--spans", "spans.jsonl"]
    path = os.pathsep.join(filter(None, (str(folder / "packages"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([*command, "--db", "new.duckdb"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "acme" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_tokens_for_an_answer_are_unknown(graded: Any) -> None:
    gate = ("--metric", "cost<=0.01", "--format", "json")
    assert graded(Said("Hi"), *gate, **TRAJECTORY).code == 0
    done = graded(Said("Hi", tokens=(0, 0)), *gate, **TRAJECTORY)
    assert done.code == 4
    assert "cost" in reason(done)


def test_broken_comes_before_failed_failed_before_inconclusive_inconclusive_before_passed(
    spangrade: Spangrade,
) -> None:
    Path("m.py").write_text(
        "import spangrade\n"
        "@spangrade.metric(threshold=1)\n"
        "def m(session):\n"
        "    if session.session_id == 'unknown':\n"
        "        return spangrade.Inconclusive('unknown')\n"
        "    return 1 / (session.session_id != 'broken') - (session.session_id == 'failed')\n"
    )
    write_golden(Path("golden.json"), {"id": "q1", "user_inputs": ["Hi"], **TRAJECTORY})
    kinds = ["passed", "unknown", "failed", "broken"]
    write_sessions(Path("spans.jsonl"), [(kind, [Said("Hi")]) for kind in kinds])
    assert spangrade("import", "spans.jsonl").code == 0
    codes = []
    for number in range(len(kinds)):
        chosen = [option for kind in kinds[: number + 1] for option in ("--session", kind)]
        codes.append(spangrade("grade", "golden.json", "--metrics-file", "m.py", *chosen).code)
    assert codes == [0, 4, 1, 3]


@pytest.mark.parametrize(
    ("idle", "forbidden", "code"),
    [(None, "sell", 0), ("5m", "sell", 4), ("30s", "sell", 0), ("5m", "find", 1)],
)
def test_a_session_that_may_still_run_has_not_passed(
    spangrade: Spangrade, idle: str | None, forbidden: str, code: int
) -> None:
    """What it did already stays done: a call that is forbidden."""
    references = {"reference_tool_interactions": [FIND], "forbidden_tools": [forbidden]}
    write_golden(Path("golden.json"), {"id": "q1", "user_inputs": ["Hi"], **references})
    write_sessions(Path("spans.jsonl"), [("s1", [FOUND])], start_ns=time.time_ns() - 60 * 10**9)
    options = () if idle is None else ("--idle", idle)
    done = spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--format", "json", *options)
    assert (done.code, "it may still run: its last span ended at" in reason(done)) == (code, code != 0)
