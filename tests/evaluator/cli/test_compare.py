"""`spangrade compare`: two runs of one dataset, over their sessions as recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from junitparser import JUnitXml
from made_once import copy_folder
from otlp_sessions import START_NS, Call, Said, write_golden, write_sessions
from paths import SHARED

from spangrade import open as open_database
from spangrade.tracer.base.installation import to_install

QUESTIONS = 12
DAY_NS = 86_400_000_000_000
BENCH = SHARED / "bench/gen.py"


def question(number: int) -> dict[str, Any]:
    calls = [{"tool_name": "find_order", "input_arguments": {"id": number}}, {"tool_name": "refund"}]
    return {
        "id": f"q{number:02}",
        "user_inputs": [f"Refund order {number}"],
        "reference_tool_interactions": calls,
    }


def session(number: int, *, refunds: bool, tokens: int = 100) -> Sequence[Said]:
    calls = [Call("find_order", {"id": number}), *([Call("refund")] if refunds else [])]
    return [Said(f"Refund order {number}", "Done.", calls, tokens=(tokens + number, 10))]


def without_report(patch: pytest.MonkeyPatch) -> None:
    """Leave out report.html, which `compare` does not read: it takes nine tenths of the time of a grade."""
    patch.setattr("spangrade.evaluator.reports.html.report.write_report", lambda *arguments: None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs `base`, in which all 12 sessions pass, and `new`, in which 5 leave the refund out.

    Their sessions are of the agent's versions 1.4 and 1.5, and of two days.
    """
    folder = tmp_path_factory.mktemp("runs")
    write_golden(folder / "golden.json", *map(question, range(QUESTIONS)))
    db = open_database(folder / "spangrade.duckdb")
    for name, missing, tokens, day, version in (("base", 0, 100, 0, "1.4"), ("new", 5, 200, 1, "1.5")):
        sessions = [
            (f"{name}-{n}", session(n, refunds=n >= missing, tokens=tokens)) for n in range(QUESTIONS)
        ]
        start_ns = START_NS + day * DAY_NS
        spans = write_sessions(folder / f"{name}.jsonl", sessions, start_ns=start_ns, version=version)
        with pytest.MonkeyPatch.context() as patch:
            without_report(patch)
            db.grade(folder / "golden.json", spans=spans, name=name, out=folder / f"{name}-out")
    return folder


