"""The settings: where they come from, which of them is in force, and what a mistake is reported as."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Spangrade
from paths import ROOT, SAMPLE

from spangrade import InputError, RunOptions
from spangrade.evaluator.settings import ProjectSettings, load_settings
from spangrade.tracer.base.settings import Loaded

AGENT = """
import spangrade
provider = spangrade.configure("shop")
with spangrade.session("c"), spangrade.turn("mail ann@example.com") as turn:
    turn.respond("done")
provider.shutdown()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in (*ProjectSettings.variables.values(), "SPANGRADE_CONFIG"):
        monkeypatch.setenv(variable, "")  # an option may set it, and monkeypatch restores it
    folder = tmp_path / "project" / "agents"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder.parent


def in_force(loaded: Loaded[ProjectSettings]) -> dict[str, tuple[object, str]]:
    return {name: (value, source) for name, value, source in loaded.rows() if source != "default"}


def test_without_a_file_all_values_are_defaults() -> None:
    loaded = load_settings()
    assert (loaded.file, in_force(loaded)) == (None, {})
    assert {name: value for name, value, _ in loaded.rows()} == {
        "database": "spangrade.duckdb",
        "gates": [],
        "metrics": [],
        "metrics_files": [],
        "alerts": [],
        "rules": [],
        "ignore_scopes": None,
        "judge.model": None,
        "judge.max_calls": None,
        "judge.max_cost_usd": None,
        "judge.votes": 1,
        "judge.threshold": None,
        "judge.required": None,
        **dict.fromkeys(
            f"run.{name}"
            for name in ("agent", "http", "http_body", "http_reply", "openai", "model", "dataset")
        ),
        **dict.fromkeys(
            f"run.{name}"
            for name in ("rate", "max_cost", "agent_name", "user_model", "max_user_cost", "wait")
        ),
        "run.repeat": 1,
        "run.concurrency": 1,
        "run.timeout": "2m",
        "references.no_reference": [],
        "references.no_references": False,
        "references.require_match": False,
        "references.root_agent_name": None,
        "references.requested_calls": None,
        "sampling.share": None,
        "sampling.limit": None,
        "redaction.mode": "off",
        "redaction.keys": [],
        "prices": None,
        "dialects": None,
    }


def test_the_example_of_the_page_is_read_as_toml_json_and_part_of_pyproject(project: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    file = project / "spangrade.toml"
    file.write_text(example)
    from_toml = load_settings().settings
    assert from_toml.database == str(project / "shop.duckdb")
    assert from_toml.metrics_files == [str(project / "our_metrics.py")]
    assert (from_toml.sampling.share, from_toml.redaction.text) == (0.05, "mask:*iban*")
    assert from_toml.run.agent == f"{project}/shop/agent.py:answer"
    assert from_toml.run.dataset == str(project / "golden.json")
    assert from_toml.run.options() == RunOptions(3, 8, "2m", "60/m", 5.0, wait="10s")
    file.unlink()

    values = from_toml.model_dump(exclude={"database", "metrics_files"})
    values["run"] |= {"agent": "shop/agent.py:answer", "dataset": "golden.json"}
    (project / "spangrade.json").write_text(
        json.dumps({**values, "database": "shop.duckdb", "metrics_files": ["our_metrics.py"]})
    )
    assert load_settings().settings == from_toml
    (project / "spangrade.json").unlink()

    tables = re.sub(r"^(\[+)", r"\1tool.spangrade.", example, flags=re.MULTILINE)
    (project / "pyproject.toml").write_text(f"[tool.spangrade]\n{tables}")
    assert load_settings().settings == from_toml


def test_the_nearest_file_counts_and_variables_come_before_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "spangrade.toml").write_text('gates = ["cost<=1"]\n[judge]\nvotes = 3\nmax_calls = 9\n')
    (project.parent / "spangrade.toml").write_text('gates = ["cost<=2"]\nmetrics = ["cost"]\n')
    (project / "agents" / "pyproject.toml").write_text("[tool.other]\n")
    monkeypatch.setenv("SPANGRADE_JUDGE_VOTES", "5")
    monkeypatch.setenv("SPANGRADE_METRICS", "cost, turns")
    monkeypatch.setenv("SPANGRADE_REDACT", "hash:*ssn*")
    file = str(project / "spangrade.toml")
    assert in_force(load_settings()) == {
        "gates": (["cost<=1"], file),
        "metrics": (["cost", "turns"], "$SPANGRADE_METRICS"),
        "judge.max_calls": (9, file),
        "judge.votes": (5, "$SPANGRADE_JUDGE_VOTES"),
        "redaction.mode": ("hash", "$SPANGRADE_REDACT"),
        "redaction.keys": (["*ssn*"], "$SPANGRADE_REDACT"),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gate = []", 'unknown key "gate"; did you mean "gates"?'),
        ("[judge]\nvote = 1", 'unknown key "judge.vote"; did you mean "votes"?'),
        ("[sampling]\nx = 1", 'unknown key "sampling.x"; expected one of share, limit'),
        ("[run]\nrepeats = 3", 'unknown key "run.repeats"; did you mean "repeat"?'),
        ("[run]\nrepeat = 0", "run.repeat: expected 1 or more, found 0"),
        ("[run]\ntimeout = '2 min'", "run.timeout: expected a duration such as 30s, 5m or 1h, found '2 min'"),
        ("[run]\nagent = 'a:b'\nhttp = 'http://h'", "run: expected one agent, found agent and http"),
        ("[run]\nmodel = 'm'", "run: expected openai and model together"),
        ("database = 3", "database: expected a text, found 3"),
        ("gates = 'cost<=1'", 'gates: expected a list, found "cost<=1"'),
        ("gates = ['cost']", "gates[0]: expected NAME>=THRESHOLD or NAME<=THRESHOLD, found 'cost'"),
        ("judge = 'gemini'", 'judge: expected a table, found "gemini"'),
        ("[judge]\nmax_calls = '5'", 'judge.max_calls: expected a whole number, found "5"'),
        ("[judge]\nmax_calls = -1", "judge.max_calls: expected 0 or more, found -1"),
        (
            "[judge]\nvotes = 2",
            "judge.votes: expected an odd number, so that there is a majority, found 2",
        ),
        (
            "[sampling]\nshare = '5 percent'",
            "sampling.share: expected a share such as 5% or 0.05, found '5 percent'",
        ),
        (
            "[sampling]\nshare = 5",
            "sampling.share: expected a share above 0 and up to 100%, found 5",
        ),
        ("[redaction]\nmode = 'x'", "redaction.mode: expected 'off', 'mask' or 'hash', found \"x\""),
        ("[[prices]]\nmodel = 'a'\ninput_per_million = 1", "prices[0].output_per_million: missing"),
        ("gates = ", "not valid TOML: Invalid value (at end of document)"),
    ],
)
def test_a_mistake_is_one_line(spangrade: Spangrade, project: Path, text: str, problem: str) -> None:
    file = project / "spangrade.toml"
    file.write_text(text)
    assert spangrade("doctor", "--all") == (2, [], [f"spangrade: {file}: {problem}"])
    with pytest.raises(InputError, match=re.escape(problem)):
        load_settings(file)


