"""Sessions of two runs of an agent: they repeat each other only if both declare the same version."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from command_line import run as spangrade

from spangrade import Selection
from spangrade import open as open_database

SHOP = """
    import spangrade
    from pathlib import Path

    @spangrade.tool
    def look_up(order):
        return {"status": "sent"}

    def answer(text):
        with spangrade.agent("shop"):
            if not Path(__file__).with_name("lazy").exists():
                look_up(text[-1])
            return "Sent."
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with an agent and three questions, which is the current one."""
    (tmp_path / "repeating.py").write_text(textwrap.dedent(SHOP))
    reference = {"reference_tool_interactions": [{"tool_name": "look_up", "input_arguments": {"order": "*"}}]}
    questions = [
        {
            "id": f"q{n}",
            "user_inputs": [f"Where is {n}"],
            "agents_evaluated": ["shop"],
            "reference_data": reference,
        }
        for n in "123"
    ]
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": questions}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("repeating", None)


def graded(*options):
    done = spangrade("grade", "golden.json", "--format", "json", *options)
    return json.loads("\n".join(done.out))


@pytest.mark.exhaustive
def test_runs_of_an_agent_that_was_edited_in_between_repeat_nothing(shop):
    run = ("run", "repeating.py:answer", "golden.json", "--repeat", "2", "--name")
    first = spangrade(*run, "main", "--all")
    assert first.code == 0
    assert "all repeats agree: `--fail-if 'regressed > 0'` fits in a comparison with this run" in "\n".join(
        first.out
    )
    (shop / "lazy").touch()
    assert spangrade(*run, "lazy").code == 1
    repeats = graded()["repeats"]
    assert (repeats["questions"], repeats["sessions"], repeats["runs"]) == (3, 12, 2)
    assert (repeats["flaky"], repeats["condition"]) == ([], "regressed > 0")
    assert [one["pass_hat_k"]["mean"] for one in repeats["rates"]] == [0.5, 0.5]


@pytest.mark.exhaustive
def test_the_sessions_of_one_run_are_graded_again_and_stored(shop):
    run = ("run", "repeating.py:answer", "golden.json", "--name")
    assert spangrade(*run, "main").code == 0
    (shop / "lazy").touch()
    assert spangrade(*run, "lazy").code == 1
    again = spangrade("grade", "golden.json", "--of-run", "main", "--run", "again")
    assert (again.code, again.out[0]) == (0, "3 sessions: 3 passed")
    golden = json.loads((shop / "golden.json").read_text())
    (shop / "golden.json").write_text(json.dumps({"golden_questions": golden["golden_questions"][:1]}))
    as_before = spangrade("grade", "--of-run", "main", "--run", "as-before")
    assert (as_before.code, as_before.out[0]) == (0, "3 sessions: 3 passed")
    assert "golden.json has changed since the run" in as_before.err[-1]
    with open_database(shop / "spangrade.duckdb") as db:
        runs = {one["name"]: one["sessions"] for one in db.list_runs()}
        assert {str(one.verdict) for one in db.grade(select=Selection(of_run="lazy")).sessions} == {"failed"}
    assert runs == {"main": 3, "lazy": 3, "again": 3, "as-before": 3}
    unknown = spangrade("grade", "golden.json", "--of-run", "mian")
    assert (unknown.code, unknown.err[-1]) == (
        2, 'spangrade: no run "mian" in spangrade.duckdb: `spangrade runs` lists them'
    )  # fmt: skip


@pytest.mark.exhaustive
def test_runs_of_one_declared_version_repeat_each_other(shop):
    for name in ("main", "lazy"):
        (shop / name).touch()
        command = [
            sys.executable,
            "-m",
            "spangrade",
            "run",
            "repeating.py:answer",
            "golden.json",
            "--name",
            name,
        ]
        environment = {**os.environ, "OTEL_RESOURCE_ATTRIBUTES": "service.version=7"}
        assert subprocess.run(command, env=environment).returncode == (name == "lazy")
    repeats = graded()["repeats"]
    assert (repeats["questions"], repeats["runs"], repeats["condition"]) == (3, 1, "worse")
    assert [one["question"] for one in repeats["flaky"]] == ["q1", "q2", "q3"]
