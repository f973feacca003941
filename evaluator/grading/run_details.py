"""The details of a run: its name and tags, the commit, metrics, golden questions, version of the rules."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from functools import cache
from importlib.metadata import version
from math import isinf
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import nanoarrow as na

from spangrade import __version__
from spangrade.evaluator.derive.sync.fingerprint import digest_of, fingerprint
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.metrics.registry import version_of
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

NO_TAGS: Mapping[str, str] = MappingProxyType({})
_SOURCES = (
    "evaluator/metrics",
    "evaluator/grading/policy.py",
    "evaluator/grading/verdict.py",
    "converters/datasets/golden.py",
    "converters/datasets/call_rules.py",
)
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


class GradedBy(NamedTuple):
    """The options by which a run was graded beside its metrics and questions.

    `metrics_files` are as they were given, `where` is the condition on questions, None without any. A
    `reply_threshold` of None is the default one.
    """

    metrics_files: tuple[str, ...] = ()
    without_references: tuple[str, ...] = ()
    where: str | None = None
    require_match: bool = False
    reply_threshold: float | None = None
    judge_votes: int | None = None


_GRADED_BY = (  # the columns of these options
    *("metrics_files", "without_references", "question_condition"),
    *("require_match", "reply_threshold", "judge_votes"),
)


class RunDetails(NamedTuple):
    """The details of a run; `metrics` are those that it measures. `graded_by` is None if it is not kept.

    `day` (UTC) is that of a rolling run of `watch`, None of any other.
    """

    name: str | None = None
    tags: Mapping[str, str] = NO_TAGS
    revision: Revision = Revision()
    metrics: tuple[Metric, ...] = ()
    graded_by: GradedBy | None = None
    day: date | None = None

    def cells(self, dataset_digest: str | None) -> dict[str, Any]:
        """Return the values of the columns of `runs` that hold them, given the digest of the questions."""
        return {
            "name": self.name,
            "tags": dumps(dict(self.tags)) if self.tags else None,
            "git_commit": self.revision.commit,
            "git_dirty": self.revision.dirty,
            "git_branch": self.revision.branch,
            "dataset_digest": dataset_digest,
            "prices_version": version("genai-prices"),
            "day": self.day,
            "rules": rules_version(),
            **self._graded_by(),
        }

    def _graded_by(self) -> dict[str, Any]:
        if (by := self.graded_by) is None:
            return dict.fromkeys(_GRADED_BY)
        lists = list(by.metrics_files), list(by.without_references)
        return dict(zip(_GRADED_BY, (*lists, *by[len(lists) :]), strict=True))


def details_json(details: RunDetails, questions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a run as JSON values of results.json, with its golden questions.

    A `lowest` or `highest` of null is none.
    """
    measured = {
        name: {
            key: None if isinstance(value, float) and isinf(value) else value
            for key, value in zip(_OF_METRIC, row, strict=True)
        }
        for name, *row in _metric_rows(details.metrics)
    }
    revision = {f"git_{key}": value for key, value in details.revision._asdict().items()}
    about = {"name": details.name, "tags": dict(details.tags), **revision}
    return {"run": about, "rules": rules_version(), "measured": measured, "questions": dict(questions)}


def save_metrics(store: Store, run_id: str, metrics: Iterable[Metric]) -> None:
    """Store the metrics of a run as they are now."""
    measured = arrow_rows(_metric_rows(metrics), _METRIC_TYPES)
    store.query(
        "INSERT INTO run_metrics BY NAME SELECT $run_id AS run_id, * FROM measured",
        {"run_id": run_id},
        measured=measured,
    )


def _metric_rows(metrics: Iterable[Metric]) -> list[tuple[Any, ...]]:
    return [
        (
            metric.name,
            version_of(metric),
            metric.threshold,
            metric.higher_is_better,
            metric.unit,
            *metric.bounds,
        )
        for metric in metrics
    ]


_METRIC_TYPES = {
    "metric": na.string(),
    "version": na.string(),
    "threshold": na.float64(),
    "higher_is_better": na.bool_(),
    "unit": na.string(),
    "lowest": na.float64(),
    "highest": na.float64(),
}
_OF_METRIC = tuple(_METRIC_TYPES)[1:]


@cache
def rules_version() -> str:
    """Return a text that is the same as long as the same session gets the same verdict.

    Runs of two versions differ by more than their agents. It is the version of spangrade, with a digest of
    the source that derives sessions, measures them and gives verdicts: checkouts of one version differ, too.
    Computing it takes 4 ms, once a process that stores a run.
    """
    digest = digest_of(_SOURCES)
    digest.update(fingerprint().encode())
    return f"{__version__} {digest.hexdigest()[:12]}"
