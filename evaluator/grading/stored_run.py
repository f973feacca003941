"""A stored run: its specification and its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Self, overload

from spangrade.evaluator.grading.policy import REFERENCE_GATES, TURNS_ANSWERED
from spangrade.evaluator.grading.run import Grade, JudgeUsage, Run, SessionVerdict
from spangrade.evaluator.grading.run_details import GradedBy
from spangrade.evaluator.grading.run_list import find_run_id
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.judge.run import Spent
from spangrade.evaluator.metrics import Failure, Inconclusive, NotApplicable, Outcome, Score
from spangrade.evaluator.metrics.stored_values import (
    only_run,
    stored_evidence,
    stored_texts,
    stored_thresholds,
    stored_word,
)
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store import Store

_DEFAULT_GATES = frozenset({TURNS_ANSWERED, *REFERENCE_GATES.values()})


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
    verdicts: tuple[SessionVerdict, ...]

    @property
    def without(self) -> frozenset[str]:
        """The references that were not gates."""
        return frozenset() if self.graded_by is None else frozenset(self.graded_by.without_references)

    @property
    def notes(self) -> list[str]:
        """Notes on the parts of the run's specification that are not known."""
        if self.graded_by is not None:
            return []
        lacks = "condition on questions, references that are not gates, require_match, options of the judge"
        return [f"the run does not record its {lacks}, metrics files: they are not applied again"]


def read_run(store: Store, text: str) -> StoredRun:
    """Return the run that a name or an id names. Raises InputError if there is none."""
    run_id = find_run_id(store, text)
    run = {"run_id": run_id}
    rows = store.query(
        "SELECT name, dataset, dataset_digest, metrics, if(judge_calls + judge_cache_hits > 0, judge, NULL), "
        "metrics_files, without_references, question_condition, require_match, reply_threshold, judge_votes "
        "FROM runs WHERE run_id = $run_id",
        run,
    )
    name, dataset, digest, metrics, judge, *options = only_run(rows, run_id)
    files, without, where, require_match, threshold, votes = options
    graded_by = None
    if require_match is not None:
        graded_by = GradedBy(
            stored_texts(files, "runs.metrics_files"),
            stored_texts(without, "runs.without_references"),
            where,
            require_match,
            threshold,
            votes,
        )
    versions = store.query("SELECT metric, version FROM run_metrics WHERE run_id = $run_id", run)
    verdicts = store.query(
        with_views(
            "SELECT session_id, question_id, verdict, coalesce(reason, '') FROM {run_cells} "
            "WHERE run_id = $run_id ORDER BY session_id, question_id"
        ),
        run,
    )
    return StoredRun(
        run_id,
        name or run_id[:8],
        dataset or "",
        digest,
        stored_texts(metrics, "runs.metrics"),
        judge,
        graded_by,
        dict(versions),
        tuple(
            SessionVerdict(session_id, question_id, _verdict(word), reason)
            for session_id, question_id, word, reason in verdicts
        ),
    )


def load_run(store: Store, run_id: str) -> Run:
    """Return a stored run as `grade` returned it.

    What is not stored is not known of it: groups, and whether some of the input could not be read.
    """
    run_row = {"run_id": run_id}
    rows = store.query(
        "SELECT name, dataset, thresholds, metrics, coalesce(require_match, false), judge, judge_calls, "
        "judge_cache_hits, judge_input_tokens, judge_output_tokens, judge_cost_usd "
        "FROM runs WHERE run_id = $run_id",
        run_row,
    )
    name, dataset, thresholds, metrics, require_match, *judge = only_run(rows, run_id)
    requested = {metric_name(text) for text in stored_texts(metrics, "runs.metrics")}
    by_name = stored_thresholds(thresholds)
    run = Run(
        run_id,
        dataset or "",
        gates=[name for name in by_name if name in requested or name not in _DEFAULT_GATES],
        require_match=require_match,
        thresholds=by_name,
        name=name,
    )
    if judge[0] is not None:
        run.judge = JudgeUsage(judge[0], Spent(*judge[1:]))
    for grade in grades_of_run(store, run_id):
        run.add(grade)
    return run


def grades_of_run(store: Store, run_id: str) -> Iterator[Grade]:
    """Yield the stored grades of a run."""
    run_row = {"run_id": run_id}
    outcomes: dict[tuple[str | None, str | None], dict[str, Outcome]] = {}
    for session_id, question_id, *row in store.query(
        "SELECT session_id, question_id, metric, outcome, value, passed, coalesce(reason, ''), evidence "
        "FROM scores WHERE run_id = $run_id ORDER BY rowid",
        run_row,
    ):
        outcomes.setdefault((session_id, question_id), {})[row[0]] = _outcome(*row[1:])
    for session_id, question_id, verdict, reason in store.query(
        "SELECT session_id, question_id, verdict, coalesce(reason, '') FROM verdicts "
        "WHERE run_id = $run_id ORDER BY rowid",
        run_row,
    ):
        of_session = outcomes.get((session_id, question_id), {})
        yield Grade(session_id, question_id, _verdict(verdict), reason, of_session)


class StoredRuns(Sequence[Run]):
    """Runs of a database by their ids, each read when it is asked for; `reading` opens the database."""

    def __init__(self, run_ids: Sequence[str], reading: Callable[[], AbstractContextManager[Store]]) -> None:
        self._run_ids = run_ids
        self._reading = reading

    def __len__(self) -> int:
        return len(self._run_ids)

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'run')}>"

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Run | Self:
        if isinstance(index, slice):
            return type(self)(self._run_ids[index], self._reading)
        with self._reading() as store:
            return load_run(store, self._run_ids[index])


def _verdict(word: str) -> Verdict:
    return stored_word(Verdict, word, "verdicts.verdict")


def _outcome(
    kind: str, value: float | None, passed: bool | None, reason: str, evidence: str | None
) -> Outcome:
    """Return an outcome of a row of the table `scores`."""
    if value is not None:
        return Score(value, passed, reason, stored_evidence(evidence))
    if kind == "inconclusive":
        return Inconclusive(reason)
    if kind == "not_applicable":
        return NotApplicable(reason)
    return Failure(reason, by_judge=kind == "judge_failure")


def metric_name(requested: str) -> str:
    """Return the name of a metric that is requested as `NAME[:PARAMETER][>=T]`, with its parameter."""
    return requested.partition(">")[0].partition("<")[0].strip()
