"""`spangrade grade --dry-run`: other gates, a new metric, a changed golden set; nothing is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import command_line
import pytest
from command_line import Spangrade
from made_once import copy_folder
from otlp_sessions import Call, Said, write_golden, write_sessions

import spangrade as package
from spangrade import Gates
from spangrade.tracer.store import Store

TOOLS = ("find", "check", "refund", "mail")


def question(name: str, *tools: str, topic: str = "money") -> dict[str, Any]:
    return {
        "id": name,
        "user_inputs": [name],
        "metadata": {"topic": topic},
        "reference_tool_interactions": [{"tool_name": tool} for tool in tools],
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    golden(folder, question("whole", *TOOLS), question("most", *TOOLS), question("half", *TOOLS))
    calls = {"whole": TOOLS, "most": TOOLS[:3], "half": TOOLS[:2], "chat": ()}
    sessions = [(name, [Said(name, calls=list(map(Call, made)))]) for name, made in calls.items()]
    write_sessions(folder / "spans.jsonl", sessions)
    command_line.spangrade("import", "spans.jsonl", cwd=folder)
    grade = (
        "grade",
        "golden.json",
        "--metric",
        "tools:recall>=1",
        "--no-reference",
        "reference_tool_interactions",
    )
    assert command_line.spangrade(*grade, "--run", "main", cwd=folder).returncode == 1
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run `main` by recall >= 1: `whole` makes 4 of 4 calls, `most` 3 of 4, `half` 2 of 4."""
    copy_folder(made, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def golden(folder: Path, *questions: dict[str, Any]) -> None:
    write_golden(folder / "golden.json", *questions)
    value = json.loads((folder / "golden.json").read_text())
    for one, made in zip(value["golden_questions"], questions, strict=True):
        one["metadata"] = made["metadata"]
    (folder / "golden.json").write_text(json.dumps(value))


def regraded(spangrade: Spangrade, *arguments: str) -> Any:
    done = spangrade("grade", "--dry-run", "--of-run", "main", *arguments, "--format", "json")
    assert done.err == []
    value = json.loads("\n".join(done.out))
    assert done.code == value["exit_code"]
    return value


def flips(value: Any) -> list[tuple[str | None, str | None, str | None]]:
    return [(one["session_id"], one["before"], one["after"]) for one in value["changes"]]


def test_a_lower_threshold_lets_sessions_pass_and_nothing_is_stored(
    folder: Path, spangrade: Spangrade
) -> None:
    tables = (
        "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM scores), (SELECT count(*) FROM verdicts)"
    )
    before = spangrade("sql", tables, "--format", "json").out
    value = regraded(spangrade, "--metric", "tools:recall>=0.6")
    assert flips(value) == [("most", "failed", "passed")]
    assert value["changes"][0]["reason_before"].startswith("tools:recall: 0.75, expected >= 1")
    assert value["verdicts_before"] == {"passed": 1, "failed": 2, "unmatched": 1}
    assert value["verdicts"] == {"passed": 2, "failed": 1, "unmatched": 1}
    assert (value["exit_code"], value["notes"]) == (1, [])
    assert spangrade("sql", tables, "--format", "json").out == before


def test_the_run_itself_does_not_change(folder: Path, spangrade: Spangrade) -> None:
    value = regraded(spangrade)
    assert (flips(value), value["notes"], value["verdicts"]) == ([], [], value["verdicts_before"])


def test_the_terminal_shows_what_changes_and_the_exit_code_is_that_of_the_new_verdicts(
    folder: Path, spangrade: Spangrade
) -> None:
    done = spangrade("grade", "--dry-run", "--of-run", "main", "--metric", "tools:recall>=0.5")
    assert done.code == 0
    assert [line for line in done.out if "half" in line or "most" in line] != []
    assert done.out[-3:] == [
        "before, in main: 2 failed, 1 passed, 1 unmatched",
        "now: 4 sessions: 3 passed, 1 unmatched",
        "2 verdicts change",
    ]


def test_a_changed_golden_set_is_compared_with_the_same_sessions(folder: Path, spangrade: Spangrade) -> None:
    golden(folder, question("whole", *TOOLS, "thank"), question("half", *TOOLS[:2]), question("new", "find"))
    unchanged = regraded(spangrade)
    assert flips(unchanged) == []  # by the questions as the run had them
    (note,) = unchanged["notes"]
    assert note.startswith(
        "golden.json has changed since the run, which is graded by the questions that it had"
    )
    value = regraded(spangrade, "golden.json")
    assert sorted(flips(value), key=str) == [
        ("half", "failed", "passed"),
        ("most", "failed", "unmatched"),
        ("whole", "passed", "failed"),
        (None, None, "inconclusive"),
    ]


def test_a_new_metric_of_a_file_gates(folder: Path, spangrade: Spangrade) -> None:
    (folder / "brief.py").write_text(
        "from spangrade import Score, metric\n\n\n"
        "@metric(threshold=3, higher_is_better=False, unit='calls', scale=(0, 99))\n"
        "def brief(session):\n"
        "    return Score(len(session.tool_interactions), None, 'calls')\n"
    )
    value = regraded(spangrade, "--metric", "tools:recall>=0.5", "--metrics-file", "brief.py")
    assert sorted(flips(value)) == [
        ("chat", "unmatched", "passed"),
        ("half", "failed", "passed"),
        ("most", "failed", "passed"),
        ("whole", "passed", "failed"),
    ]


def test_what_the_run_was_graded_by_is_applied_again(folder: Path, spangrade: Spangrade) -> None:
    (folder / "size.py").write_text(
        "from spangrade import Score, metric\n\n\n"
        "@metric(threshold=3, unit='calls', scale=(0, 99))\n"
        "def size(session):\n"
        "    return Score(len(session.tool_interactions), None, 'calls')\n"
    )
    golden(folder, question("whole", *TOOLS), question("most", *TOOLS), question("half", "x", topic="other"))
    by = ("--metrics-file", "size.py", "--require-match", "--where", "metadata.topic = money")
    by += ("--no-references", "--judge-threshold", "0.7", "--judge-votes", "3")
    spangrade("grade", "golden.json", *by, "--run", "main")
    value = regraded(spangrade)
    assert (flips(value), value["notes"]) == ([], [])
    assert value["verdicts"] == {"passed": 2}
    run = package.open(folder / "spangrade.duckdb").regrade("main")
    by_run = run.stored.graded_by
    assert by_run is not None
    assert (by_run.metrics_files, by_run.where) == (("size.py",), "metadata.topic = money")
    assert (by_run.require_match, by_run.reply_threshold, by_run.judge_votes) == (True, 0.7, 3)
    assert run.run.require_match
    text = (folder / "size.py").read_text()
    (folder / "size.py").write_text(text.replace("threshold=3", "threshold=4"))
    changed = regraded(spangrade, "golden.json")  # its third question is left out again
    assert (flips(changed), changed["notes"]) == (
        [("most", "passed", "failed")],
        ["size: another version than in the run"],
    )


def test_a_metric_that_is_gone_is_refused_unless_it_is_left_out_on_purpose(
    folder: Path, spangrade: Spangrade
) -> None:
    (folder / "size.py").write_text(
        "from spangrade import Score, metric\n\n\n"
        "@metric(threshold=9, unit='calls', scale=(0, 99))\n"
        "def size(session):\n"
        "    return Score(len(session.tool_interactions), None, 'calls')\n"
    )
    opened = package.open(folder / "spangrade.duckdb")

    @package.metric(threshold=1)
    def made_here(session: package.Session) -> package.Score:
        return package.Score(0.0, None, "never")

    opened.grade("golden.json", gates=Gates([made_here], metrics_files="size.py"), name="main")
    (folder / "size.py").unlink()
    refused = [
        (
            "spangrade: main: the run's metric made_here is gone (no such file: size.py): "
            "give its metrics file, or leave it out on purpose (without made_here)"
        )
    ]
    done = spangrade("grade", "--dry-run", "--of-run", "main")
    assert (done.code, done.out, done.err) == (2, [], refused)
    half = spangrade("grade", "--dry-run", "--of-run", "main", "--without", "made_here")
    assert (half.code, half.out) == (2, [])
    assert "the run's metric size is gone (no such file: size.py)" in half.err[0]
    value = regraded(spangrade, "--without", "made_here", "--without", "size")
    assert value["notes"] == [
        "made_here: the run's metric is left out, as asked",
        "size: the run's metric is left out, as asked",
    ]
    wrong = spangrade("grade", "--dry-run", "--of-run", "main", "--without", "tools:recall")
    assert (wrong.code, wrong.err) == (
        2,
        ["spangrade: options.grade.without tools:recall: expected a metric of the run that is gone"],
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mian",), 'no run "mian"'),
        (("main", "--metric", "tool_recal>=1"), 'metric "tool_recal" is not known'),
        (("main", "missing.json"), "missing.json"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    arguments: tuple[str, ...], message: str, folder: Path, spangrade: Spangrade
) -> None:
    done = spangrade("grade", "--dry-run", "--of-run", *arguments)
    assert done.code == 2
    (line,) = done.err
    assert message in line


def test_a_run_of_an_earlier_version_says_what_it_does_not_record(folder: Path, spangrade: Spangrade) -> None:
    with Store.open(folder / "spangrade.duckdb") as store:
        store.query("UPDATE runs SET require_match = NULL")
    value = regraded(spangrade)
    (note,) = value["notes"]
    assert note.startswith(
        "the run does not record its condition on questions, references that are not gates"
    )
