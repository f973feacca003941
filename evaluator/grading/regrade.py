"""The sessions of a stored run graded again, by other gates or questions, and the verdicts that change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.formats import Dataset, find_dataset, read_dataset
from spangrade.converters.datasets.golden import NO_QUESTIONS, GoldenDataset, GoldenQuestion
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.up_to_date import WAIT_S
from spangrade.evaluator.grading.grade_stored import RunOutput, grade_prepared
from spangrade.evaluator.grading.metadata import parse_where
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.grading.prepare import Prepared, try_queries, with_questions
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.run_details import GradedBy
from spangrade.evaluator.grading.save import RepeatsOf
from spangrade.evaluator.grading.selection import SessionReader
from spangrade.evaluator.grading.spec import Gates, GradeSpec, Selection
from spangrade.evaluator.grading.stored_run import (
    StoredRun,
    digest_of,
    metric_name,
    read_run,
    stored_questions,
)
from spangrade.evaluator.judge.options import JudgeOptions
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.metrics.call_rules import PREFIX
from spangrade.evaluator.metrics.external import external_metrics, name_of
from spangrade.evaluator.metrics.files import with_files
from spangrade.evaluator.metrics.registry import version_of
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.span import Problem
from spangrade.tracer.store.store import Stored

NO_GATES = Gates()


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


def regrade(
    spec: GradeSpec,
    db: Stored,
    callbacks: Callbacks = DEFAULT,
    without: Collection[str] = (),
    workers: int | None = 1,
) -> Regraded:
    """Grade the sessions of the run `spec.select.of_run` again, save nothing, and return what changes.

    The rest of the specification replaces the run's own: a metric of `gates` the run's metric of that name.
    Only derived sessions that were pending and the judge's cache are written. Each session is compared with
    the question that it answered, if there still is one with that id. For `workers` see `workers_for`.

    Raises InputError if there is no such run, for a metric or dataset that cannot be used, and for a metric
    of the run that is gone unless `without` names it: what it would say is unknown.
    """
    stored, sessions, prepared, notes = _prepared_as(spec, db, callbacks, without)
    run = grade_prepared(prepared, db, callbacks, workers=workers, is_saved=False)
    before = Counter(str(one.verdict) for one in stored.verdicts if one.session_id is not None)
    return Regraded(stored, run, dict(before), tuple(_changes(stored, run, sessions)), tuple(notes))


def grade_again(
    spec: GradeSpec,
    db: Stored,
    callbacks: Callbacks = DEFAULT,
    *,
    output: RunOutput | None = None,
    repeats_of: RepeatsOf = lambda store, run_id: None,  # noqa: ARG005
    workers: int | None = 1,
) -> Run:
    """Grade the sessions of the run `spec.select.of_run` as it was graded, and save a new run.

    Raises InputError as `regrade` does; what is not as it was is reported as a problem.
    """
    stored, _, prepared, notes = _prepared_as(spec, db, callbacks)
    for note in notes:
        callbacks.on_problem(Problem(f"run {stored.label}", note, dropped=False))
    return grade_prepared(prepared, db, callbacks, output, repeats_of, workers)


def _prepared_as(
    spec: GradeSpec, db: Stored, callbacks: Callbacks, without: Collection[str] = ()
) -> tuple[StoredRun, frozenset[str], Prepared, list[str]]:
    """Return a stored run, its sessions that there still are, the same grade of these, and notes on it."""
    with db.reading() as store:
        stored = read_run(store, spec.select.of_run or "")
        questions = tuple(stored_questions(store, stored.run_id))
        ids = {one.session_id for one in stored.verdicts if one.session_id}
        sessions = SessionReader(db, store, ids).ids
    prepared, notes = prepared_again(
        db, stored, questions, sessions, spec.path, spec.gates, spec.judge, callbacks, without
    )
    notes += [*_gone(stored, sessions), *_other_versions(stored, prepared.plan)]
    then = prepared.spec
    select = replace(spec.select, answers=then.select.answers)
    spec = replace(spec, dataset=then.dataset, gates=then.gates, judge=then.judge, select=select)
    return stored, sessions, replace(prepared, spec=spec), notes


def prepared_again(
    db: Stored,
    stored: StoredRun,
    questions_then: Sequence[GoldenQuestion],
    session_ids: frozenset[str],
    dataset: Path | None,
    gates: Gates,
    judge: JudgeOptions,
    callbacks: Callbacks,
    without: Collection[str],
) -> tuple[Prepared, list[str]]:
    """Return the prepared grade of a stored run, and notes on each part that is not as it was.

    The other arguments and the errors are those of `regrade`.
    """
    notes = list(stored.notes)
    golden = _golden(stored, dataset, questions_then, notes)
    for problem in golden.problems:
        callbacks.on_problem(problem)
    known = {question.id for question in golden.questions.golden_questions}
    spec = _spec(stored, dataset, gates, judge, _answers(stored, session_ids, known))
    spec, external = _applicable(db, stored, spec, gates, golden, without)
    notes += [f"{name}: the run's metric is left out, as asked" for name in without]
    prepared = with_questions(spec, golden, external)
    if not prepared.metrics and not known:
        raise InputError(f"{stored.label}: the run has neither gates nor questions that can be applied again")
    try_queries(db, prepared.metrics)
    return prepared, notes


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
        "name it as the dataset to grade by the file"
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


def _spec(
    stored: StoredRun,
    dataset: Path | None,
    gates: Gates,
    judge: JudgeOptions,
    answers: Mapping[str, str],
) -> GradeSpec:
    """Return the specification of the run, with the given values in its place."""
    by = stored.graded_by or GradedBy()
    replaced = {path.name for path in gates.files}
    own = [path for path in map(Path, by.metrics_files) if path.name not in replaced]
    drops = bool(gates.no_reference or gates.no_references)
    metrics = {_name(one): one for one in (*stored.metrics, *gates.requested)}
    return GradeSpec(
        dataset or (Path(stored.dataset) if stored.dataset else None),
        Gates(
            tuple(metrics.values()),
            (*gates.files, *own),
            gates.no_reference if drops else sorted(by.without_references),
            gates.no_references,
            by.require_match or gates.require_match,
            gates.root_agent_name,
            gates.requested_calls,
            gates.rules,
        ),
        Selection(answers=answers),
        judge.filled(JudgeOptions(stored.judge, votes=by.judge_votes, threshold=by.reply_threshold)),
    )


def _name(metric: str | Metric) -> str:
    """Return the name of a metric that is given or requested, with its parameter."""
    return metric_name(metric) if isinstance(metric, str) else metric.name


def _applicable(
    db: Stored, stored: StoredRun, spec: GradeSpec, given: Gates, golden: Dataset, without: Collection[str]
) -> tuple[GradeSpec, Mapping[str, Metric]]:
    """Return the specification without the metrics that are left out, and the external scores.

    Raises InputError for a metric of the run that is gone, and for one to leave out that is not.
    """
    files = [path for path in spec.gates.files if path in given.files or path.is_file()]
    external = external_metrics(db, spec.gates.requested, WAIT_S)
    known = {**external, **with_files(files, golden.columns)[0]}
    replaced = {*map(_name, given.requested), *(f"{PREFIX}{rule.name}" for rule in given.in_force)}
    requested = [_name(one) for one in spec.gates.requested if isinstance(one, str)]
    gone = [
        name
        for name in dict.fromkeys((*requested, *stored.versions))
        if name not in replaced and name_of(name) not in known
    ]
    for name in without:
        if name not in gone:
            raise FieldError("without", "expected a metric of the run that is gone", name)
    if missing := [name for name in gone if name not in without]:
        lost = [str(path) for path in spec.gates.files if path not in files]
        where = f" (no such file: {', '.join(lost)})" if lost else ""
        raise InputError(
            f"{stored.label}: the run's metric {missing[0]} is gone{where}: "
            f"give its metrics file, or leave it out on purpose (without {missing[0]})"
        )
    metrics = [one for one in spec.gates.requested if _name(one) not in gone]
    gates = replace(spec.gates, metrics=tuple(metrics), metrics_files=tuple(files))
    return replace(spec, gates=gates), external


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
