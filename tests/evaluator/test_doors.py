"""One question, one answer: the same grade through every door has the same verdicts, exit codes and words."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from doors import GATES, SPECS, Asked, of_grades, of_run
from made_once import copy_of, copy_of_sample, made_once
from paths import SAMPLE

import spangrade as package
from spangrade import Gates, GradeSpec, JudgeOptions, Selection
from spangrade.evaluator.apps.lake.grading import grade_slice, grading_by
from spangrade.tracer.store import Store

WATCHED = {"since", "sample"}


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a database of the sample, two of whose sessions have a score from outside."""
    monkeypatch.chdir(tmp_path)

    def make(path: Path) -> None:
        opened = package.open(copy_of_sample(path))
        opened.score("conversation-1", {"thumbs": 1}, by="ann")
        opened.score("conversation-2", {"thumbs": 0}, by="ann")

    return copy_of(made_once("sample-scored", make), tmp_path / "s.duckdb")


@pytest.mark.parametrize("asked", SPECS.values(), ids=SPECS)
@pytest.mark.short_form("asked", 17)
def test_each_door_gives_the_same_verdicts_and_exit_code(
    asked: Asked, db: Path, spangrade: Spangrade, tmp_path: Path
) -> None:
    (tmp_path / "spangrade.toml").write_text(asked.settings)
    opened = package.open(db)
    run = opened.grade(asked.spec)
    expected = of_run(run)
    assert expected

    done = spangrade("grade", "--db", db, *asked.options, "--format", "json")
    printed = json.loads("\n".join(done.out))
    assert (done.code, of_grades(printed["grades"])) == (run.exit_code, expected)
    arguments = opened.grade(
        asked.dataset,
        gates=Gates(**asked.gates) if asked.gates else None,
        select=Selection(**asked.select),
    )
    assert of_run(arguments) == expected

    answered = {name: verdict for name, verdict in expected.items() if str(name).startswith("conversation-")}
    watched = asked.options if asked.dataset is None else ["--dataset", *asked.options]
    if asked.select.keys() <= WATCHED and asked.settings.find("limit") < 0:
        assert spangrade("serve", "--only", "grade", "--db", db, *watched, "--once", "--idle", "0s").code == 0
        rows = opened.sql(
            "SELECT session_id, verdict FROM verdicts SEMI JOIN watched USING (run_id, session_id)"
        ).rows()
        assert {row["session_id"]: row["verdict"] for row in rows} == answered
    if asked.dataset is not None:
        audit = spangrade("audit", "--db", db, *asked.options, "--mutants", "1", "--format", "json")
        assert json.loads("\n".join(audit.out))["sessions"] == list(expected.values()).count("passed")
    if asked.dataset is not None and not asked.select:
        lint = spangrade("lint", "--db", db, "--dataset", *asked.options, "--format", "json")
        found = {
            one["session_id"] for one in json.loads("\n".join(lint.out)) if one["code"] == "not_compared"
        }
        inconclusive = {name for name, verdict in expected.items() if verdict == "inconclusive"}
        assert found <= inconclusive


