"""The details of a run: its name and tags, the commit, the metrics, the golden questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from importlib.metadata import version
from math import isinf
from types import MappingProxyType
from typing import Any, NamedTuple

import nanoarrow as na

from spangrade.evaluator.grading.revision import Revision
from spangrade.evaluator.grading.rules_version import rules_version
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.metrics.registry import version_of
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

NO_TAGS: Mapping[str, str] = MappingProxyType({})


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