def test_a_mistake_in_a_variable_names_it(monkeypatch: pytest.MonkeyPatch, spangrade: Spangrade) -> None:
    monkeypatch.setenv("SPANGRADE_JUDGE_MAX_CALLS", "many")
    problem = 'spangrade: $SPANGRADE_JUDGE_MAX_CALLS: judge.max_calls: expected a whole number, found "many"'
    assert spangrade("doctor", "--all") == (2, [], [problem])


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may give a file away")
def test_a_file_of_another_user_is_used_only_if_it_is_named(project: Path) -> None:
    file = project / "spangrade.toml"
    file.write_text("metrics = ['cost']")
    os.chown(file, 12345, 12345)
    with pytest.raises(InputError, match="it belongs to another user: it is used only if it is named"):
        load_settings()
    assert load_settings(file).settings.metrics == ["cost"]


def test_doctor_shows_each_value_and_its_source(spangrade: Spangrade, project: Path) -> None:
    file = project / "spangrade.toml"
    file.write_text("[judge]\nvotes = 3\n")
    done = spangrade("doctor", "--all", "--db", "other.duckdb", "--format", "json")
    shown = json.loads("\n".join(done.out))
    (found,) = [one for one in shown["checked"] if one["what"] == "settings"]
    assert found["state"] == str(file)
    rows = {one["setting"]: (one["value"], one["source"]) for one in shown["settings"]}
    assert rows["database"] == ("other.duckdb", "--db")
    assert rows["judge.votes"] == (3, str(file))
    assert rows["judge.model"] == (None, "default")
    lines = [re.split(r"\s*│\s*", line)[1:4] for line in spangrade("doctor", "--all").out]
    assert ["judge.votes", "3", str(file)] in lines
    assert ["database", "spangrade.duckdb", "default"] in lines


def test_commands_use_the_file_and_options_come_before_it(spangrade: Spangrade, project: Path) -> None:
    (project / "spangrade.toml").write_text('database = "shop.duckdb"\ngates = ["tool_success_rate>=0.9"]\n')
    done = spangrade("grade", SAMPLE)
    assert (done.code, done.out[0], (project / "shop.duckdb").exists()) == (
        1,
        "4 sessions: 2 passed, 2 failed",
        True,
    )
    done = spangrade("grade", SAMPLE, "--metric", "cost<=1")
    assert (done.code, done.out[0]) == (0, "4 sessions: 4 passed")
    named = project / "named.toml"
    named.write_text('gates = ["cost<=0.0000001"]')
    done = spangrade("grade", SAMPLE, "--config", named, "--db", project / "shop.duckdb")
    assert (done.code, done.out[0]) == (1, "4 sessions: 4 failed")


def test_an_agent_writes_to_the_database_of_the_file_and_redacts(project: Path, spangrade: Spangrade) -> None:
    file = project / "spangrade.toml"
    file.write_text('database = "shop.duckdb"\n[redaction]\nmode = "mask"\n')
    environment = {key: value for key, value in os.environ.items() if value}
    subprocess.run([sys.executable, "-c", AGENT], check=True, env=environment)
    query = "SELECT user_input FROM turns"
    done = spangrade("sql", query, "--db", project / "shop.duckdb", "--format", "json")
    assert json.loads("\n".join(done.out)) == [{"user_input": "mail [email]"}]
    subprocess.run([sys.executable, "-c", AGENT], check=True, env={**environment, "SPANGRADE_DB": "b.duckdb"})
    assert Path("b.duckdb").exists()


def test_an_agent_without_a_file_does_not_load_pydantic() -> None:
    program = (
        "import sys, spangrade; spangrade.configure('a', db='x.duckdb'); sys.exit('pydantic' in sys.modules)"
    )
    environment = {key: value for key, value in os.environ.items() if value}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
