"""A stored run: its specification, its verdicts, and the golden questions that it asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple, Self, overload

import nanoarrow as na
import orjson
from pydantic import ValidationError

from spangrade.converters.datasets.golden import GoldenQuestion
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
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import BATCH, arrow_rows

_DEFAULT_GATES = frozenset({TURNS_ANSWERED, *REFERENCE_GATES.values()})
_COLUMNS = {"question_id": na.string(), "digest": na.string(), "question": na.string()}
_ABOUT = ("id", "metadata", "reviewed")
_AT_ONCE = BATCH  # questions: DuckDB takes less memory for whole row groups; the rows of 20,000 take 95 MB


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


def save_questions(store: Store, run_id: str, questions: Iterable[GoldenQuestion]) -> str | None:
    """Store the questions of a run, those that are not stored yet; return the digest of all of them.

    It is the SHA-256 of their own digests, sorted: it does not depend on their order, nor on what their file
    looks like. None without questions.
    """
    digests: list[str] = []
    rest = iter(questions)
    while rows := [_row(question) for question in islice(rest, _AT_ONCE)]:
        digests += (digest for _, digest, _ in rows)
        asked = arrow_rows(rows, _COLUMNS)
        store.query(
            "INSERT INTO golden_questions BY NAME SELECT DISTINCT digest, question FROM asked "
            "ANTI JOIN golden_questions USING (digest)",
            asked=asked,
        )
        store.query(
            "INSERT INTO run_questions BY NAME SELECT $run_id AS run_id, question_id, digest FROM asked",
            {"run_id": run_id},
            asked=asked,
        )
    return _digest_of(digests)


def digest_of(questions: Iterable[GoldenQuestion]) -> str | None:
    """Return the digest of questions that `save_questions` returns, without storing them."""
    return _digest_of([_row(question)[1] for question in questions])


def _digest_of(digests: Iterable[str]) -> str | None:
    ordered = sorted(digests)
    return sha256("\n".join(ordered).encode()).hexdigest() if ordered else None


def stored_questions(store: Store, run_id: str) -> Iterator[GoldenQuestion]:
    """Yield the questions of a run as it had them, without those that another version of spangrade wrote."""
    rows = store.query(
        "SELECT question FROM run_questions JOIN golden_questions USING (digest) WHERE run_id = $run_id "
        "ORDER BY question_id",
        {"run_id": run_id},
    )
    for (text,) in rows:
        with suppress(ValidationError):
            yield GoldenQuestion.model_validate_json(text or "")


def expectation(question: Mapping[str, Any]) -> str:
    """Return the user inputs and references of a question, given as JSON values, as canonical JSON."""
    return canonical({key: value for key, value in question.items() if key not in _ABOUT})


def expectations(questions: Iterable[GoldenQuestion]) -> dict[str, Any]:
    """Return each question's user inputs and references, as JSON values by its id."""
    return {
        question.id: orjson.loads(expectation(question.model_dump(mode="json", exclude_unset=True)))
        for question in questions
    }


def _row(question: GoldenQuestion) -> tuple[str, str, str]:
    text = canonical(question.model_dump(mode="json", exclude_unset=True))
    return question.id, sha256(text.encode()).hexdigest(), text


def stored_questions_of(
    store: Store, run_id: str, question_ids: Sequence[str]
) -> Mapping[str, GoldenQuestion]:
    """Return the questions of some ids as a run had them, by id, without those that it did not store."""
    rows = store.query(
        "SELECT question_id, question FROM run_questions JOIN golden_questions USING (digest) "
        "WHERE run_id = $run_id AND question_id IN (SELECT unnest($questions::VARCHAR[]))",
        {"run_id": run_id, "questions": question_ids},
    )
    found = {}
    for question_id, text in rows:
        with suppress(ValidationError):  # another version of spangrade wrote it
            found[question_id] = GoldenQuestion.model_validate_json(text or "")
    return found
