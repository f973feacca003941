"""The sessions of a stored run graded again, by other gates or questions, and the verdicts that change."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spangrade.converters.datasets.formats import Dataset, find_dataset, read_dataset
from spangrade.converters.datasets.golden import NO_QUESTIONS, GoldenDataset, GoldenQuestion
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.up_to_date import WAIT_S, up_to_date
from spangrade.evaluator.grading.file_columns import with_rows
from spangrade.evaluator.grading.grade import grade, may_ask_judge
from spangrade.evaluator.grading.metadata import parse_where
from spangrade.evaluator.grading.policy import MetricPlan, dropped_references
from spangrade.evaluator.grading.stored_questions import digest_of, stored_questions
from spangrade.evaluator.grading.stored_run import StoredRun, read_run
from spangrade.evaluator.judge.choice import use_judge_of_run
from spangrade.evaluator.judge.options import JudgeOptions, judge_of_run
from spangrade.evaluator.judge.run import spent_since
from spangrade.evaluator.metrics import Metric, load_metrics
from spangrade.evaluator.metrics.files import with_files
from spangrade.evaluator.metrics.registry import version_of
from spangrade.evaluator.pipeline import SessionReader, requested_metrics, try_queries
from spangrade.evaluator.regraded import Changed, Regraded
from spangrade.evaluator.review.scores.as_metric import external_metrics, name_of
from spangrade.evaluator.run import JudgeUsage, Run
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import counted


class Gates(NamedTuple):
    """What a run is graded by in the place of its own gates and questions, where it is given."""

    metrics: Sequence[str | Metric] = ()
    metrics_files: Sequence[Path] = ()
    dataset: Path | None = None
    no_reference: Sequence[str] = ()
    no_references: bool = False
    judge_model: str | None = None
    judge_max_calls: int | None = None
    judge_max_cost: float | None = None
    judge_threshold: float | None = None


def regrade(db: Path, text: str, gates: Gates, callbacks: Callbacks = DEFAULT) -> Regraded:
    """Grade the sessions of a stored run again by `gates`, and return the verdicts that change.

    Nothing is written but derived sessions that were pending, and the judge's cache. Each session is compared
    with the question that it answered, if there still is one with that id. A metric of `gates` takes the
    place of the run's with the same name.

    Raises InputError if there is no such run, or for a metric or dataset that cannot be used.
    """
    with up_to_date(db, callbacks) as store:
        stored = read_run(store, text)
        questions_then = tuple(stored_questions(store, stored.run_id))
        sessions = SessionReader(store, {one.session_id for one in stored.verdicts if one.session_id})
    notes = list(stored.notes)
    golden = _golden(stored, gates.dataset, questions_then, notes)
    for problem in golden.problems:
        callbacks.on_problem(problem)
    metrics = _metrics(db, stored, gates, golden, notes)
    if not metrics and not golden.questions.golden_questions:
        raise InputError(f"{stored.label}: the run has neither gates nor questions that can be applied again")
    try_queries(db, metrics, read_only=True)
    notes += _gone(stored, sessions.ids)
    without = stored.without
    if gates.no_reference or gates.no_references:
        without = dropped_references(gates.no_reference, every=gates.no_references)
    options = _judge_options(stored, gates)
    plan = MetricPlan.of(metrics, load_metrics(), without, options.threshold)
    notes += _other_versions(stored, plan)
    run = _new_run(stored, gates, golden, metrics, plan)
    judge = judge_of_run(options)
    spent_before = judge.spent
    if options.names_model and may_ask_judge(golden.questions, metrics, without):
        judge.check_model()
    known = {question.id for question in golden.questions.golden_questions}
    answers = _answers(stored, sessions.ids, known)
    callbacks.on_progress("grading")
    with use_judge_of_run(judge):
        read = with_rows(run.noted(sessions.read(callbacks)), golden.rows, callbacks.on_problem)
        for one in grade(read, golden.questions, metrics, without, answers, known, options.threshold):
            run.add(one)
    run.judge = JudgeUsage(judge.name, spent_since(spent_before, judge.spent))
    before = Counter(one.verdict for one in stored.verdicts if one.session_id is not None)
    return Regraded(stored, run, dict(before), tuple(_changes(stored, run, sessions.ids)), tuple(notes))


def _golden(
    stored: StoredRun, given: Path | None, questions_then: Sequence[GoldenQuestion], notes: list[str]
) -> Dataset:
    """Return the questions to grade by: of a file that is given, else as the run had them.

    The run's own file is read only if it still has the same questions: it may have columns beside them.
    """
    where = None if stored.graded_by is None else stored.graded_by.where
    if given is not None:
        return _chosen(read_dataset(find_dataset(given)[0] if given.is_dir() else given), where)
    if not stored.dataset:
        return Dataset(NO_QUESTIONS, None, [])
    questions = GoldenDataset(golden_questions=tuple(questions_then)) if questions_then else NO_QUESTIONS
    own = Dataset(questions, None, [])
    try:
        now = read_dataset(Path(stored.dataset))
    except InputError:
        return own
    try:
        now = _chosen(now, where)
    except InputError:
        now = now._replace(questions=NO_QUESTIONS)
    if digest_of(now.questions.golden_questions) == stored.dataset_digest:
        return now._replace(problems=[])
    notes.append(
        f"{stored.dataset} has changed since the run, which is graded by the questions that it had; "
        f"--dataset {stored.dataset} grades by the file"
    )
    return own


def _chosen(dataset: Dataset, where: str | None) -> Dataset:
    """Return a dataset with the questions that meet the condition of the run, if it had one."""
    return dataset._replace(questions=parse_where(where).chosen(dataset.questions)) if where else dataset


def _gone(stored: StoredRun, sessions: frozenset[str]) -> Iterator[str]:
    """Yield how many sessions of the run are no longer stored, if there are any."""
    if gone := sum(one.session_id is not None for one in stored.verdicts) - len(sessions):
        yield f"{counted(gone, 'session')} of the run {'is' if gone == 1 else 'are'} no longer stored"


def _answers(stored: StoredRun, sessions: frozenset[str], known: set[str]) -> dict[str, str]:
    """Return the question that each stored session answered in the run, of those that there still are."""
    return {
        str(one.session_id): str(one.question_id)
        for one in stored.verdicts
        if one.session_id in sessions and one.question_id in known
    }


def _new_run(
    stored: StoredRun, gates: Gates, golden: Dataset, metrics: Sequence[Metric], plan: MetricPlan
) -> Run:
    return Run(
        uuid.uuid4().hex,
        stored.dataset if gates.dataset is None else str(gates.dataset),
        incomplete=any(problem.dropped for problem in golden.problems),
        gates=[metric.name for metric in metrics if metric.threshold is not None],
        require_match=stored.graded_by is not None and bool(stored.graded_by.require_match),
        thresholds=plan.thresholds,
    )


def _metrics(
    db: Path, stored: StoredRun, gates: Gates, golden: Dataset, notes: list[str]
) -> tuple[Metric, ...]:
    """Return the run's metrics as far as they are known here, with those of `gates` in their place."""
    replaced = {path.name for path in gates.metrics_files}
    files = list(gates.metrics_files)
    for path in map(Path, () if stored.graded_by is None else stored.graded_by.metrics_files):
        if path.name in replaced:
            continue
        if path.is_file():
            files.append(path)
        else:
            notes.append(f"{path}: the run's metrics of this file are not applied: no such file")
    external = external_metrics(db, [*stored.metrics, *gates.metrics], WAIT_S)
    known = {**external, **with_files(files, golden.columns)[0]}
    texts = []
    for text in stored.metrics:
        if name_of(text) in known:
            texts.append(text)
        else:
            notes.append(f"{text}: the run's metric is not applied: there is no metric of that name here")
    own = requested_metrics(texts, files, golden.columns, external)
    new = requested_metrics(gates.metrics, (), golden.columns, known)
    return tuple({metric.name: metric for metric in (*own, *new)}.values())


