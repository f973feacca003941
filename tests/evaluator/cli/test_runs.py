"""Named runs: what the database keeps of them, `spangrade runs`, and how a run is found again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import command_line
import pytest
from command_line import Done, Spangrade
from made_once import copy_folder
from otlp_sessions import Said, write_golden, write_sessions

from spangrade import InputError
from spangrade.evaluator.grading.run_list import find_run_id
from spangrade.tracer.store import Store

QUESTION = {"id": "q1", "user_inputs": ["Hi"], "reference_trajectory": ["agent"]}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    write_golden(folder / "golden.json", QUESTION)
    write_sessions(folder / "spans.jsonl", [("s1", [Said("Hi", "Good day!")])])
    for arguments in (("init", "-q", "-b", "trunk"), ("add", "golden.json"), ("commit", "-qm", "Add golden")):
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *identity, *arguments], check=True, cwd=folder)
    named = ("--run", "base", "--tag", "prompt=v1", "--tag", "model=small")
    command_line.spangrade(
        "grade", "golden.json", "--spans", "spans.jsonl", *named, "--metric", "cost<=1", cwd=folder
    )
    (folder / "golden.json").write_text((folder / "golden.json").read_text() + "\n")
    command_line.spangrade("grade", "golden.json", cwd=folder)
    return folder


@pytest.fixture
def graded(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database in a git repository, of two runs: `base`, which has tags, and one without a name."""
    monkeypatch.chdir(tmp_path)
    copy_folder(repository, tmp_path)
    return tmp_path / "spangrade.duckdb"


def listed(done: Done) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads("\n".join(done.out))
    return rows


def test_runs_are_listed_with_what_tells_them_apart(graded: Path, spangrade: Spangrade) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=graded.parent)
    second, first = listed(spangrade("runs", "--format", "json"))
    assert [first[key] for key in ("name", "tags", "metrics", "sessions")] == [
        "base", {"prompt": "v1", "model": "small"}, ["cost<=1"], 1
    ]  # fmt: skip
    assert [second[key] for key in ("name", "tags", "metrics", "sessions")] == [None, {}, [], 1]
    for run, dirty in ((first, False), (second, True)):
        assert (run["git_commit"], run["git_dirty"], run["git_branch"]) == (
            head.stdout.strip(),
            dirty,
            "trunk",
        )
    assert first["dataset_digest"] == second["dataset_digest"]  # a line end more is not another question
    assert len(listed(spangrade("runs", "--limit", "1", "--format", "json"))) == 1
    lines = spangrade("runs").out
    assert any("base" in line and "prompt=v1" in line for line in lines)


def test_the_last_run_of_a_branch_is_a_baseline(graded: Path, spangrade: Spangrade) -> None:
    done = spangrade("compare", "branch:trunk", "base", "--format", "json")
    value = json.loads("\n".join(done.out))
    with Store.open(graded) as store:
        (newest,) = store.query("SELECT run_id FROM runs ORDER BY graded_at DESC LIMIT 1")
    assert (done.code, value["first"]["run_id"], value["second"]["run"]) == (0, newest[0], "base")


def test_the_metrics_of_a_run_are_kept_as_they_were(graded: Path) -> None:
    with Store.open(graded) as store:
        rows = store.query(
            "SELECT metric, split_part(version, ' ', 1), threshold, higher_is_better, unit, lowest, highest "
            "FROM run_metrics JOIN runs USING (run_id) WHERE name = 'base'"
        )
    metrics = {row[0]: row[1:] for row in rows}
    assert metrics["cost"] == ("spangrade", 1.0, False, "USD", 0.0, float("inf"))
    assert metrics["trajectory_accuracy"] == ("spangrade", 1.0, True, "share", 0.0, 1.0)
    assert metrics["token_usage"] == ("spangrade", None, False, "tokens", 0.0, float("inf"))


def test_a_metric_of_a_file_has_the_digest_of_the_file_as_its_version(
    graded: Path, spangrade: Spangrade
) -> None:
    source = "from spangrade import metric\n\n@metric()\ndef polite(session):\n    return 1.0\n"
    (graded.parent / "own.py").write_text(source)
    spangrade("grade", "golden.json", "--run", "own", "--metrics-file", "own.py")
    with Store.open(graded) as store:
        ((version,),) = store.query("SELECT version FROM run_metrics WHERE metric = 'polite'")
    assert len(version) == 64


def test_a_run_is_found_by_its_name_its_branch_its_id_and_as_the_latest(graded: Path) -> None:
    with Store.open(graded) as store:
        (first,), (second,) = store.query("SELECT run_id FROM runs ORDER BY graded_at")
        assert find_run_id(store, "base") == first
        assert find_run_id(store, "latest") == find_run_id(store, "branch:trunk") == second
        assert find_run_id(store, second[:6]) == second
        for unknown in ("bass", "branch:main"):
            with pytest.raises(InputError, match=f'no run "{unknown}" in .*: `spangrade run'):
                find_run_id(store, unknown)
        with pytest.raises(InputError, match="give more of the id"):
            find_run_id(store, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tag", "prompt"), "--tag: expected KEY=VALUE, found 'prompt'"),
        (("--tag", "a=1", "--tag", "a=2"), "--tag a: two values, 1 and 2; expected one"),
        (
            ("--run", "a b"),
            "--name 'a b': expected letters, digits and . _ - + @ : /, at most 100 characters",
        ),
    ],
)
@pytest.mark.short_form("arguments", 3)
def test_names_and_tags_that_cannot_be_used_are_refused(
    arguments: tuple[str, ...], message: str, graded: Path, spangrade: Spangrade
) -> None:
    done = spangrade("grade", "golden.json", *arguments)
    assert (done.code, done.out) == (2, [])
    assert done.err[-1].endswith(message)
