"""What was derived in another way is derived again: by other sources, prices or dialects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from spangrade.evaluator.derive.sync.fingerprint import fingerprint

PRINT = "from spangrade.evaluator.derive.sync.fingerprint import fingerprint; print(fingerprint())"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package as a wheel installs it."""
    package = tmp_path / "site" / "spangrade"
    shutil.copytree(ROOT / "src" / "spangrade", package, ignore=shutil.ignore_patterns("[cedt]*"))
    for folder in ("tracer", "converters", "evaluator"):
        shutil.copytree(ROOT / folder, package / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return package.parent


def computed(*folders: Path) -> str:
    before = filter(None, [os.environ.get("PYTHONPATH")])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, folders), *before])}
    done = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def release(folder: Path, name: str, version: str, entry_points: str = "") -> Path:
    """Install the metadata of a distribution in a folder."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
    return folder


def test_a_wheel_has_the_fingerprint_of_its_checkout(installed: Path) -> None:
    assert computed(installed) == fingerprint()


@pytest.mark.exhaustive
def test_only_sources_that_decide_what_is_derived_count(installed: Path) -> None:
    for name in ("evaluator/metrics/usage.py", "tracer/receiver/http.py", "evaluator/derive/notes.txt"):
        with (installed / "spangrade" / name).open("a") as module:
            module.write("# more\n")
    assert computed(installed) == fingerprint()
    different = {fingerprint()}
    for name in ("derive/sync/sql/new_traces.sql", "derive/cost.py", "session.py"):
        with (installed / "spangrade" / "evaluator" / name).open("a") as module:
            module.write("-- more\n" if name.endswith(".sql") else "# more\n")
        different.add(computed(installed))
    assert len(different) == 4


def test_other_prices_count(tmp_path: Path) -> None:
    assert computed(release(tmp_path, "genai-prices", "999.0")) != fingerprint()


def test_the_dialects_of_other_distributions_count_with_their_version(tmp_path: Path) -> None:
    dialect = "[spangrade.dialects]\nacme = acme.dialect:DIALECT\n"
    other = "[spangrade.readers]\nacme = acme:read\n"
    assert computed(release(tmp_path / "0", "acme", "1.0", other)) == fingerprint()
    one, two = (computed(release(tmp_path / v, "acme", v, dialect)) for v in ("1.0", "1.1"))
    assert len({one, two, fingerprint()}) == 3
