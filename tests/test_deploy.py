"""deploy/: its files start commands of spangrade with options that they have, and what they name is there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Spangrade
from paths import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
UNITS = sorted((DEPLOY / "systemd").iterdir())
BINARY = "/opt/spangrade/bin/spangrade"


def loaded(name: str) -> dict[str, Any]:
    found = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def instructions(name: str) -> list[str]:
    """Return what follows an instruction of the Dockerfile, each time that it is there."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def commands() -> list[list[str]]:
    """Return all commands that the files start, without the program's name."""
    found = [json.loads(instructions("CMD")[-1])]
    for service in loaded("compose.yaml")["services"].values():
        command = service.get("command", [])
        if service["image"].startswith("spangrade") and "entrypoint" not in service:
            found.append(command)
        found += [shlex.split(line)[1:] for line in re.findall(r"spangrade [^;]*", " ".join(command))]
    for unit in UNITS:
        found += [shlex.split(line)[1:] for line in re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.M)]
    lines = (DEPLOY / "compose.yaml").read_text(encoding="utf-8").splitlines()
    for line in lines:  # of the comment at the top
        found += [shlex.split(one)[1:] for one in re.findall(r"(?<=run --rm )spangrade [^)]*", line)]
    return found


def test_what_is_started_is_a_command_with_options_that_it_has(spangrade: Spangrade) -> None:
    started = commands()
    assert {one[0] for one in started} == {"serve", "view", "lake"}
    refused = {shlex.join(one): done.err for one in started if (done := spangrade(*one, "--help")).code}
    assert refused == {}


def test_a_container_has_no_rights_and_writes_into_its_volume_alone() -> None:
    file = loaded("compose.yaml")
    for name, service in file["services"].items():
        if service["image"].startswith("spangrade"):
            assert (service["read_only"], service["cap_drop"], service["security_opt"]) == (
                True,
                ["ALL"],
                ["no-new-privileges:true"],
            ), name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in file["volumes"], (
                volume
            )
        for other in service.get("depends_on", ()):
            assert other in file["services"]
    assert instructions("USER") == ["10001:10001"]
    assert instructions("VOLUME") == ["/data"]
    assert len(instructions("HEALTHCHECK")) == 1
    variables = instructions("ENV")[0]
    assert "SPANGRADE_DATA=/data" in variables
    assert "SPANGRADE_CACHE_DIR=/data/" in variables


def test_an_image_is_built_from_all_that_the_wheel_has() -> None:
    sources = re.search(r"^\[tool.hatch.build.targets.wheel\]\nonly-include = (.*)$", toml(), re.MULTILINE)
    assert sources is not None
    needed = {name.partition("/")[0] for name in json.loads(sources[1])}
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert needed | {"pyproject.toml", "README.md", "LICENSE"} <= {
        one[1:] for one in allowed if one[0] == "!"
    }


def toml() -> str:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_collector_uses_what_its_file_defines() -> None:
    file = loaded("collector.yaml")
    service = file["service"]
    for pipeline in service["pipelines"].values():
        for part in ("receivers", "processors", "exporters"):
            assert set(pipeline[part]) <= set(file[part])
    assert set(service["extensions"]) <= set(file["extensions"])
    environment = loaded("compose.yaml")["services"]["collector"]["environment"]
    text = (DEPLOY / "collector.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{env:(\w+)\}", text)) == set(environment)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8")
        assert text.count(BINARY) == 1
        (tmp_path / unit.name).write_text(text.replace(BINARY, sys.executable), encoding="utf-8")
    verify = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(verify, capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "spangrade" in line]
    assert (done.returncode, ours) == (0, [])
