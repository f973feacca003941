"""What a run is compared with: resolved once, before the agent is asked, and never the run itself."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from command_line import Done, Spangrade
from made_once import new_database
from otlp_sessions import Said, write_sessions
from paths import ROOT

import spangrade as sg
from spangrade.evaluator.apps.server.pages.compare_page import compare_page

QUESTIONS = 8  # as many as the condition `worse` needs to show a loss
AGENT = """import spangrade

def answer(text):
    with spangrade.llm_call("gpt-4o-mini", provider="openai") as call:
        call.usage(input_tokens=TOKENS, output_tokens=10)
    return "Order A1 is STATE."
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with golden questions, as the current folder."""
    monkeypatch.chdir(tmp_path)
    questions = [
        {"id": f"a{n}", "user_inputs": f"Where is {n}?", "required_texts": ["shipped"]}
        for n in range(QUESTIONS)
    ]
    Path("golden.json").write_text(json.dumps(questions))
    git = ("git", "-c", "user.email=a@b.example", "-c", "user.name=n")
    Path(".gitignore").write_text("*\n")
    for command in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "one")):
        subprocess.run([*git, *command], check=True)
    return tmp_path


def write_agent(state: str, name: str = "agent") -> None:
    tokens = "100" if state == "shipped" else "900"
    Path(f"{name}.py").write_text(AGENT.replace("STATE", state).replace("TOKENS", tokens))


def run(spangrade: Spangrade, *options: str, agent: str = "agent") -> Done:
    return spangrade("run", f"{agent}.py:answer", "golden.json", *options)


@pytest.mark.parametrize(
    ("named", "baseline"),
    [((), "latest"), (("--name", "main"), "main"), ((), "branch:main"), (("--out", "kept"), "kept")],
)
@pytest.mark.parametrize("gate", ["regressed > 0", "worse"])
@pytest.mark.exhaustive
def test_a_baseline_is_that_of_before_the_run(
    named: tuple[str, ...], baseline: str, gate: str, spangrade: Spangrade
) -> None:
    write_agent("shipped", "whole")
    write_agent("gone", "broken")
    assert run(spangrade, *named, agent="whole").code == 0
    done = run(spangrade, *named, "--compare", baseline, "--fail-if", gate, agent="broken")
    assert done.code == 1
    assert f"{QUESTIONS} regressed, 0 fixed" in "\n".join(done.out)
    assert "no difference shown" not in "\n".join(done.out)


@pytest.mark.parametrize(
    ("baseline", "command"),
    [
        ("latest", "`spangrade run AGENT DATASET` makes the first"),
        ("branch:main", "with the branch main checked out makes the first"),
        ("other", "`spangrade runs` lists them"),
    ],
)
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_baseline_that_no_run_has_is_refused_before_the_agent_is_asked(
    baseline: str, command: str, is_empty: bool, spangrade: Spangrade
) -> None:
    Path("agent.py").write_text("def answer(text):\n    open('asked', 'w').close()\n    return 'shipped'\n")
    if is_empty:
        new_database(Path("spangrade.duckdb"))
    done = run(spangrade, "--compare", baseline, "--fail-if", "regressed > 0")
    assert done.code == 2
    assert command in done.err[-1]
    assert not Path("asked").exists()


@pytest.fixture
def stored(spangrade: Spangrade) -> list[str]:
    """The ids of two runs, `one` that passed and then `two` that failed, the files of which are in `out`."""
    write_agent("shipped", "whole")
    write_agent("gone", "broken")
    run(spangrade, "--name", "one", agent="whole")
    run(spangrade, "--name", "two", "--out", "out", agent="broken")
    rows = sg.open("spangrade.duckdb").sql("SELECT run_id FROM runs ORDER BY graded_at")
    return [str(row["run_id"]) for row in rows]


@pytest.mark.exhaustive
def test_two_names_of_one_run_are_refused_at_every_door(stored: list[str], spangrade: Spangrade) -> None:
    _, last = stored
    for other in ("two", last, last[:9], "latest", "branch:main", "out", "out/results.json"):
        done = spangrade("compare", "two", other)
        assert (done.code, "compared with itself" in done.err[-1]) == (2, True), other
    assert spangrade("show", "two", "--baseline", last).code == 2
    db = sg.open("spangrade.duckdb")
    with pytest.raises(sg.InputError, match="compared with itself"):
        db.compare("latest", last)
    with pytest.raises(sg.InputError, match="compared with itself"):
        db.compare(db.baseline("latest"), "two")
    assert db.compare(db.baseline("one"), "two", fail_if="regressed > 0").exit_code() == 1
    with db.stored.reading() as store, pytest.raises(sg.InputError, match="compared with itself"):
        compare_page(store, {"a": "two", "b": last})


@pytest.mark.exhaustive
def test_other_agents_and_questions_and_rules_are_said_first(stored: list[str], spangrade: Spangrade) -> None:
    first, _ = stored
    with duckdb.connect("spangrade.duckdb") as connection:
        connection.execute("UPDATE runs SET rules = '0.0.1 abc' WHERE run_id = ?", [first])
    done = spangrade("compare", "one", "two", "--fail-if", "regressed > 0")
    again = f"`spangrade grade golden.json --of-run {first[:12]} --name one`"
    assert (done.code, done.out[0]) == (4, f"one judged by other rules: {again}")
    (gate,) = [
        line for line in done.out if line.startswith("exit code 4: condition 'regressed > 0': inconclusive")
    ]
    assert gate.endswith(f"one judged by other rules: {again}")
    assert spangrade(*shlex.split(again.strip("`"))[1:]).code == 0
    done = spangrade("compare", "one", "two", "--fail-if", "regressed > 0")
    assert (done.code, done.out[0]) == (1, f"two: {QUESTIONS} sessions: {QUESTIONS} failed")
    questions = json.loads(Path("golden.json").read_text())[:3]
    Path("golden.json").write_text(json.dumps([*questions, {**questions[0], "id": "new"}]))
    done = run(spangrade, "--compare", "one", "--name", "three", agent="whole")
    assert done.out[0].startswith("one has other questions: 5 in one alone, 1 in three alone")


@pytest.mark.exhaustive
def test_a_session_that_became_inconclusive_did_not_break(spangrade: Spangrade) -> None:
    (question,) = json.loads(Path("golden.json").read_text())[:1]
    question["forbidden_tools"] = ["refund"]
    Path("golden.json").write_text(json.dumps([question]))
    known = "def answer(text):\n    return {'text': 'shipped', 'tool_calls': []}\n"
    Path("whole.py").write_text(known)
    Path("silent.py").write_text("def answer(text):\n    return 'shipped'\n")
    assert run(spangrade, agent="whole").code == 0
    done = run(spangrade, agent="silent")
    assert (done.code, done.out[1].partition(": ")[2]) == (4, "0 regressed, 0 fixed, 1 not known any more")
    assert run(spangrade, "--name", "whole", agent="whole").code == 0
    done = run(spangrade, "--compare", "whole", agent="silent")
    assert done.out[1].partition(": ")[2].startswith("0 regressed, 0 fixed, 1 not known any more")


PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "examples/skills/spangrade/SKILL.md",
)
ABOUT_CI = ("README.md", "comparing.md")


def gated_commands() -> list[str]:
    """Return the commands of pages that decide by an exit code in CI, and those of the examples."""
    found = []
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        lines = [line.partition("   #")[0].strip() for line in lines]
        found += [line for line in lines if line.startswith("spangrade ") and "--fail-if" in line]
        if page.name in ABOUT_CI:
            found += [line for line in lines if line.startswith("spangrade run agent.py")]
    for example in ("github-actions.yml", "gitlab-ci.yml"):
        text = (ROOT / "examples" / example).read_text(encoding="utf-8")
        found += re.findall(r"spangrade grade evals.*", text)
    return list(dict.fromkeys(found))


@pytest.mark.exhaustive
@pytest.mark.parametrize("line", gated_commands())
def test_every_command_that_the_pages_say_for_ci_is_red_for_a_broken_agent(
    line: str, spangrade: Spangrade
) -> None:
    """`main` is the run of an agent that works, `candidate` that of a broken one, as the pages name them."""
    Path("spangrade.toml").write_text('[run]\nagent = "agent.py:answer"\ndataset = "golden.json"\n')
    write_agent("shipped", "whole")
    write_agent("gone")
    run(spangrade, "--name", "main", agent="whole")
    subprocess.run(["git", "checkout", "-q", "-b", "change"], check=True)
    if line.startswith("spangrade compare"):
        run(spangrade, "--name", "candidate")
    Path("evals").mkdir()
    Path("evals/golden.json").write_text(Path("golden.json").read_text())
    write_sessions(Path("evals/spans.jsonl"), [("s1", [Said("Where is 0?", "Order A1 is gone.")])])
    if "started_at" in line:  # two days, of which the second is that of a broken agent
        for day, state in (("2026-06-01", "shipped"), ("2026-06-02", "gone")):
            said = [
                (f"{state} {n}", [Said(f"Where is {n}?", f"Order A1 is {state}.")]) for n in range(QUESTIONS)
            ]
            start_ns = int(datetime.fromisoformat(f"{day}T09:00Z").timestamp()) * 10**9
            write_sessions(Path(f"{state}.jsonl"), said, start_ns=start_ns)
            spangrade("grade", "golden.json", "--spans", f"{state}.jsonl")
    assert spangrade(*shlex.split(line.replace(" RUN ", " main "))[1:]).code == 1


def action_script() -> str:
    action: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (grade,) = [step for step in action["runs"]["steps"] if step.get("id") == "grade"]
    return str(grade["run"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("gate", ["regressed > 0", "worse", ""])
def test_the_action_is_red_for_a_broken_agent(gate: str, spangrade: Spangrade, tmp_path: Path) -> None:
    write_agent("shipped")
    run(spangrade, "--out", "spangrade-baseline")
    write_agent("gone")
    Path("bin").mkdir()
    command = Path("bin/spangrade")
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spangrade "$@"\n')
    command.chmod(0o755)
    given = {
        "AGENT": "agent.py:answer",
        "DATASET": "golden.json",
        "SPANS": "",
        "DB": "spangrade.duckdb",
        "OPTIONS": "",
        "FAIL_IF": gate,
        "INCONCLUSIVE": "fail",
        "OUT": "out",
        "RUN_NAME": "branch",
        "GITHUB_OUTPUT": "outputs",
        "GITHUB_STEP_SUMMARY": "summary",
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
    }
    subprocess.run(["bash", "-eo", "pipefail", "-c", action_script()], env=given, check=False)
    assert "exit-code=1" in Path("outputs").read_text()
