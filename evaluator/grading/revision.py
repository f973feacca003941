"""The commit that is checked out where a run is graded."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

_TIMEOUT_S = 5.0


class Revision(NamedTuple):
    """A git commit, whether tracked files differ from it, and the branch; None without a repository."""

    commit: str | None = None
    dirty: bool | None = None
    branch: str | None = None


def revision(folder: Path) -> Revision:
    """Return the commit that is checked out in a folder. The branch is None if none is checked out."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return Revision()
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    branch = _git(folder, "symbolic-ref", "--short", "--quiet", "HEAD")
    return Revision(commit, None if changes is None else bool(changes), branch)


def run_name(folder: Path) -> str:
    """Return the name of a run that has none of its own: the branch and the commit, as in `main@1f2e3d4c`."""
    found = revision(folder)
    if found.commit is None:
        return "run"
    branch = re.sub(r"[^\w.+:/-]", "-", found.branch or "commit").lstrip(".+:/-")
    return f"{branch[:80]}@{found.commit[:8]}{'+' if found.dirty else ''}"


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 (constant arguments)
            ["git", "-C", str(folder), *arguments],  # noqa: S607 (the user's own git)
            capture_output=True,
            check=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()
