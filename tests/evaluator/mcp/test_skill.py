"""The skill for coding agents: its form, and every command in it, in the order in which it stands there."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from command_line import run
from paths import ROOT

SKILL = ROOT / "examples" / "skills" / "spangrade" / "SKILL.md"
AGENT = """
import spangrade

def answer(text):
    with spangrade.agent("shop"):
        with spangrade.tool("look_up") as look_up:
            look_up.arguments({"order_id": "A1"})
            look_up.result({"status": "shipped"})
    return "It is FOUND"
"""
METRIC = """
from spangrade import Score, metric

@metric(threshold=1)
def replies_are_short(session):
    return Score(1.0 if len(session.final_response) < 80 else 0.0)
"""
SETTINGS = '[run]\nagent = "agent.py:answer"\ndataset = "golden.json"\n'
# The commands that do not end with 0: a lack that can be fixed is found, and sessions of the first run fail.
CODES = {
    "spangrade lint --dataset golden.json": 4,
    "spangrade grade golden.json --metrics-file mine.py --metric replies_are_short": 1,
}


def commands() -> list[str]:
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", SKILL.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines()]


def test_the_skill_is_what_the_command_prints_and_has_the_common_form():
    text = SKILL.read_text(encoding="utf-8")
    assert "\n".join(run("mcp", "--instructions").out) == text.rstrip("\n")
    head = yaml.safe_load(text.split("---\n")[1])
    assert head.keys() == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9-]{1,64}", head["name"])
    assert head["name"] == SKILL.parent.name
    assert len(head["description"]) <= 1024
    assert len(text.splitlines()) < 500


@pytest.mark.exhaustive
def test_every_command_of_the_skill_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    questions = [
        {"id": name, "user_inputs": [name], "required_texts": [text]}
        for name, text in (("where", "shipped"), ("when", "found"))
    ]
    Path("golden.json").write_text(json.dumps({"golden_questions": questions}))
    Path("agent.py").write_text(AGENT)
    Path("mine.py").write_text(METRIC)
    Path("spangrade.toml").write_text(SETTINGS)
    for name in ("before", "after"):
        assert run("run", "--name", name).code == 1
    failed = json.loads("\n".join(run("sessions", "--failed", "--format", "json").out))[-1]
    values = {"RUN": "before", "SESSION": failed["session_id"], "QUESTION": "where"}
    for line in commands():
        if line == "spangrade run --failed":  # the fix
            Path("agent.py").write_text(AGENT.replace("FOUND", "found and shipped"))
        sys.modules.pop("agent", None)
        words = [values.get(word, word) for word in shlex.split(line)]
        assert words[0] == "spangrade"
        done = run(*words[1:])
        assert done.code == CODES.get(line, 0), (line, done.err, done.out)