def _judge_options(stored: StoredRun, gates: Gates) -> JudgeOptions:
    by = stored.graded_by
    threshold = gates.judge_threshold
    if threshold is None and by is not None:
        threshold = by.reply_threshold
    return JudgeOptions(
        gates.judge_model or stored.judge,
        gates.judge_max_calls,
        gates.judge_max_cost,
        1 if by is None or by.judge_votes is None else by.judge_votes,
        threshold,
    )


def _other_versions(stored: StoredRun, plan: MetricPlan) -> Iterator[str]:
    """Yield the metrics that have another version than in the run."""
    for metric in plan.metrics:
        version = version_of(metric)
        if stored.versions.get(metric.name, version) != version:
            yield f"{metric.name}: another version than in the run"


def _changes(stored: StoredRun, run: Run, sessions: frozenset[str]) -> Iterator[Changed]:
    before = {_key(one.session_id, one.question_id): one for one in stored.verdicts}
    after = {_key(one.session_id, one.question_id): one for one in run.sessions}
    for key, one in after.items():
        old = before.get(key)
        if old is None or old.verdict != one.verdict:
            yield Changed(
                one.session_id,
                one.question_id,
                None if old is None else old.verdict,
                one.verdict,
                "" if old is None else old.reason,
                one.reason,
            )
    for key, old in before.items():
        if key not in after and (old.session_id is None or old.session_id in sessions):
            yield Changed(old.session_id, old.question_id, old.verdict, None, old.reason, "")


def _key(session_id: str | None, question_id: str | None) -> tuple[str, str]:
    return ("question", question_id or "") if session_id is None else ("session", session_id)
