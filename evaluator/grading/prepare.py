"""From the specification of a grade to its questions, metrics, judge and sessions."""

from __future__ import annotations

import inspect
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from spangrade.converters.datasets.formats import Dataset, find_dataset, read_dataset
from spangrade.converters.datasets.golden import NO_QUESTIONS, GoldenDataset, golden_of
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks, import_batches, start_import
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S, WAIT_S
from spangrade.evaluator.grading.file_columns import with_rows
from spangrade.evaluator.grading.match_questions import QuestionIndex, check_answers, share_sessions
from spangrade.evaluator.grading.metadata import Groups, Where, groups_of, parse_where
from spangrade.evaluator.grading.policy import (
    ASSERTIONS,
    GOAL,
    REPLIES,
    SCENARIO,
    MetricPlan,
    dropped_references,
    threshold_text,
)
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.run_details import GradedBy, RunDetails, revision
from spangrade.evaluator.grading.selection import (
    SessionReader,
    check_present,
    select_sessions,
    sessions_of_questions,
    unrecorded,
)
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.judge.choice import judge_of_run
from spangrade.evaluator.judge.run import JudgeRun
from spangrade.evaluator.metrics import Metric, load_metrics
from spangrade.evaluator.metrics.call_rules import rule_metric
from spangrade.evaluator.metrics.external import external_metrics
from spangrade.evaluator.metrics.files import in_place_of_installed, requested
from spangrade.evaluator.metrics.queries import Query
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.quantities import seconds_of
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.store import Stored

if TYPE_CHECKING:  # few grades redact
    from spangrade.tracer.redaction import Redaction

_IN_MEMORY = "questions in memory"
MAY_ASK_JUDGE = (*REPLIES, SCENARIO, GOAL, ASSERTIONS)  # the references whose gate may ask the judge
NO_DATASET = Dataset(NO_QUESTIONS, None, [])
NO_METRICS: Mapping[str, Metric] = MappingProxyType({})


