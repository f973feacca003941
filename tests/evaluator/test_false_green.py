"""What was green and must not be: each row of the table in docs/verdicts.md, as a verdict or a command."""

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
from grading import NO_GATES, grade_recorded
from made_once import new_database
from otlp_sessions import START_NS, Call, Said, recorded_sessions, write_golden, write_sessions

from spangrade import Gates
from spangrade.evaluator.grading.run import Grade

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


def grade_of(turn: Said, gates: Gates = NO_GATES, **references: Any) -> Grade:
    """The grade of one session, the turn given, against the question "Hi", without a database."""
    return grade_recorded(recorded_sessions([("s1", [turn])]), {"user_inputs": ["Hi"], **references}, gates)


def verdict(turn: Said, gates: Gates = NO_GATES, **references: Any) -> str:
    return grade_of(turn, gates, **references).verdict.value


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
    ("gates", "expected"),
    [
        (Gates(["latency_metrics<=100"]), "failed"),
        (Gates(["tools:recall>=0"]), "passed"),  # it reads the same reference, and takes its gate's place
        (Gates(["latency_metrics<=100"], no_reference=["reference_tool_interactions"]), "passed"),
        (Gates(["latency_metrics<=100"], no_references=True), "passed"),
    ],
)
def test_a_requested_gate_does_not_drop_those_of_the_references(gates: Gates, expected: str) -> None:
    assert verdict(Said("Hi"), gates, reference_tool_interactions=[FIND]) == expected


def test_a_requested_gate_takes_the_place_of_the_gate_of_its_reference() -> None:
    gates = Gates(["response_match>=0.7"])
    reference = {"reference_response": "Your order is on its way."}
    assert verdict(Said("Hi", "Your order is on its way!"), gates, **reference) == "passed"
    assert verdict(Said("Hi", "No."), gates, **reference) == "failed"


def test_a_reply_is_compared_or_the_reason_names_what_could_not_be() -> None:
    reference = {"reference_response": "We are open."}
    assert verdict(Said("Hi", "We  are open."), **reference) == "passed"
    grade = grade_of(Said("Hi", "We are closed."), **reference)
    assert grade.verdict == "inconclusive"
    assert "reference_response cannot be compared: the last reply differs, and judge" in grade.reason
    assert "set GEMINI_API_KEY" in grade.reason


@pytest.mark.parametrize("references", [{}, {"reference_policy": "be kind"}])
def test_nothing_to_compare_with_is_inconclusive_unless_a_gate_is_requested(
    references: dict[str, Any],
) -> None:
    grade = grade_of(Said("Hi"), **references)
    assert (grade.verdict, grade.reason.partition(":")[0]) == ("inconclusive", "nothing to compare with")
    assert verdict(Said("Hi"), Gates(["latency_metrics<=100"]), **references) == "passed"


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


def test_a_session_of_errors_without_a_reply_failed() -> None:
    grade = grade_of(Said("Hi", None, error="503 overloaded"), **TRAJECTORY)
    assert grade.verdict == "failed"
    assert "ended in an error" in grade.reason


@pytest.mark.parametrize(
    ("calls", "reference", "expected"),
    [
        ([Call("find", {"q": "shears"}, error="timeout")], FIND, "failed"),
        ([Call("find", {"q": "shears"}, error="timeout"), Call("find", {"q": "shears"})], FIND, "passed"),
        ([Call("find", {"q": "shears"}, error="timeout")], {**FIND, "status": "error"}, "passed"),
        ([Call("find", {"q": "shears"})], {**FIND, "status": "error"}, "failed"),
        ([Call("find", {"q": "shears"}, {"error": "none"})], {**FIND, "output": {"error": "none"}}, "passed"),
    ],
)
def test_a_failed_call_does_not_meet_a_reference_call(
    calls: list[Call], reference: dict[str, Any], expected: str
) -> None:
    assert verdict(Said("Hi", "Done.", calls), reference_tool_interactions=[reference]) == expected


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
    assert verdicts("--where", "until:2026-01-01T09:30Z") == {"old": "passed"}
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
@pytest.mark.short_form("group", 3)
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


def test_no_tokens_for_an_answer_are_unknown() -> None:
    gates = Gates(["cost<=0.01"])
    assert verdict(Said("Hi"), gates, **TRAJECTORY) == "passed"
    grade = grade_of(Said("Hi", tokens=(0, 0)), gates, **TRAJECTORY)
    assert grade.verdict == "inconclusive"
    assert "cost" in grade.reason


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
    ("idle", "forbidden", "expected"),
    [
        (None, "sell", "passed"),
        ("5m", "sell", "inconclusive"),
        ("30s", "sell", "passed"),
        ("5m", "find", "failed"),
    ],
)
def test_a_session_that_may_still_run_has_not_passed(idle: str | None, forbidden: str, expected: str) -> None:
    """What it did already stays done: a call that is forbidden."""
    references = {"reference_tool_interactions": [FIND], "forbidden_tools": [forbidden]}
    recorded = recorded_sessions([("s1", [FOUND])], start_ns=time.time_ns() - 60 * 10**9)
    question = {"user_inputs": ["Hi"], **references}
    grade = grade_recorded(recorded, question, idle_s=idle)
    found = grade.verdict, "it may still run: its last span ended at" in grade.reason
    assert found == (expected, expected != "passed")
