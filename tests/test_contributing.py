"""What CONTRIBUTING.md adds to a copy of the source: each change is of at most two files, and works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from made_once import copy_of_sample
from paths import ROOT

FOLDERS = ("src", "tracer", "converters", "evaluator")
DIALECTS = {
    name: next(
        block
        for block in re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
        if "DIALECT = Dialect(" in block
    )
    for name, page in (("nimbus", "CONTRIBUTING.md"), ("acme", "docs/reading.md"))
}
CHANGES = re.findall(r"^```diff\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE)


def files_of(change: str) -> list[tuple[str, str]]:
    """Return the files of a change, each with its lines."""
    parts = re.split(r"^--- (.*)\n", change, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def apply(change: str, source: Path) -> None:
    """Put the lines of a change in place of those that it names, each of which a file has once."""
    for name, lines in files_of(change):
        file = source / name
        before = "".join(f"{line[1:]}\n" for line in lines.splitlines() if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines.splitlines() if line[0] in " +")
        text = file.read_text() if file.exists() else ""
        assert text.count(before) == 1 if before else text == ""
        file.write_text(text.replace(before, after) if before else after)


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the source with all changes."""
    copy = tmp_path_factory.mktemp("source")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True)  # with what is compiled
    shutil.copy(ROOT / "pyproject.toml", copy)
    for change in CHANGES:
        apply(change, copy)
    for name, source in DIALECTS.items():
        (copy / "converters" / "spans" / "dialects" / f"{name}.py").write_text(source)
    return copy


def ran(source: Path, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(source / "src")}
    command = [sys.executable, "-P", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


@pytest.mark.exhaustive
def test_a_page_that_contributing_adds_is_served(changed: Path, tmp_path: Path) -> None:
    copy_of_sample(tmp_path / "s.duckdb")
    program = (
        "from pathlib import Path\n"
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\n"
        "from serving import serving\n"
        "with serving(Path('s.duckdb')) as served:\n"
        "    print('<li>gemini-2.5-flash</li>' in served.get('/models').text)\n"
    )
    done = ran(changed, tmp_path, "-c", program)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.exhaustive
def test_what_contributing_adds_works(changed: Path, tmp_path: Path) -> None:
    copy_of_sample(tmp_path / "s.duckdb")
    spangrade = ("-m", "spangrade")
    db = ("--db", "s.duckdb")
    assert "Only sessions of this service." in ran(changed, tmp_path, *spangrade, "grade", "--help").stdout
    assert ran(changed, tmp_path, *spangrade, "count", "--format", "csv", *db).stdout == "sessions\n4\n"
    program = (
        "import spangrade\n"
        "db = spangrade.open('s.duckdb')\n"
        "for service in ('customer_service', 'another'):\n"
        "    run = db.grade(gates='turns_taken<=1', select=spangrade.Selection(service=service))\n"
        "    print(len(run.sessions), run.metrics['turns_taken'].mean)\n"
        "print(list(db.sql('SELECT min(roots) AS roots FROM sessions')))\n"
    )
    done = ran(changed, tmp_path, "-c", program)
    assert done.stdout.splitlines() == ["4 2.25", "0 None", "[{'roots': 2}]"], done.stderr
    gated = ("--metric", "turns_taken<=1", "--service", "another", "--format", "json")
    graded = ran(changed, tmp_path, *spangrade, "grade", *db, *gated)
    assert json.loads(graded.stdout)["grades"] == []


def test_what_the_pages_add_is_in_the_style_of_the_rest(changed: Path) -> None:
    files = {name for change in CHANGES for name, _ in files_of(change) if name.endswith(".py")}
    files |= {f"converters/spans/dialects/{name}.py" for name in DIALECTS}
    for command in (("check", "-q"), ("format", "-q", "--check")):
        done = ran(changed, changed, "-m", "ruff", *command, *sorted(files))
        assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_a_dialect_of_20_lines_is_whole(changed: Path, tmp_path: Path) -> None:
    assert max(len(source.splitlines()) for source in DIALECTS.values()) <= 25
    program = (
        "from spangrade.converters.spans.dialects import acme, nimbus\n"
        "from spangrade.converters.spans.dialects.genai import reader\n"
        "from spangrade.tracer.span import Span\n"
        "def show(module, **attributes):\n"
        "    span = Span('t', '1', None, 'find', '', 1, 2, attributes=attributes, scope_name='acme')\n"
        "    assert module.DIALECT.claims(span)\n"
        "    call = reader(module.DIALECT)(span, ())\n"
        "    print(type(call).__name__, call.name, call.arguments, call.result)\n"
        "show(nimbus, **{'nimbus.type': 'job', 'nimbus.in': '{\"q\": 1}', 'nimbus.out': '[2]'})\n"
        "show(acme, **{'acme.step': 'use', 'acme.tool': 'look', 'acme.result': '5'})\n"
    )
    done = ran(changed, tmp_path, "-c", program)
    assert done.stdout.splitlines() == ['ToolUse find {"q":1} [2]', "ToolUse look None 5"], done.stderr
