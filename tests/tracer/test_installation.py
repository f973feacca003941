"""The command that adds an extra, by how spangrade was installed: it can be pasted, and works."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path

import pytest
from paths import ROOT

from spangrade.tracer.base import installation

REQUIRES = ("duckdb>=1.5", 'starlette<2,>=0.46; extra == "view"', "nh3>=0.2.18; extra == 'view'")
PACKAGES = ["nh3>=0.2.18", "starlette<2,>=0.46"]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"url": "file://{there}", "dir_info": {"editable": True}}, ["-e", "{there}[view]"]),
        ({"url": "file://{there}", "dir_info": {}}, ["{there}[view]"]),
        ({"url": "file:///gone", "dir_info": {}}, PACKAGES),
        ({"url": "file:///gone/a.whl", "archive_info": {}}, PACKAGES),
        ({"url": "https://host/a.whl", "archive_info": {}}, ["spangrade[view] @ https://host/a.whl"]),
        (
            {"url": "https://host/a.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
            ["spangrade[view] @ git+https://host/a.git@0a1b"],
        ),
        (None, PACKAGES),
    ],
    ids=["editable", "folder", "folder gone", "wheel gone", "wheel", "repository", "index"],
)
def test_the_command_names_what_it_was_installed_from(
    record: object, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "a checkout"
    folder = tmp_path / "spangrade-1.0.dist-info"
    there.mkdir()
    folder.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: spangrade", "Version: 1.0"]
    lines += [f"Requires-Dist: {one}" for one in REQUIRES]
    (folder / "METADATA").write_text("\n".join(lines))
    if record is not None:
        text = json.dumps(record).replace("{there}", str(there).replace(" ", "%20"))
        (folder / "direct_url.json").write_text(text)
    monkeypatch.setattr(metadata, "distribution", lambda _: metadata.PathDistribution(folder))
    command = installation.to_install("view")
    assert shlex.split(command) == [
        "pip",
        "install",
        *(word.replace("{there}", str(there)) for word in words),
    ]


def test_in_a_checkout_a_traceback_names_the_files_that_git_knows() -> None:
    assert Path(installation.__file__) == ROOT / "tracer/base/installation.py"