@pytest.mark.exhaustive
def test_a_test_of_pytest_gives_the_same_verdict(db: Path, tmp_path: Path) -> None:
    (tmp_path / "spangrade.toml").write_text(GATES)
    (tmp_path / "test_grades.py").write_text(
        "import spangrade\n"
        f"DB = spangrade.open({str(db)!r})\n"
        f"def test_of_the_settings(): assert DB.grade({str(SAMPLE)!r}).exit_code == 1\n"
        f"def test_alone(): assert DB.grade({str(SAMPLE)!r}, gates='cost<=1').exit_code == 0\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_grades.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout


MISTAKES = {
    "votes": (
        ("grade", "--judge-votes", "2"),
        lambda: JudgeOptions(votes=2),
        "[judge]\nvotes = 2\n",
        ("$SPANGRADE_JUDGE_VOTES: judge.votes", "judge.votes", "judge.votes"),
        "expected an odd number, so that there is a majority, found 2",
    ),
    "share": (
        ("grade", "--sample", "0"),
        lambda: Selection(sample="0"),
        "[sampling]\nshare = '0'\n",
        ("--sample", "select.sample", "sampling.share"),
        "expected a share above 0 and up to 100%, found '0'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
@pytest.mark.short_form("mistake", 2)
def test_a_mistake_is_named_in_the_words_of_the_door(
    mistake: Any, db: Path, spangrade: Spangrade, tmp_path: Path
) -> None:
    options, build, settings, names, problem = mistake
    assert spangrade(*options, "--db", db) == (2, [], [f"spangrade: {names[0]}: {problem}"])
    with pytest.raises(package.InputError) as refused:
        build()
    assert str(refused.value) == f"{names[1]}: {problem}"
    file = tmp_path / "spangrade.toml"
    file.write_text(settings)
    with pytest.raises(package.InputError) as refused:
        package.open(db)
    assert str(refused.value) == f"{file}: {names[2]}: {problem}"


@pytest.mark.parametrize(
    ("options", "grade", "name", "parameter", "problem"),
    [
        (
            (),
            {},
            "--metric",
            "gates",
            "grade by what? Expected a dataset, metrics, or gates in spangrade.toml",
        ),
        (
            ("--metric", "cost<=1", "--where", "no_such = 1"),
            {"gates": "cost<=1", "select": "no_such = 1"},
            "--where",
            "select.where",
            (
                'Binder Error: Referenced column "no_such" not found in FROM clause! Candidate bindings: '
                '"tool_s", "not_understood", "cost_usd", "system_instruction", "cost_unknown"'
            ),
        ),
        (
            ("--metric", "cost<=1", "--session", "nobody"),
            {"gates": "cost<=1", "select": Selection("nobody")},
            "--session",
            "select.sessions",
            "no session 'nobody' to grade: `spangrade sessions` lists them",
        ),
        (
            ("--metric", "cost<=1", "--latest-per-question"),
            {"gates": "cost<=1", "select": Selection(latest_per_question=True)},
            "options.grade.latest_per_question",
            "select.latest_per_question",
            "it is about golden questions: give a dataset",
        ),
    ],
)
@pytest.mark.short_form("options", 2)
def test_what_cannot_be_graded_is_named_in_the_words_of_the_door(
    options: Sequence[str],
    grade: Mapping[str, Any],
    name: str,
    parameter: str,
    problem: str,
    db: Path,
    spangrade: Spangrade,
) -> None:
    assert spangrade("grade", "--db", db, *options).err == [f"spangrade: {name}: {problem}"]
    with pytest.raises(package.InputError) as refused:
        package.open(db).grade(**grade)
    assert str(refused.value) == f"{parameter}: {problem}"


@pytest.mark.parametrize(
    ("command", "call", "name", "parameter", "problem"),
    [
        (
            ("import", "missing.jsonl", "--strict"),
            lambda db: db.import_files("missing.jsonl", strict=True),
            "--strict",
            "strict",
            "nothing imported: not everything could be read",
        ),
        (
            ("sql", "SELECT count(*) FROM range(10000000000)", "--timeout", "0.1"),
            lambda db: db.sql("SELECT count(*) FROM range(10000000000)", timeout_s=0.1),
            "--timeout",
            "timeout_s",
            "stopped after 0.1 s: select less, or raise the limit",
        ),
        (
            ("grade", "--dry-run", "--of-run", "latest", "--without", "cost"),
            lambda db: db.regrade("latest", without="cost"),
            "options.grade.without cost",
            "without cost",
            "expected a metric of the run that is gone",
        ),
        (
            ("trend", "passed", "--since", "soon"),
            lambda db: db.trend("passed", since="soon"),
            "--since",
            "since",
            "'soon' is not a time: write 2026-01-31, 2026-01-31T12:00Z or 30d",
        ),
        (
            ("delete", "--before", "soon"),
            lambda db: db.delete(before="soon"),
            "--before",
            "before",
            "'soon' is not a time: write 2026-01-31, 2026-01-31T12:00Z or 30d",
        ),
        (
            ("label", "conversation-1", "pass", "--by", " "),
            lambda db: db.label("conversation-1", "pass", by=" "),
            "--by",
            "by",
            "expected the name of a person",
        ),
    ],
)
@pytest.mark.short_form("command", 3)
def test_a_method_names_its_parameter_and_a_command_its_option(
    command: Sequence[str],
    call: Callable[[package.Database], object],
    name: str,
    parameter: str,
    problem: str,
    db: Path,
    spangrade: Spangrade,
) -> None:
    opened = package.open(db)
    opened.grade(gates="cost<=1")
    done = spangrade(*command, "--db", db)
    assert (done.code, done.err[-1]) == (2, f"spangrade: {name}: {problem}")
    with pytest.raises(package.InputError) as refused:
        call(opened)
    assert str(refused.value) == f"{parameter}: {problem}"


@pytest.mark.parametrize("share", [-0.5, 1.5])
def test_a_share_to_compare_is_from_0_to_1(share: float, db: Path) -> None:
    with pytest.raises(package.InputError, match=r"^min_compared: expected a share from 0 to 1, found "):
        package.open(db).compare("latest", "latest", min_compared=share)


def test_a_score_is_a_number_a_truth_or_a_text(db: Path) -> None:
    with pytest.raises(
        package.InputError, match=r"^score \"thumbs\": expected a number, true, false or a text"
    ):
        package.open(db).score("conversation-1", {"thumbs": [1]})  # type: ignore[dict-item]


@pytest.mark.exhaustive
def test_without_settings_neither_a_file_nor_a_variable_counts(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spangrade.toml").write_text(GATES)
    monkeypatch.setenv("SPANGRADE_METRICS", "token_usage<=1")
    assert package.open(db).grade(SAMPLE).verdicts["failed"] == 4
    monkeypatch.delenv("SPANGRADE_METRICS")
    assert package.open(db).grade(SAMPLE).verdicts["failed"] == 2
    assert package.open(db, settings=None).grade(SAMPLE).exit_code == 0
    other = tmp_path / "other.toml"
    other.write_text('gates = ["cost<=0"]')
    assert package.open(db, settings=other).grade(SAMPLE).verdicts["failed"] == 4


def test_what_a_lake_is_graded_by_goes_to_other_processes_and_gives_the_same_verdicts(db: Path) -> None:
    spec = GradeSpec(SAMPLE, Gates("tool_success_rate>=0.9", no_reference="reference_response"))
    grading = pickle.loads(pickle.dumps(grading_by(spec)))  # noqa: S301 (our own)
    with Store.open(db) as store:
        graded = grade_slice(store, grading)
    expected = {verdict: count for verdict, count in package.open(db).grade(spec).verdicts.items() if count}
    assert (graded.verdicts, expected) == (expected, {"passed": 2, "failed": 2})
