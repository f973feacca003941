"""The examples for CI: they are YAML, and what they run exists and works on the sample."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from paths import ROOT, SAMPLE

EXAMPLES = [ROOT / "examples" / name for name in ("github-actions.yml", "gitlab-ci.yml")]


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a YAML value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts(one)


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_commands_of_an_example_run_and_leave_the_reports_that_it_names(
    example: Path, tmp_path: Path
) -> None:
    job = yaml.safe_load(example.read_text(encoding="utf-8"))
    lines = [line for text in texts(job) for line in text.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("spangrade ")]
    assert commands
    shutil.copytree(SAMPLE, tmp_path / "evals")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPANGRADE_")}
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert (done.returncode, done.stderr) == (0, "")
    named = {word for line in lines for word in line.split() if word.startswith("reports/")}
    assert "reports/junit.xml" in named
    assert [name for name in named if not (tmp_path / name).exists()] == []


def test_a_github_step_that_reports_runs_after_a_failed_grade_too() -> None:
    (job,) = yaml.safe_load(EXAMPLES[0].read_text(encoding="utf-8"))["jobs"].values()
    names = [step.get("name") for step in job["steps"]]
    for step in job["steps"][names.index("Grade") + 1 :]:
        assert step["if"] == "${{ !cancelled() }}"
    assert "continue-on-error" not in job["steps"][names.index("Grade")]


def test_the_gitlab_job_keeps_the_reports_of_a_failed_grade() -> None:
    (job,) = yaml.safe_load(EXAMPLES[1].read_text(encoding="utf-8")).values()
    assert (job["artifacts"]["when"], job["artifacts"]["reports"]) == (
        "always",
        {"junit": "reports/junit.xml"},
    )
    assert "allow_failure" not in job
