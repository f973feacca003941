"""A run as the database keeps it: what it was graded by, and its verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spangrade.evaluator.grading.run_details import GradedBy
from spangrade.evaluator.grading.run_list import find_run_id
from spangrade.tracer.store import Store


class StoredVerdict(NamedTuple):
    """The verdict on a session or, without one, on a golden question that no session answered."""

    session_id: str | None
    question_id: str | None
    verdict: str
    reason: str


class StoredRun(NamedTuple):
    """A stored run: its requested `metrics` as texts, the `versions` of all its metrics, and its verdicts.

    `graded_by` is None for a run that an earlier version of spangrade, or `watch`, stored. `judge` is the
    model that judged, None if none was asked.
    """

    run_id: str
    label: str
    dataset: str
    dataset_digest: str | None
    metrics: tuple[str, ...]
    judge: str | None
    graded_by: GradedBy | None
    versions: Mapping[str, str | None]
    verdicts: tuple[StoredVerdict, ...]

    @property
    def without(self) -> frozenset[str]:
        """The references that were not gates."""
        return frozenset() if self.graded_by is None else frozenset(self.graded_by.without_references)

    @property
    def notes(self) -> list[str]:
        """What is not known of how the run was graded."""
        if self.graded_by is not None:
            return []
        options = "--where, --no-reference, --require-match, --judge-threshold, --judge-votes, --metrics-file"
        return [f"the run does not record its {options}: they are not applied again"]


def read_run(store: Store, text: str) -> StoredRun:
    """Return the run that a name or an id names. Raises InputError if there is none."""
    run_id = find_run_id(store, text)
    run = {"run_id": run_id}
    ((name, dataset, digest, metrics, judge, *options),) = store.query(
        "SELECT name, dataset, dataset_digest, metrics, if(judge_calls + judge_cache_hits > 0, judge, NULL), "
        "metrics_files, without_references, question_condition, require_match, reply_threshold, judge_votes "
        "FROM runs WHERE run_id = $run_id",
        run,
    )
    files, without, where, require_match, threshold, votes = options
    graded_by = None
    if require_match is not None:
        graded_by = GradedBy(tuple(files or ()), tuple(without or ()), where, require_match, threshold, votes)
    versions = store.query("SELECT metric, version FROM run_metrics WHERE run_id = $run_id", run)
    verdicts = store.query(
        "SELECT session_id, question_id, verdict, coalesce(reason, '') FROM verdicts WHERE run_id = $run_id "
        "ORDER BY session_id, question_id",
        run,
    )
    return StoredRun(
        run_id,
        name or run_id[:8],
        dataset or "",
        digest,
        tuple(metrics or ()),
        judge,
        graded_by,
        dict(versions),
        tuple(StoredVerdict(*row) for row in verdicts),
    )