@pytest.fixture
def graded(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs, as the current folder."""
    monkeypatch.chdir(tmp_path)
    copy_folder(runs, tmp_path)
    return tmp_path


def as_json(done: Done) -> Any:
    return json.loads("\n".join(done.out))


def conditions_of(done: Done) -> list[str]:
    """Return the lines of the gates, in order; why sessions failed follows."""
    return [line for line in done.out if line.startswith("condition '")]


def outcomes_of(done: Done) -> list[str]:
    """Return what the lines of the gates say, in order."""
    return [line.split("': ")[1].split(";")[0] for line in conditions_of(done)]


def changes(value: Any) -> dict[str, str]:
    return {metric["metric"]: metric["change"] for metric in value["metrics"]}


def test_what_got_worse_is_found_and_nothing_else(graded: Path, spangrade: Spangrade) -> None:
    done = spangrade("compare", "--all", "base", "new", "--format", "json")
    assert done.code == 0
    value = as_json(done)
    found = changes(value)
    shifted = {"cost": "worse", "tool_usage_accuracy": "no difference shown"}
    assert {name: found[name] for name in shifted} == shifted  # 5 of 12 is p = 0.03: not after the correction
    (passed,) = (metric for metric in value["metrics"] if metric["metric"] == "passed")
    assert (passed["first"], passed["second"]) == (1.0, pytest.approx(7 / 12))
    assert passed["difference"]["questions"] == QUESTIONS
    (cost,) = (metric for metric in value["metrics"] if metric["metric"] == "cost")
    assert cost["observed"] == pytest.approx(cost["second"] / cost["first"])
    assert cost["too_little_data"] == "12 questions; an interval of the mean needs 200"
    assert set(found.values()) <= {"worse", "no difference shown", "too little data"}


def test_the_sessions_that_flipped_are_named_with_the_reason_and_the_step(
    graded: Path, spangrade: Spangrade
) -> None:
    value = as_json(spangrade("compare", "--all", "base", "new", "--format", "json"))
    assert [flip["question_id"] for flip in value["regressed"]] == [f"q{n:02}" for n in range(5)]
    assert value["fixed"] == []
    flip = value["regressed"][0]
    assert [side["session_id"] for side in (*flip["first"], *flip["second"])] == ["base-0", "new-0"]
    assert flip["step"] == "step 3: refund, then the end"
    assert "refund" in flip["reason"]
    other_way = as_json(spangrade("compare", "--all", "new", "base", "--format", "json"))
    assert [flip["question_id"] for flip in other_way["fixed"]] == [f"q{n:02}" for n in range(5)]


def test_the_same_sessions_graded_twice_show_no_difference_with_an_interval_of_nothing(
    graded: Path, spangrade: Spangrade
) -> None:
    assert spangrade("grade", "golden.json", "--of-run", "new", "--run", "again").code == 1
    done = spangrade("compare", "--all", "new", "again", "--fail-if", "passed worse by 0", "--format", "json")
    assert done.code == 0
    value = as_json(done)
    assert set(changes(value).values()) == {"no difference shown"}
    for metric in value["metrics"]:
        difference = metric["difference"]
        assert (difference["estimate"], difference["low"], difference["high"]) == (0, 0, 0)


def test_a_bill_is_the_mean_and_few_questions_do_not_settle_it(graded: Path, spangrade: Spangrade) -> None:
    gates = [f"cost{which} worse by 25%" for which in ("", ".mean", ".median", ".geomean")]
    done = spangrade(
        "compare", "--all", "base", "new", *(part for gate in gates for part in ("--fail-if", gate))
    )
    assert done.code == 1
    assert outcomes_of(done) == ["inconclusive", "inconclusive", "not held", "not held"]
    assert "expected at most a mean 25% higher" in conditions_of(done)[-4]
    assert "12 questions; an interval of the mean needs 200" in conditions_of(done)[-4]
    assert "expected at most a median change of a question 25% higher; worse by 53" in conditions_of(done)[-2]
    assert "expected at most a geometric mean 25% higher; worse by 53" in conditions_of(done)[-1]


CONDITIONS = [
    ("agent_version = '1.4'", "agent_version = '1.5'"),
    ("started_at::DATE = '2026-01-01'", "started_at::DATE = '2026-01-02'"),
    ("session_id LIKE 'base-%'", "session_id LIKE 'new-%'"),
]


@pytest.mark.exhaustive
def test_sessions_that_meet_conditions_compare_like_the_runs_that_graded_them(
    graded: Path, spangrade: Spangrade
) -> None:
    by_name = as_json(spangrade("compare", "--all", "base", "new", "--format", "json"))
    for first, second in CONDITIONS:
        value = as_json(spangrade("compare", "--all", first, second, "--format", "json"))
        assert value["first"] == {
            "run": first,
            "run_id": None,
            "sessions": QUESTIONS,
            "ungraded": 0,
            "arrived_since": 0,
            "replayed": None,
        }
        # Causes of failures are those of a run.
        other = {"first": 0, "second": 0, "failures": None}
        assert value | other == by_name | other
        assert value["failures"] is None


@pytest.mark.exhaustive
def test_two_versions_compare_by_their_names(graded: Path, spangrade: Spangrade) -> None:
    by_name = as_json(spangrade("compare", "--all", "--by", "version", "1.4", "1.5", "--format", "json"))
    assert by_name == as_json(spangrade("compare", "--all", *CONDITIONS[0], "--format", "json"))
    assert not any("without a recorded" in line for line in spangrade("compare", "--all", *CONDITIONS[0]).out)
    nameless = [Said("Hi", "Hello.")]
    spangrade("import", write_sessions(graded / "nameless.jsonl", [("n-1", nameless), ("n-2", nameless)]))
    left_out = "2 sessions without a recorded version, left out of both"
    assert left_out in spangrade("compare", "--all", "--by", "version", "1.4", "1.5").out
    chosen = spangrade("grade", "golden.json", "--where", "version:1.5", "--run", "of-1.5")
    assert chosen.err == ["spangrade: version: 2 sessions left out: no version is recorded"]
    done = spangrade("compare", "--all", "--by", "model", "gemini-2.5-flash", "it's", "--format", "json")
    assert (done.code, done.err) == (
        2, ["spangrade: compare \"list_contains(models, 'it''s')\": no session in spangrade.duckdb meets it"]
    )  # fmt: skip


def test_a_gate_may_compare_conditions(graded: Path, spangrade: Spangrade) -> None:
    done = spangrade(
        "compare", "--all", *CONDITIONS[0], "--fail-if", "cost.geomean worse by 10%", "--out", "out"
    )
    assert done.code == 1
    assert "## spangrade: `agent_version = '1.4'` against `agent_version = '1.5'`" in (
        graded / "out/comparison.md"
    ).read_text(encoding="utf-8")


def test_each_selected_session_has_the_grade_of_its_latest_run(graded: Path, spangrade: Spangrade) -> None:
    spangrade("grade", "golden.json", "--session", "new-0", "--no-references", "--metric", "cost<=1")
    value = as_json(
        spangrade("compare", "--all", *CONDITIONS[0], "--allow-changed-questions", "--format", "json")
    )
    assert [flip["question_id"] for flip in value["regressed"]] == [f"q{n:02}" for n in range(1, 5)]
    (passed,) = (metric for metric in value["metrics"] if metric["metric"] == "passed")
    assert passed["second"] == pytest.approx(8 / 12)
    assert passed["note"].startswith("the gate cost is new")


def test_a_condition_against_itself_shows_no_difference(graded: Path, spangrade: Spangrade) -> None:
    same = CONDITIONS[0][1]
    value = as_json(
        spangrade("compare", "--all", same, same, "--fail-if", "passed worse by 0", "--format", "json")
    )
    assert {(m["change"], m["difference"]["low"], m["difference"]["high"]) for m in value["metrics"]} == {
        ("no difference shown", 0, 0)
    }


def test_a_condition_and_a_run_compare(graded: Path, spangrade: Spangrade) -> None:
    by_name = as_json(spangrade("compare", "--all", "base", "new", "--format", "json"))
    value = as_json(spangrade("compare", "--all", "base", CONDITIONS[0][1], "--format", "json"))
    assert changes(value) == changes(by_name)


@pytest.mark.exhaustive
def test_sessions_without_common_questions_are_two_samples(graded: Path, spangrade: Spangrade) -> None:
    db = ("--db", "others.duckdb")  # no session was graded against a question there: that verdict would stay
    spangrade("import", "base.jsonl", "new.jsonl", *db)
    spangrade("grade", "--metric", "cost<=200", *db)
    value = as_json(spangrade("compare", "--all", *CONDITIONS[0], *db, "--format", "json"))
    assert {metric["paired"] for metric in value["metrics"]} == {False}
    (cost,) = (metric for metric in value["metrics"] if metric["metric"] == "cost")
    factor = cost["second"] / cost["first"]
    assert (cost["change"], cost["observed"]) == ("worse", pytest.approx(factor))
    assert len(value["only_in_first"]) == len(value["only_in_second"]) == QUESTIONS
    lines = spangrade("compare", "--all", *CONDITIONS[0], *db).out
    assert any(
        line.startswith("12 sessions without a question only in the first: base-0, ") for line in lines
    )


def test_sessions_that_were_never_graded_are_counted(graded: Path, spangrade: Spangrade) -> None:
    spangrade("import", write_sessions(graded / "more.jsonl", [("more-1", session(1, refunds=True))]))
    done = spangrade("compare", "--all", CONDITIONS[2][0], "session_id NOT LIKE 'base-%'")
    assert "1 session of the second never graded, left out" in done.out


HOSTILE = [
    "true) UNION SELECT content FROM read_text('/etc/passwd') --",
    "session_id IN (SELECT content FROM read_text('/etc/passwd'))",
    "true; DROP TABLE runs",
    "(SELECT 1 FROM read_csv('golden.json')) = 1",
    "getenv('HOME') = 'x'",
]


def test_hostile_conditions_are_refused(graded: Path, spangrade: Spangrade) -> None:
    for sides in [*((condition, "new") for condition in HOSTILE), ("base", HOSTILE[0])]:
        done = spangrade("compare", "--all", *sides)
        assert (done.code, done.out, len(done.err)) == (2, [], 1)
        assert done.err[0].startswith("spangrade: compare ")
        assert "root:" not in done.err[0]
    assert spangrade("compare", "--all", "base", "new").code == 0


def test_the_folders_of_two_runs_compare_like_the_runs(graded: Path, spangrade: Spangrade) -> None:
    by_name = as_json(spangrade("compare", "--all", "base", "new", "--format", "json"))
    by_folder = as_json(
        spangrade("compare", "--all", "base-out", "new-out", "--db", "missing.duckdb", "--format", "json")
    )
    mixed = as_json(spangrade("compare", "--all", "base-out", "new", "--format", "json"))
    by_file = as_json(
        spangrade("compare", "--all", "base-out/results.json", "new-out/sessions.jsonl", "--format", "json")
    )
    for value in (by_folder, mixed, by_file):
        sides = {"first": 0, "second": 0, "failures": 0}
        assert {**value, **sides} == {**by_name, **sides}
    assert [len(by_name["failures"]), by_folder["failures"], by_file["failures"]] == [1, None, None]


@pytest.mark.parametrize(
    ("gate", "code", "text"),
    [
        (
            "cost.median worse by 10%",
            1,
            "condition 'cost.median worse by 10%': not held; expected at most a median change of a question",
        ),
        (
            "cost.median worse by 300%",
            0,
            "condition 'cost.median worse by 300%': held; expected at most a median change of a question",
        ),
        (
            "passed worse by 10%",
            4,
            "condition 'passed worse by 10%': inconclusive; expected at most a loss of 10 points (0.1)",
        ),
    ],
)
@pytest.mark.short_form("gate", 3)
def test_a_gate_decides_the_exit_code(
    gate: str, code: int, text: str, graded: Path, spangrade: Spangrade
) -> None:
    done = spangrade("compare", "--all", "base", "new", "--fail-if", gate, "--out", "out")
    assert done.code == code
    assert any(line.startswith(text) for line in done.out)
    (suite,) = JUnitXml.fromfile(str(graded / "out/comparison.junit.xml"))
    assert (suite.tests, suite.failures) == (1, int(code != 0))
    assert gate in (graded / "out/comparison.md").read_text()
    written = json.loads((graded / "out/comparison.json").read_text())
    outcomes = [one["outcome"] for one in written["conditions"]]
    assert outcomes == [{0: "passed", 1: "failed", 4: "inconclusive"}[code]]
    if code == 4:
        assert spangrade("compare", "--all", "base", "new", "--fail-if", gate, "--inconclusive-ok").code == 0


def test_questions_of_one_run_only_and_changed_questions_are_named(
    graded: Path, spangrade: Spangrade
) -> None:
    golden = json.loads((graded / "golden.json").read_text())["golden_questions"]
    golden[1]["reference_data"]["reference_tool_interactions"].pop()
    (graded / "golden.json").write_text(json.dumps({"golden_questions": golden[1:]}))
    spangrade("grade", "golden.json", "--spans", "new.jsonl", "--run", "newer", "--session", "new-1")
    value = as_json(spangrade("compare", "--all", "base", "newer", "--format", "json"))
    without = "reference_tool_interactions without refund"
    changed = [{"question_id": "q01", "what": without, "relaxed": True}]
    assert value["changed_questions"] == changed
    assert value["only_in_first"] == ["q00"]
    assert value["unanswered_in_second"] == [f"q{n:02}" for n in range(2, QUESTIONS)]
    assert value["compared"] == {"questions": 0, "of": QUESTIONS}
    (passed,) = (metric for metric in value["metrics"] if metric["metric"] == "passed")
    assert passed["too_little_data"] == "no question can be compared"
    by_file = as_json(spangrade("compare", "--all", "base-out", "newer", "--format", "json"))
    assert by_file["changed_questions"] == changed


def test_a_question_that_expects_less_is_not_compared_unless_that_is_allowed(
    graded: Path, spangrade: Spangrade
) -> None:
    golden = json.loads((graded / "golden.json").read_text())["golden_questions"]
    for number in range(5):
        golden[number]["reference_data"]["reference_tool_interactions"].pop()
    (graded / "golden.json").write_text(json.dumps({"golden_questions": golden}))
    spangrade("grade", "golden.json", "--spans", "new.jsonl", "--run", "relaxed")
    gate = ("--fail-if", "passed worse by 40%", "--fail-if", "regressed > 4", "--fail-if", "regressed > 5")
    done = spangrade("compare", "--all", "base", "relaxed", *gate)
    assert done.code == 4
    assert "7 of 12 questions (58%) can be compared: 5 changed" in done.out
    assert any(
        line.startswith("5 questions relaxed in the second: q00 (reference_tool_") for line in done.out
    )
    assert outcomes_of(done) == ["inconclusive", "inconclusive", "held"]
    allowed = spangrade("compare", "--all", "base", "relaxed", *gate, "--allow-changed-questions")
    assert (allowed.code, "12 of 12 questions (100%) can be compared" in allowed.out) == (0, True)


@pytest.mark.exhaustive
def test_runs_with_other_gates_are_not_compared_unless_that_is_allowed(
    graded: Path, spangrade: Spangrade
) -> None:
    lenient = ("--spans", "new.jsonl", "--metric", "tools:recall>=0.5")
    spangrade("grade", "golden.json", *lenient, "--run", "lenient")
    done = spangrade("compare", "--all", "base", "lenient", "--fail-if", "passed worse by 40%")
    assert (
        done.code,
        ("0 of 12 questions (0%) can be compared: the gates are not the same") in done.out,
    ) == (4, True)
    assert "; the gate tool_usage_accuracy is gone; the gate tools:recall is new" in " ".join(done.out[-2:])
    value = as_json(spangrade("compare", "--all", "base", "lenient", "--format", "json"))
    (passed,) = (metric for metric in value["metrics"] if metric["metric"] == "passed")
    assert passed["note"] == "the gate tool_usage_accuracy is gone; the gate tools:recall is new"
    cost = spangrade("compare", "--all", "base", "lenient", "--fail-if", "cost.median worse by 300%")
    assert cost.code == 0
    allowed = ("--allow-changed-questions", "--fail-if", "passed worse by 40%")
    assert spangrade("compare", "--all", "base", "lenient", *allowed).code == 0


def test_runs_of_other_questions_are_not_compared_unless_that_is_allowed(
    graded: Path, spangrade: Spangrade
) -> None:
    """The same questions by other ids: that the second run passes as many says nothing about the first's."""
    golden = json.loads((graded / "golden.json").read_text())["golden_questions"]
    renamed = [{**one, "id": f"other-{one['id']}"} for one in golden]
    (graded / "golden.json").write_text(json.dumps({"golden_questions": renamed}))
    spangrade("grade", "golden.json", "--spans", "base.jsonl", "--run", "renamed")
    gate = ("--fail-if", "passed worse by 50%")
    done = spangrade("compare", "--all", "base", "renamed", *gate)
    assert (done.code, ("0 of 12 questions (0%) can be compared: no question is in both"
    ) in done.out) == (4, True)  # fmt: skip
    allowed = spangrade("compare", "--all", "base", "renamed", *gate, "--allow-changed-questions")
    assert (allowed.code, "24 of 24 questions and sessions (100%) can be compared" in allowed.out) == (
        0,
        True,
    )
    assert allowed.err == []


def test_a_reference_that_is_new_in_one_question_leaves_the_others_comparable(
    graded: Path, spangrade: Spangrade
) -> None:
    golden = json.loads((graded / "golden.json").read_text())["golden_questions"]
    golden[0]["reference_data"]["max_cost_usd"] = 1
    (graded / "golden.json").write_text(json.dumps({"golden_questions": golden}))
    spangrade("grade", "golden.json", "--spans", "new.jsonl", "--run", "limited")
    done = spangrade("compare", "--all", "base", "limited", "--fail-if", "regressed > 3")
    assert (done.code, "11 of 12 questions (92%) can be compared: 1 changed" in done.out) == (1, True)


@pytest.mark.exhaustive
def test_unanswered_questions_count_against_a_gate_and_against_its_failure(
    graded: Path, spangrade: Spangrade
) -> None:
    ids = [option for n in range(5, 9) for option in ("--session", f"new-{n}")]
    spangrade("grade", "golden.json", *ids, "--run", "few")
    gates = {"passed worse by 10%": 4, "passed worse by 99%": 0, "regressed > 0": 4, "cost worse by 500%": 4}
    for gate, code in gates.items():
        assert (gate, spangrade("compare", "--all", "base", "few", "--fail-if", gate).code) == (gate, code)
    done = spangrade("compare", "--all", "base", "few", "--min-compared", "0.9")
    few = "4 of 12 questions (33%) can be compared: 8 unanswered in the second"
    assert (done.code, few in done.out) == (4, True)
    assert conditions_of(done)[-1] == f"condition 'compared >= 90%': inconclusive; {few}"
    assert spangrade("compare", "--all", "base", "few", "--min-compared", "0.3").code == 0
    by_file = spangrade("compare", "--all", "base-out", "few", "--fail-if", "passed worse by 10%")
    assert (by_file.code, few in by_file.out) == (4, True)


def test_what_is_unknown_does_not_hide_a_failure(graded: Path, spangrade: Spangrade) -> None:
    """11 of 12 questions failed and one is not answered: even if it passed, the run is worse by 10 points."""
    worse = [(f"worse-{n}", session(n, refunds=False)) for n in range(QUESTIONS - 1)]
    spangrade("grade", "golden.json", "--spans", write_sessions(graded / "w.jsonl", worse), "--run", "worse")
    done = spangrade(
        "compare", "--all", "base", "worse", "--fail-if", "passed worse by 10%", "--fail-if", "regressed > 0"
    )
    assert done.code == 1
    assert outcomes_of(done) == ["not held", "not held"]
    assert "at best worse by 0.917" in conditions_of(done)[-2]


@pytest.mark.exhaustive
def test_six_questions_show_the_difference_the_flips_and_an_exact_test(
    tmp_path: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    without_report(monkeypatch)
    write_golden(tmp_path / "golden.json", *map(question, range(6)))
    for name, missing in (("base", 0), ("new", 5)):
        sessions = [(f"{name}-{n}", session(n, refunds=n >= missing)) for n in range(6)]
        spans = write_sessions(tmp_path / f"{name}.jsonl", sessions)
        spangrade("grade", "golden.json", "--spans", spans, "--run", name)
    done = spangrade("compare", "--all", "base", "new", "--metric", "passed", "--fail-if", "regressed > 0")
    assert done.code == 1
    row = next(line for line in done.out if line.startswith("│ passed"))
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "passed", "1", "0.1667", "-0.833 (-0.996 to -0.0431)", "0.039", "worse", "6"
    ]  # fmt: skip
    assert "5 regressed, 0 fixed: worse" in done.out
    assert (
        conditions_of(done)[-1]
        == "condition 'regressed > 0': not held; expected at most 0 questions; 5 questions regressed"
    )


@pytest.mark.parametrize(
    ("broken", "fixed", "code", "said"),
    [
        (
            6,
            0,
            1,
            "not held; 6 questions regressed (q00, q01, q02, q03, q04, q05), 0 fixed: a loss (p 0.013)",
        ),
        (
            4,
            1,
            4,
            (
                "inconclusive; 4 questions regressed (q00, q01, q02, q03), 1 fixed:"
                " the test cannot tell (p 0.26)"
            ),
        ),
        (2, 2, 0, "held; 2 questions regressed (q00, q01), 2 fixed"),
        (0, 3, 0, "held; 0 questions regressed, 3 fixed"),
    ],
)
@pytest.mark.short_form("broken", 4)
def test_worse_fails_if_the_exact_test_shows_a_loss_and_names_what_broke(
    broken: int, fixed: int, code: int, said: str, tmp_path: Path, spangrade: Spangrade,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    without_report(monkeypatch)
    write_golden(tmp_path / "golden.json", *map(question, range(QUESTIONS)))
    failing = {"base": range(broken, broken + fixed), "new": range(broken)}
    for name, numbers in failing.items():
        sessions = [(f"{name}-{n}", session(n, refunds=n not in numbers)) for n in range(QUESTIONS)]
        spans = write_sessions(tmp_path / f"{name}.jsonl", sessions)
        spangrade("grade", "golden.json", "--spans", spans, "--run", name)
    done = spangrade("compare", "--all", "base", "new", "--fail-if", "worse")
    assert (done.code, conditions_of(done)[-1]) == (code, f"condition 'worse': {said}")
    compared = open_database(tmp_path / "spangrade.duckdb").compare("base", "new", fail_if="worse")
    (result,) = compared.conditions
    assert (compared.exit_code(), result.reason) == (code, said.partition("; ")[2])


def test_what_is_unknown_counts_against_worse_and_against_its_failure(
    graded: Path, spangrade: Spangrade
) -> None:
    """5 of 12 questions regressed: that is a loss even if the two that are not answered would have passed."""
    ids = [option for n in range(QUESTIONS - 2) for option in ("--session", f"new-{n}")]
    spangrade("grade", "golden.json", *ids, "--run", "ten")
    done = spangrade("compare", "--all", "base", "ten", "--fail-if", "worse")
    names = "q00, q01, q02, q03, q04"
    failed = f"not held; 5 questions regressed ({names}), 0 fixed, and of 2 more questions it is not known"
    assert (done.code, conditions_of(done)[-1]) == (1, f"condition 'worse': {failed}: a loss (p 0.039)")
    spangrade(
        "grade", "golden.json", *[o for n in range(11) for o in ("--session", f"base-{n}")], "--run", "all"
    )
    done = spangrade("compare", "--all", "base", "all", "--fail-if", "worse")
    unknown = "inconclusive; 0 questions regressed, 0 fixed, and of 1 more question it is not known"
    assert (done.code, conditions_of(done)[-1]) == (4, f"condition 'worse': {unknown}: the test cannot tell")


def test_ten_lines_come_first_and_all_of_it_if_it_is_asked_for(graded: Path, spangrade: Spangrade) -> None:
    done = spangrade("compare", "base", "new", "--fail-if", "worse", "--fail-if", "regressed > 9")
    names = "5 questions regressed (q00, q01, q02, q03, q04)"
    assert done.out == [
        "new: 12 sessions: 7 passed, 5 failed",
        "against base: 5 regressed, 0 fixed: worse; 12 of 12 questions (100%) can be compared",
        "failed 5 (q00, q01, q02, q03, q04): tool_usage_accuracy: missing: refund",
        '  - refund {} → "done"',
        "also: cost worse (5.665e-05 → 8.665e-05)",
        f"exit code 1: condition 'worse': not held; {names}, 0 fixed: a loss (p 0.039)",
        "next: spangrade show new-0 · spangrade show new · --all lists the rest",
    ]
    every = spangrade("compare", "--all", "base", "new").out
    assert {"passed", "cost"} < {line.split()[1] for line in every if line.startswith("│ ")}
    assert any(line.startswith("│ turns_answered ") for line in every)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("base", "nwe"), 'no run "nwe" in spangrade.duckdb: `spangrade runs` lists them'),
        (("base", "agent_version = '9'"), "compare \"agent_version = '9'\": no session in "),
        (("base", "agent_versoin = '9'"), "compare \"agent_versoin = '9'\": Binder Error: "),
        (("true = true", "agent_version = '1.4'"), "compare: 12 sessions meet both 'true = true' and"),
        (("base", "new", "--metric", "tone"), 'metric "tone" is not in both; there are passed,'),
        (
            ("base", "new", "--fail-if", "passed.median worse by 5%"),
            "--fail-if 'passed.median worse by 5%': passed has bounds: expected its mean",
        ),
        (("base", "new", "--fail-if", "passed"), "--fail-if 'passed': expected METRIC worse by MARGIN"),
        (
            ("base", "new", "--fail-if", "passed worse by 5"),
            "passed lies between 0 and 1; expected a margin such as 5%, 5 points or 0.05",
        ),
    ],
)
@pytest.mark.short_form("arguments", 2)
def test_what_cannot_be_compared_is_one_line(
    arguments: tuple[str, ...], message: str, graded: Path, spangrade: Spangrade
) -> None:
    done = spangrade("compare", "--all", *arguments)
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert message in done.err[0]