@dataclass(frozen=True)
class Prepared:
    """A grade's questions, metrics, judge and selection, ready to judge sessions.

    `golden` is the content of the `dataset`, `recordings` are the files of spans to import first. `questions`
    are those that `where` chooses: the others are answered, but not missed. `metrics` are the requested ones,
    the `ungated_references` are not gates, `question_by_session` is known of sessions.
    `session_ids` are those to choose from, None is all; `not_run` are missing among them, on purpose if the
    run is `settled`. With `reads_store` a metric is of the scores in the database. `unmasked` are sessions as
    they were before they were masked for the database: metrics see these, and `redact` masks what they say.
    """

    spec: GradeSpec
    golden: Dataset
    questions: GoldenDataset
    metrics: tuple[Metric, ...]
    ungated_references: frozenset[str]
    plan: MetricPlan
    question_by_session: Mapping[str, str]
    groups: Groups | None
    recordings: Sequence[Path] = ()
    session_ids: frozenset[str] | None = None
    not_run: int = 0
    reads_store: bool = False
    unmasked: Mapping[str, Session] = field(default_factory=dict)
    redact: Redaction | None = None

    @property
    def dataset(self) -> str:
        """The path of the questions, empty without any."""
        if self.spec.questions is not None:
            return _IN_MEMORY
        return "" if self.spec.path is None else str(self.spec.path)

    @property
    def asks_judge(self) -> bool:
        """Whether a metric may ask the judge: an async one, or the gate of a reply or of a scenario."""
        if any(inspect.iscoroutinefunction(metric.function) for metric in self.metrics):
            return True
        gates = {gate.needs for gate in self.plan.gates}
        return any(
            question.reference(reference) is not None
            for reference in MAY_ASK_JUDGE
            if reference in gates
            for question in self.golden.questions.golden_questions
        )

    @property
    def in_slices(self) -> bool:
        """Whether slices of the sessions can be graded by `spec` and `golden` alone, in any order.

        They cannot if questions share their sessions, or a metric is an object of this process, asks a
        service, or reads the database.
        """
        return (
            not self.reads_store
            and not self.unmasked
            and all(isinstance(one, str) for one in self.spec.gates.requested)
            and not any(isinstance(metric.function, Query) for metric in self.metrics)
            and not any(inspect.iscoroutinefunction(metric.function) for metric in self.metrics)
            and not self._share_sessions
        )

    @property
    def gates(self) -> list[str]:
        """The names of the requested gates."""
        return [metric.name for metric in self.metrics if metric.threshold is not None]

    @property
    def texts(self) -> list[str]:
        """The requested metrics as `--metric` takes them."""
        return [one if isinstance(one, str) else metric_text(one) for one in self.spec.gates.requested]

    @property
    def index(self) -> QuestionIndex:
        """The index of the questions: the same for every slice, unless questions share their sessions."""
        return self._new_index() if self._share_sessions else self._index

    @cached_property
    def _index(self) -> QuestionIndex:
        return self._new_index()

    def _new_index(self) -> QuestionIndex:
        return QuestionIndex(self.golden.questions, self.question_by_session)

    @cached_property
    def _share_sessions(self) -> bool:
        """Whether questions expect the same: which of them a session answers depends on those before."""
        return share_sessions(self.golden.questions)

    def plan_at(self, now_ns: int | None) -> MetricPlan:
        """Return the plan at a time, by default now: it decides which sessions may still run."""
        if self.spec.idle_s is None:
            return self.plan
        now_ns = time.time_ns() if now_ns is None else now_ns
        return replace(self.plan, running_after_ns=now_ns - int(seconds_of(self.spec.idle_s) * 1e9))

    @cached_property
    def key(self) -> str:
        """A digest of all that decides a verdict on a session."""
        files = [path for path in (self.spec.path, *self.spec.gates.files) if path is not None]
        judge = asdict(self.spec.judge)
        parts = {
            "metrics": [metric_text(metric) for metric in self.metrics],
            "where_given": [metric.name for metric in self.metrics if metric.where_given],
            "agents": [metric.agents for metric in self.metrics],
            **({"rules": rules} if (rules := [rule.digest for rule in self.spec.gates.in_force]) else {}),
            "files": [blake2b(path.read_bytes()).hexdigest() for path in files],
            "without": sorted(self.ungated_references),
            "root_agent_name": self.spec.gates.other_name,
            "requested_calls": self.spec.gates.unanswered_calls,
            **({} if self.spec.questions is None else {"questions": self.spec.questions}),
            "judge": {name: judge[name] for name in ("model", "threshold")} | {"votes": judge["votes"] or 1},
        }
        return blake2b(canonical(parts).encode(), digest_size=16).hexdigest()

    @property
    def details(self) -> RunDetails:
        """The details that tell a run apart from others."""
        gates, judge = self.spec.gates, self.spec.judge
        graded_by = GradedBy(
            tuple(map(str, gates.files)),
            tuple(sorted(self.ungated_references)),
            self.spec.select.of_questions,
            gates.require_match,
            judge.threshold,
            judge.votes or 1,
        )
        return RunDetails(self.spec.name, self.spec.tags, revision(Path.cwd()), self.plan.metrics, graded_by)

    def judge(self) -> JudgeRun:
        """Return the judge, once its model is known to exist if it will be asked.

        Raises InputError for a provider or a model that does not exist, and for a judge that is required and
        has no key.
        """
        judge = judge_of_run(self.spec.judge)
        if self.asks_judge:
            if self.spec.judge.names_model:
                judge.check_model()
            if self.spec.judge.required and (unavailable := judge.unavailable):
                raise FieldError("judge.required", str(unavailable))
        return judge

    def new_run(self, run_id: str | None = None) -> Run:
        """Return a run to add grades to."""
        return Run(
            run_id or uuid.uuid4().hex,
            self.dataset,
            incomplete=any(problem.dropped for problem in self.golden.problems),
            gates=self.gates,
            reported=[metric.name for metric in self.plan.reported],
            require_match=self.spec.gates.require_match,
            thresholds=self.plan.thresholds,
            groups=self.groups,
            questions=len(self.questions.golden_questions),
            unreviewed=sum(question.reviewed is False for question in self.questions.golden_questions),
            not_run=self.not_run,
            name=self.spec.name,
        )

    def with_columns(
        self, sessions: Iterable[Session], on_problem: Callable[[Problem], None]
    ) -> Iterator[Session]:
        """Yield sessions, those that have a row in the dataset with its columns."""
        return with_rows(sessions, self.golden.rows, on_problem)


