"""How many packages each dependency of `pyproject.toml` brings: `python tests/dependencies.py` prints it.

In the environment that runs it: what is not installed there is not counted.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires

from paths import ROOT

NOT_INSTALLED_FOR_USERS = {"dev", "docs"}


def direct() -> Iterator[tuple[str, str]]:
    """Yield each dependency by name, with its extra: empty for one that is always installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from ((name_of(one), "") for one in project["dependencies"])
    for extra, needed in project["optional-dependencies"].items():
        if extra not in NOT_INSTALLED_FOR_USERS:
            yield from ((name_of(one), extra) for one in needed)


def brought_by(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return what a package needs, and what that needs, without extras; raise if it is not installed."""
    for one in requires(name) or []:
        needed = name_of(one)
        if "extra ==" in one or needed in seen:
            continue
        seen |= {needed}
        try:
            seen = brought_by(needed, seen)
        except PackageNotFoundError:  # on another platform or Python
            seen -= {needed}
    return seen


def name_of(requirement: str) -> str:
    """Return the normalized name in a requirement."""
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found
    return found[0].lower().replace("_", "-")


if __name__ == "__main__":
    for dependency, extra in sorted(direct(), key=lambda one: (one[1], one[0])):
        try:
            count = str(len(brought_by(dependency)))
        except PackageNotFoundError:
            count = "not installed"
        print(f"{extra or '(always)':12} {dependency:36} {count}")