def test_a_file_that_grade_did_not_write_is_refused_with_its_line(graded: Path, spangrade: Spangrade) -> None:
    (graded / "new-out/results.json").write_text('{"measured": {"cost": {}}}')
    done = spangrade("compare", "--all", "base-out", "new-out")
    assert (done.code, done.err) == (
        2,
        [
            (
                "spangrade: new-out/results.json: expected the file that `grade --out` wrote: "
                "measured.cost.higher_is_better: Field required"
            )
        ],
    )
    (graded / "base-out/sessions.jsonl").write_text('{"session_id": 1}\n')
    done = spangrade("compare", "--all", "base-out", "new")
    assert (done.code, done.err) == (
        2,
        [
            (
                "spangrade: base-out/sessions.jsonl:1: expected a line that `grade --out` wrote: "
                "session_id: Input should be a valid string"
            )
        ],
    )


def generate(defects: float, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write 100 generated sessions and their questions; a share of them looks up another order."""
    generator: dict[str, Any] = {}
    source = BENCH.read_text(encoding="utf-8").rpartition("\nmain()")[0]
    exec(compile(source, BENCH, "exec"), generator)
    generator["DEFECTS"][:] = ["wrong_arg"]
    monkeypatch.setattr(sys, "argv", ["gen.py", "-n", "100", "-o", str(folder), "--defects", str(defects)])
    generator["main"]()


@pytest.mark.skipif(not BENCH.is_file(), reason="no session generator beside the repository")
@pytest.mark.exhaustive
def test_planted_defects_are_found_from_the_spans_to_the_comparison(
    spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    without_report(monkeypatch)
    for name, defects in (("good", 0.0), ("bad", 0.3)):
        generate(defects, tmp_path / name, monkeypatch)
        gates = ("--no-reference", "reference_response")
        spans = ("--spans", f"{name}/traces.jsonl", "--db", f"{name}.duckdb", "--out", f"{name}-out")
        spangrade("grade", f"{name}/golden.json", *spans, *gates)
    planted = [one["case"] for one in json.loads(Path("bad/manifest.json").read_text()) if one["defect"]]
    done = spangrade(
        "compare", "--all", "good-out", "bad-out", "--fail-if", "passed worse by 0.1", "--format", "json"
    )
    value = as_json(done)
    assert done.code == 1
    found = {name: change for name, change in changes(value).items() if change not in UNCHANGED}
    assert found == dict.fromkeys(("passed", "tool_usage_accuracy", "unexpected_calls"), "worse")
    assert [flip["question_id"] for flip in value["regressed"]] == planted
    assert value["fixed"] == []
    spangrade("grade", "bad/golden.json", "--db", "bad.duckdb", "--out", "again-out", *gates)
    again = as_json(spangrade("compare", "--all", "bad-out", "again-out", "--format", "json"))
    differences = [metric["difference"] for metric in again["metrics"]]
    assert {(one["estimate"], one["low"], one["high"]) for one in differences} == {(0, 0, 0)}


UNCHANGED = ("no difference shown", "too little data")


LINE = {"session_id": "s", "question_id": "q", "verdict": "passed", "reason": "", "metrics": {}}
MEASURED = {
    "higher_is_better": True, "lowest": 0, "highest": 1, "unit": "", "threshold": None, "version": None
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "results", "place"),
    [
        ({"question_id": ["q"]}, {}, "question_id"),
        ({"question_id": {}}, {}, "question_id"),
        ({"verdict": ["passed"]}, {}, "verdict"),
        ({"trajectory": 5}, {}, "trajectory"),
        ({"metrics": []}, {}, "metrics"),
        ({"metrics": {"m": {"outcome": "score", "value": 1e308}}}, {}, "metrics.m.value"),
        ({"metrics": {"m": {"outcome": ["score"], "value": 1}}}, {}, "metrics.m.outcome"),
        ({}, {"measured": {"m": MEASURED | {"threshold": [1]}}}, "measured.m.threshold"),
        ({}, {"measured": {"m": MEASURED | {"version": {}}}}, "measured.m.version"),
        ({}, {"measured": {"m": MEASURED | {"lowest": 1e308}}}, "measured.m.lowest"),
        ({}, {"judge": {"calls": "x"}}, "judge.calls"),
        ({}, [], "all of it"),
    ],
)
def test_the_folder_of_another_is_refused_in_one_line(
    line: dict[str, Any], results: Any, place: str, tmp_path: Path, spangrade: Spangrade
) -> None:
    (tmp_path / "sessions.jsonl").write_text(json.dumps(LINE | line) + "\n")
    (tmp_path / "results.json").write_text(json.dumps(results))
    done = spangrade("compare", "--all", tmp_path, tmp_path)
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert f"`grade --out` wrote: {place}: " in done.err[0]


@pytest.fixture
def without_scipy(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which neither scipy nor numpy is found, as where they are not installed."""

    def hide() -> None:
        for module in ("numpy", "scipy"):
            monkeypatch.setitem(sys.modules, module, None)

    return hide


@pytest.mark.parametrize("condition", ["regressed > 0", "regressed > 5", "passed worse by 5 points"])
def test_without_scipy_a_condition_on_what_passed_is_decided_as_with_it(
    graded: Path, condition: str, spangrade: Spangrade, without_scipy: Callable[[], None]
) -> None:
    arguments = ("compare", "base", "new", "--fail-if", condition)
    with_it = spangrade(*arguments)
    without_scipy()
    done = spangrade(*arguments)
    assert (done.code, conditions_of(done)) == (with_it.code, conditions_of(with_it))
    assert done.code == {"regressed > 0": 1, "regressed > 5": 0}.get(condition, 4)


def test_without_scipy_shares_have_their_intervals_and_the_rest_says_what_to_install(
    graded: Path, spangrade: Spangrade, without_scipy: Callable[[], None]
) -> None:
    def compared() -> dict[str, Any]:
        found = as_json(spangrade("compare", "--all", "base", "new", "--format", "json"))
        return {metric["metric"]: metric for metric in found["metrics"]}

    with_it = compared()
    without_scipy()
    found = compared()
    assert (found.keys(), found["passed"]) == (with_it.keys(), with_it["passed"])
    untested = {name for name, each in found.items() if "scipy" in (each["too_little_data"] or "")}
    assert untested == {"cost", "latency_metrics", "tool_utilization"}
    said = f"this p-value needs scipy: {to_install('stats')}"
    assert {found[name]["too_little_data"] for name in untested} == {said}
    for name in found.keys() - untested:  # tested in a family of as many, of which none shows more
        expected = with_it[name]["first"], with_it[name]["change"]
        assert (found[name]["first"], found[name]["change"]) == expected