def prepare(
    spec: GradeSpec, db: Stored | None, callbacks: Callbacks = DEFAULT, recordings: Sequence[Path] = ()
) -> Prepared:
    """Return a prepared grade: its dataset and metrics are read, and all of it is checked.

    `db` is the database whose external scores may be metrics; it is opened only if one is requested. Problems
    in the dataset are reported. Raises InputError for what cannot be used.
    """
    golden = NO_DATASET
    if spec.dataset is None and spec.group_by is not None:
        raise FieldError("group_by", "it is about golden questions: give a dataset")
    if spec.path is not None:
        file, beside = find_dataset(spec.path) if spec.path.is_dir() else (spec.path, [])
        spec = replace(spec, dataset=file)
        recordings = recordings or beside
        golden = read_dataset(file)
    elif spec.questions is not None:
        golden = Dataset(golden_of({"golden_questions": spec.questions}, _IN_MEMORY), None, [])
    if golden.spans is not None and (recordings or spec.select.last_import):
        name = "spans" if recordings else "select.last_import"
        raise FieldError(name, f"{spec.dataset} brings its own sessions: expected no others")
    others = NO_METRICS if db is None else external_metrics(db, spec.gates.requested, WAIT_S)
    prepared = with_questions(spec, golden, others, recordings)
    if spec.dataset is None and not prepared.metrics:
        raise FieldError("gates", "grade by what? Expected a dataset, metrics, or gates in spangrade.toml")
    for problem in golden.problems:
        callbacks.on_problem(problem)
    for name in in_place_of_installed(prepared.metrics):
        text = "it is that of a file, in place of the metric of this name that comes with spangrade"
        callbacks.on_problem(Problem(f"metric {name}", text, dropped=False))
    return prepared


def with_questions(
    spec: GradeSpec,
    golden: Dataset,
    others: Mapping[str, Metric] = NO_METRICS,
    recordings: Sequence[Path] = (),
) -> Prepared:
    """Return a prepared grade by these questions; `others` are further metrics that may be requested."""
    where = Where() if spec.select.of_questions is None else parse_where(spec.select.of_questions)
    check_answers(spec.select.answers, golden.questions)
    metrics = (
        *requested(spec.gates.requested, spec.gates.files, golden.columns, others),
        *map(rule_metric, spec.gates.in_force),
    )
    without = dropped_references(spec.gates.no_reference, every=spec.gates.no_references)
    plan = MetricPlan.of(
        metrics,
        load_metrics(),
        without,
        spec.judge.threshold,
        spec.gates.other_name,
        spec.gates.unanswered_calls,
        without_dataset=not golden.questions.golden_questions,
    )
    return Prepared(
        spec,
        golden,
        where.chosen(golden.questions),
        metrics,
        without,
        plan,
        {**golden.answers, **spec.select.answers},
        None if spec.group_by is None else groups_of(spec.group_by, golden.questions),
        recordings,
        reads_store=any(one.name in others and others[one.name].function is one.function for one in metrics),
    )


def custom_keys(prepared: Prepared) -> str | None:
    """Return the keys that questions have beside those of the format and that no metric reads, as a text."""
    found = prepared.plan.custom_keys(prepared.questions.golden_questions)
    names = [f"{key} ({counted(number, 'question')})" for key, number in found.items()]
    return f"keys that no metric reads, and that change no verdict: {', '.join(names)}" if names else None


