"""The first verdict of the README: the eight lines, run by a shell as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Spangrade
from paths import ROOT


def test_the_eight_lines_of_the_readme_are_red_and_green_once_the_reply_is_right(
    spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## The first verdict")[2]
    lines, reason = re.search(r"```sh\n(.*?)```.*?`(required_texts: .*?)`", text, re.DOTALL).groups()  # type: ignore[union-attr]
    assert len(lines.splitlines()) == 8
    known = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COLUMNS": "200",
    }
    if "PYTHONPATH" in os.environ:
        known["PYTHONPATH"] = os.environ["PYTHONPATH"]
    done = subprocess.run(
        ["bash", "-c", lines],
        cwd=tmp_path,
        env=known,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, reason in done.stdout, done.stderr) == (1, True, ""), done
    assert (tmp_path / "spangrade.duckdb").stat().st_size < 1_500_000
    agent = tmp_path / "agent.py"
    agent.write_text(agent.read_text().replace("is on its way", "is shipped"))
    monkeypatch.chdir(tmp_path)
    assert spangrade("run", "agent.py:answer", "golden.json").code == 0
