"""`.ci/audit` fails unless every dependency was audited: pip-audit itself does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

# As pip-audit 2.10 prints them.
CLEAN = [
    {"name": "orjson", "version": "3.11.4", "vulns": []},
    {"name": "typing-extensions", "version": "4.15.0", "vulns": []},
]
SKIPPED = [
    {"name": name, "skip_reason": f"Dependency not found on PyPI and could not be audited: {name} (1.0)"}
    for name in ("orjson", "typing-extensions")
]
VULNERABLE = {
    "name": "orjson",
    "version": "3.11.4",
    "vulns": [{"id": "PYSEC-2024-40", "fix_versions": ["3.11.5"], "aliases": [], "description": "…"}],
}


@pytest.mark.parametrize(
    ("report", "pip_audits_code", "code", "said"),
    [
        (CLEAN, 0, 0, "audit: 2 dependencies, none with a known vulnerability\n"),
        (
            SKIPPED,
            0,
            1,
            (
                "audit: pinned.txt: 2 of 2 dependencies were not audited: orjson, typing-extensions"
                " (Dependency not found on PyPI and could not be audited: orjson (1.0))\n"
            ),
        ),
        (
            [CLEAN[0], SKIPPED[1]],
            0,
            1,
            (
                "audit: pinned.txt: 1 of 2 dependencies were not audited: typing-extensions"
                " (Dependency not found on PyPI and could not be audited: typing-extensions (1.0))\n"
            ),
        ),
        (CLEAN[:1], 0, 1, "audit: pinned.txt: 1 of 2 dependencies were not audited: typing-extensions\n"),
        ([VULNERABLE, CLEAN[1]], 1, 1, "audit: orjson 3.11.4: PYSEC-2024-40, fixed in 3.11.5\n"),
        (CLEAN, 2, 1, "audit: pinned.txt: pip-audit exited with 2\n"),
        (
            None,
            1,
            1,
            (
                "audit: pinned.txt: nothing was audited: pip-audit exited with 1: "
                "ERROR:pip_audit._cli:Could not connect\n"
            ),
        ),
    ],
    ids=["clean", "all skipped", "one skipped", "one left out", "vulnerable", "broken", "no report"],
)
def test_the_audit_passes_only_if_every_dependency_was_audited(
    tmp_path: Path, report: list[dict[str, Any]] | None, pip_audits_code: int, code: int, said: str
) -> None:
    pinned = tmp_path / "pinned.txt"
    pinned.write_text(
        "orjson==3.11.4\n    # via spangrade\ntyping_extensions==4.15.0 ; python_version < '3.13'\n"
    )
    stand_in = tmp_path / "bin" / "pip-audit"
    stand_in.parent.mkdir()
    text = "" if report is None else json.dumps({"dependencies": report, "fixes": []})
    stand_in.write_text(
        f"#!{sys.executable}\nimport sys\nprint({text!r})\n"
        f"sys.stderr.write('ERROR:pip_audit._cli:Could not connect\\n')\nsys.exit({pip_audits_code})\n"
    )
    stand_in.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "audit"), str(pinned)],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stdout + done.stderr) == (code, said)