def sessions_to_grade(
    prepared: Prepared, db: Stored, callbacks: Callbacks = DEFAULT, workers: int | None = 1
) -> tuple[SessionReader, bool]:
    """Return the sessions that a grade is about, and whether all recordings could be read.

    The recordings, which `workers` processes read, or the dataset's own sessions are stored first. Raises
    StoreError if there are neither and no database, InputError for a selection that cannot be used.
    """
    select, complete = prepared.spec.select, True
    if prepared.recordings:
        intake, parts = start_import(db.file, prepared.recordings, callbacks, workers)
        import_batches(partial(Store.open, db.file, wait_s=WAIT_S), intake, parts, callbacks)
        complete = not intake.incomplete
    elif prepared.golden.spans is not None:
        with Store.open(db.file, wait_s=WAIT_S) as store:
            store.add(prepared.golden.spans)
    elif not db.exists():
        raise StoreError(f"{db.path}: no such database: import spans first, or name another")
    by_question = select.latest_per_question or select.of_questions is not None
    with db.reading(confined=not select.is_all) as store:
        only: Collection[str] | None = prepared.session_ids
        if prepared.recordings:
            only = _sessions_of(store, intake.traces)
        elif prepared.golden.spans is not None:
            only = _sessions_of(store, {span.trace_id for span in prepared.golden.spans})
        elif select.last_import:
            only = _sessions_of_last_import(store)
        if select.answers:
            check_present(store, "select.answers", select.answers, only)
        if not select.is_all:
            for what in ("version", "prompt", "model"):
                if getattr(select, what) is not None and (number := unrecorded(store, what, only)):
                    text = f"{counted(number, 'session')} left out: no {what} is recorded"
                    callbacks.on_problem(Problem(what, text, dropped=False))
            only = select_sessions(store, select, only)
        reader = SessionReader(db, store, only)
    if by_question:
        chosen = {question.id for question in prepared.questions.golden_questions}
        only = sessions_of_questions(
            reader.read(callbacks),
            prepared.golden.questions,
            prepared.question_by_session,
            None if select.of_questions is None else chosen,
            latest=select.latest_per_question,
        )
        if select.latest_per_question and (left_out := len(reader.ids) - len(only)):
            text = f"{counted(left_out, 'session')} left out: a later one answers the same question"
            if select.of_questions is not None:
                text += ", or which answer other questions"
            callbacks.on_problem(Problem("latest_per_question", text, dropped=False))
        with db.reading(wait_s=RUN_WAIT_S) as store:
            reader = SessionReader(db, store, only)
            check_present(store, "select.sessions", select.sessions, only)
    try_queries(db, prepared.metrics)
    return reader, complete


def try_queries(db: Stored, metrics: Iterable[Metric], *, derived: bool = False) -> None:
    """Run the queries among metrics on a database; one that fails breaks its metric alone.

    With `derived` its sessions are brought up to date first. Raises InputError for a query of a table or
    column that the database lacks: it would fail for any session.
    """
    if queries := [metric.function for metric in metrics if isinstance(metric.function, Query)]:
        with db.reading(derived=derived, confined=True, wait_s=RUN_WAIT_S) as store:
            for query in queries:
                query.try_run(store)


def metric_text(metric: Metric) -> str:
    """Return a metric with its threshold as `spangrade grade --metric` takes it."""
    return metric.name + threshold_text(metric).replace(" ", "")


def _sessions_of_last_import(store: Store) -> set[str]:
    rows = store.query(
        "SELECT DISTINCT session_id FROM derived.traces SEMI JOIN last_import USING (trace_id)"
    )
    if not rows and not store.query("FROM last_import LIMIT 1"):
        raise FieldError(
            "select.last_import", f"nothing was imported into {store.path} since it has such a record"
        )
    return {session_id for (session_id,) in rows}


def _sessions_of(store: Store, traces: set[str]) -> set[str]:
    wanted = arrow_column("trace_id", traces)
    rows = store.query(
        "SELECT DISTINCT session_id FROM derived.traces SEMI JOIN wanted USING (trace_id)", wanted=wanted
    )
    return {session_id for (session_id,) in rows}
