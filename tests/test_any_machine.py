"""Every module can be imported where a system, or an installation, lacks what it may lack."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

POSIX = ("fcntl", "grp", "pwd", "resource", "termios", "tty")
# What extras bring, and each is missing somewhere.
EXTRAS = (
    "anthropic",
    "grpc",
    "markdown_it",
    "mcp",
    "nh3",
    "openai",
    "prometheus_client",
    "scipy",
    "starlette",
    "uvicorn",
)
# What stands beside the core, and needs some of them at once.
APPS = ("spangrade.evaluator.apps.", "spangrade.tracer.receiver.", "spangrade.tracer.base.http_server")

IMPORT_ALL = """
import importlib, json, pkgutil, sys

hidden = set(sys.argv[1].split(","))

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in hidden:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hide())
import spangrade
failed = {}
for module in pkgutil.walk_packages(spangrade.__path__, "spangrade."):
    if module.name != "spangrade.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            failed[module.name] = error.name
print(json.dumps(failed))
"""


def failed(*hidden: str) -> dict[str, str]:
    """Return the modules that cannot be imported, each with what it lacks."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, ",".join(hidden)], capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_no_module_needs_what_only_posix_has_and_none_of_the_core_what_an_extra_brings() -> None:
    found = failed(*POSIX, *EXTRAS)
    assert set(found.values()) <= set(EXTRAS)
    assert [name for name in found if not name.startswith(APPS)] == []
    assert "spangrade.tracer.receiver.http" in found  # it hides them indeed


@pytest.mark.exhaustive
@pytest.mark.parametrize("hidden", EXTRAS)
def test_what_needs_an_extra_says_which_package(hidden: str) -> None:
    found = failed(hidden)
    assert {one for one in found.values() if one.partition(".")[0] != hidden} == set()
    assert [name for name in found if not name.startswith(APPS)] == []
