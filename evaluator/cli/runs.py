"""`spangrade runs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spangrade.evaluator.cli.options import Printed, StoredIn
from spangrade.tracer.base.fields import option, values_of

_COLUMNS = (
    "run",
    "graded",
    "dataset",
    "sessions",
    "passed",
    "failed",
    "inconclusive",
    "broken",
    "commit",
    "tags",
)
_SHORT = 8  # characters of an id that tell runs apart


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOptions:
    """Which runs are listed."""

    limit: int | None = option(None, "At most this many.", least=1, metavar="N")
    watched: bool = option(False, "The rolling runs of `serve`, one per policy and day.", name="--watch")


def runs(listed: RunsOptions, at: StoredIn, printed: Printed) -> None:
    """List the grading runs, the newest first."""
    from spangrade.evaluator.reports.json import stored_run_json

    with at.opened() as opened:
        found = [stored_run_json(row) for row in opened.list_runs(**values_of(listed)).rows()]
    printed.write_rows(found, _COLUMNS, _shown)


def _shown(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a run as a row for people."""
    commit = row["git_commit"] and row["git_commit"][:_SHORT] + ("+changes" if row["git_dirty"] else "")
    return {
        **row,
        "run": row["name"] or row["run_id"][:_SHORT],
        "graded": f"{row['graded_at']:%Y-%m-%d %H:%M}",
        "commit": commit,
        "tags": ", ".join(f"{key}={value}" for key, value in row["tags"].items()),
    }
