"""The result of grading a stored run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.stored_run import StoredRun


class Changed(NamedTuple):
    """A session, or without one a golden question that no session answers, and its verdicts and reasons.

    `before` is None for a question that the run did not report, `after` for one that is not reported now.
    """

    session_id: str | None
    question_id: str | None
    before: str | None
    after: str | None
    reason_before: str
    reason: str


class Regraded(NamedTuple):
    """A stored run and the verdicts that its sessions have now.

    `run` is not stored. `changes` are the verdicts that differ, `before` the number of sessions of each
    verdict in the stored run; `notes` say what could not be applied again, or differs by itself.
    """

    stored: StoredRun
    run: Run
    before: Mapping[str, int]
    changes: tuple[Changed, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the changes as JSON values."""
        return {
            "run": self.stored.label,
            "run_id": self.stored.run_id,
            "sessions": sum(self.run.verdicts.values()),
            "verdicts_before": dict(self.before),
            "verdicts": {verdict.value: number for verdict, number in self.run.verdicts.items() if number},
            "unapplied_gates": list(self.run.unapplied_gates),
            "exit_code": int(self.run.exit_code),
            "judge": self.run.judge_json,
            "changes": [change._asdict() for change in self.changes],
            "notes": list(self.notes),
        }
