"""The commit that is checked out where a run is graded."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import datetime
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


def base_branch(folder: Path) -> str | None:
    """Return the branch that the one checked out is to go into; None if that is not known.

    In a job of a pull request it is its target, else the default branch of the remote, else main or master.
    """
    if target := os.environ.get("GITHUB_BASE_REF") or os.environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"):
        return target
    if remote := _git(folder, "symbolic-ref", "--short", "--quiet", "refs/remotes/origin/HEAD"):
        return remote.partition("/")[2]
    names = ("main", "master")
    return next((one for one in names if _git(folder, "rev-parse", "--verify", "--quiet", one)), None)


def run_name(folder: Path, code: str = "") -> str:
    """Return the name of a run that has none of its own, which says what changed.

    It is the branch and the commit, with the changed files if any: `main@1f2e3d4c`, `main@1f2e3d4c+agent.py`.
    Without a repository it is `code`, which names the agent and the state of its source or, if that is not
    known, the time.
    """
    found = revision(folder)
    if found.commit is None:
        return _usable(code) or f"run@{datetime.now():%Y-%m-%dT%H:%M:%S}"
    changed = (_git(folder, "diff", "--name-only", "HEAD") or "").splitlines() if found.dirty else []
    name = f"{_usable(found.branch or 'commit')[:50]}@{found.commit[:8]}"
    if changed:
        others = f"+{len(changed) - 1}" if len(changed) > 1 else ""
        name += f"+{_usable(Path(changed[0]).name)[:30]}{others}"
    return name if changed or not found.dirty else f"{name}+"


def _usable(text: str) -> str:
    return re.sub(r"[^\w.@+:/-]", "-", text).lstrip(".+:/-@")


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
