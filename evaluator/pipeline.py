"""The one path from recorded spans to scores: import, derive, grade, save.

Python, the command line and notebooks all take it. Nothing here prints or exits: results are values, problems
and progress go to callbacks. The database is open only in short windows, so that others can use it while
metrics run and judges answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from spangrade.converters.datasets.formats import Dataset, find_dataset, read_dataset
from spangrade.converters.datasets.golden import NO_QUESTIONS
from spangrade.evaluator.derive import load_batches, load_sessions
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks, import_batches, start_import
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S, WAIT_S, up_to_date
from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.evaluator.grading.file_columns import with_rows
from spangrade.evaluator.grading.grade import grade, may_ask_judge
from spangrade.evaluator.grading.match_questions import NO_ANSWERS, check_answers
from spangrade.evaluator.grading.metadata import groups_of
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.grading.revision import revision
from spangrade.evaluator.grading.run_details import NO_TAGS, GradedBy, RunDetails, details_json
from spangrade.evaluator.grading.selection import ALL, Selection
from spangrade.evaluator.grading.stored_questions import expectations
from spangrade.evaluator.grading.stored_selection import StoredSelection, select_sessions
from spangrade.evaluator.judge.choice import use_judge_of_run
from spangrade.evaluator.judge.options import DEFAULTS as JUDGE_DEFAULTS
from spangrade.evaluator.judge.options import JudgeOptions, judge_of_run
from spangrade.evaluator.judge.run import spent_since
from spangrade.evaluator.metrics import Metric, load_metrics
from spangrade.evaluator.metrics.files import requested
from spangrade.evaluator.metrics.queries import Query
from spangrade.evaluator.reports.facts import SessionFacts
from spangrade.evaluator.reports.json import write_results, written
from spangrade.evaluator.review.scores.as_metric import external_metrics
from spangrade.evaluator.run import JudgeUsage, Run
from spangrade.evaluator.save_run import save
from spangrade.evaluator.session import Session
from spangrade.tracer.errors import InputError, StoreError
from spangrade.tracer.span import Problem, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column

SESSIONS_AT_ONCE = 2_000


class SessionReader:
    """The sessions that a store holds when the reader is made, each once, read in batches.

    The first batch is read at once; the database is open for each other one only while it is read. A session
    that is derived again in between moves out of its batch: it is read by its id at the end.
    """

    def __init__(self, store: Store, only: set[str] | None = None) -> None:
        self._db = store.path
        self._unread: set[str] = set()
        self._ranges: list[tuple[int, int]] = []
        low, size = None, 0
        rows = store.query(
            "SELECT batch, list(session_id) FROM derived.sessions GROUP BY batch ORDER BY batch"
        )
        for batch, ids in rows:
            wanted = ids if only is None else [session_id for session_id in ids if session_id in only]
            if not wanted:
                continue
            self._unread.update(wanted)
            low = batch if low is None else low
            size += len(ids)
            if size >= SESSIONS_AT_ONCE:
                self._ranges.append((low, batch))
                low, size = None, 0
        if low is not None:
            self._ranges.append((low, batch))
        self._ranges.reverse()
        self.ids = frozenset(self._unread)
        self._first = self._next_batch(store)

    def read(self, callbacks: Callbacks = DEFAULT, *, wait_s: float = RUN_WAIT_S) -> Iterator[Session]:
        """Yield the sessions in the order in which they were derived; once.

        One that was deleted since is reported and left out. Raises StoreLockedError if another process has
        the database open for longer than `wait_s`.
        """
        yield from self._taken(self._first)
        while self._ranges:
            with Store.open(self._db, read_only=True, wait_s=wait_s) as store:
                batch = self._next_batch(store)
            yield from self._taken(batch)
        moved_ids = sorted(self._unread)
        for start in range(0, len(moved_ids), SESSIONS_AT_ONCE):
            ids = moved_ids[start : start + SESSIONS_AT_ONCE]
            with up_to_date(self._db, callbacks, wait_s=wait_s) as store:
                moved = load_sessions(store, ids)
            yield from self._taken(moved)
        for session_id in sorted(self._unread):
            callbacks.on_problem(
                Problem(f"session {session_id}", "deleted before it was read", dropped=False)
            )

    def _next_batch(self, store: Store) -> Iterator[Session]:
        return load_batches(store, *self._ranges.pop()) if self._ranges else iter(())

    def _taken(self, sessions: Iterable[Session]) -> Iterator[Session]:
        for session in sessions:
            if session.session_id in self._unread:
                self._unread.remove(session.session_id)
                yield session


@few_collections()
def grade_dataset(
    db: Path,
    dataset: Path | None,
    *,
    spans: Sequence[Path] = (),
    metrics: Sequence[str | Metric] = (),
    metrics_files: Sequence[Path] = (),
    selection: Selection = ALL,
    stored: StoredSelection | None = None,
    last_import: bool = False,
    answers: Mapping[str, str] = NO_ANSWERS,
    without: Collection[str] = (),
    require_match: bool = False,
    group_by: str | None = None,
    name: str | None = None,
    tags: Mapping[str, str] = NO_TAGS,
    judge_options: JudgeOptions = JUDGE_DEFAULTS,
    out: Path | None = None,
    callbacks: Callbacks = DEFAULT,
) -> Run:
    """Grade sessions of a database against a dataset, or by metrics alone; save the scores, return the run.

    With recorded spans (given, or beside the dataset in its folder) these are imported and their sessions
    graded; with a dataset that brings its own sessions, those; else all stored sessions or, with
    `last_import`, those of the files that were imported last. The `selection` of them is graded and, without
    a dataset, the `stored` selection. `answers` maps ids of sessions to those of the golden questions that
    they answer, whatever the spans record. The references named in `without` are not gates; with
    `require_match` an unmatched session counts as inconclusive. `group_by`, as in `metadata.topic`, groups
    the results. `name` and `tags` are the run's, to find it by. The reports are written in the folder `out`
    (docs/reports.md).

    The database is created only if the dataset brings its sessions, or spans are imported.
    """
    judge = judge_of_run(judge_options)
    spent_before = judge.spent
    recordings = list(spans)
    if dataset is None:
        golden = Dataset(NO_QUESTIONS, None, [])
    else:
        if dataset.is_dir():
            dataset, beside = find_dataset(dataset)
            recordings = recordings or beside
        golden = read_dataset(dataset)
    if golden.spans is not None and (recordings or last_import):
        option = "--spans" if recordings else "--last-import"
        raise InputError(f"{dataset}: it brings its own sessions; expected no {option}")
    external = external_metrics(db, metrics, WAIT_S)
    wanted = requested_metrics(metrics, metrics_files, golden.columns, external)
    if dataset is None and not wanted:
        raise InputError("grade by what? Expected a dataset, --metric, or gates in spangrade.toml")
    if judge_options.names_model and may_ask_judge(golden.questions, wanted, without):
        judge.check_model()
    for problem in golden.problems:
        callbacks.on_problem(problem)
    incomplete = any(problem.dropped for problem in golden.problems)
    check_answers(answers, golden.questions)
    groups = None if group_by is None else groups_of(group_by, golden.questions)
    questions = selection.where.chosen(golden.questions)

    sessions, complete = sessions_to_grade(db, recordings, golden.spans, last_import, callbacks)
    incomplete |= not complete
    if answers.keys() - sessions.ids:
        missing = min(answers.keys() - sessions.ids)
        raise InputError(f"--question: no session {missing!r} to grade: `spangrade sessions` lists them")
    if stored is not None:
        with up_to_date(db, callbacks, wait_s=RUN_WAIT_S, confined=True) as store:
            only = select_sessions(store, stored) & sessions.ids
        with up_to_date(db, callbacks, wait_s=RUN_WAIT_S) as store:
            sessions = SessionReader(store, only)
    if selection != ALL:
        only = selection.ids(sessions.read(callbacks), golden.questions, {**golden.answers, **answers})
        if unknown := [session_id for session_id in selection.session_ids if session_id not in only]:
            raise InputError(f"{db}: no session {unknown[0]!r} to grade: `spangrade sessions` lists them")
        with up_to_date(db, callbacks, wait_s=RUN_WAIT_S) as store:
            sessions = SessionReader(store, only)
    try_queries(db, wanted)

    plan = MetricPlan.of(wanted, load_metrics(), without, judge_options.threshold)
    run = Run(
        uuid.uuid4().hex,
        "" if dataset is None else str(dataset),
        incomplete=incomplete,
        gates=[metric.name for metric in wanted if metric.threshold is not None],
        require_match=require_match,
        thresholds=plan.thresholds,
        groups=groups,
        unreviewed=sum(question.reviewed is False for question in questions.golden_questions),
    )
    callbacks.on_progress("grading")
    with SessionFacts() as facts, use_judge_of_run(judge):
        read = with_rows(run.noted(sessions.read(callbacks)), golden.rows, callbacks.on_problem)
        grades = grade(
            read if out is None else facts.noted(read),
            golden.questions,
            wanted,
            without,
            {**golden.answers, **answers},
            {question.id for question in questions.golden_questions},
            judge_options.threshold,
        )
        for one in grades if out is None else written(grades, out):
            run.add(one)
        run.judge = JudgeUsage(judge.name, spent_since(spent_before, judge.spent))
        texts = [metric if isinstance(metric, str) else metric_text(metric) for metric in metrics]
        graded_by = GradedBy(
            tuple(map(str, metrics_files)),
            tuple(sorted(without)),
            selection.where.text,
            require_match,
            judge_options.threshold,
            judge_options.votes,
        )
        details = RunDetails(name, tags, revision(Path.cwd()), plan.metrics, graded_by)
        save(db, run, texts, questions.golden_questions, details, wait_s=RUN_WAIT_S)
        if out is not None:
            from spangrade.evaluator.reports.files import write_reports  # JUnit's XML takes 10 ms to import

            write_results(run, out, details_json(details, expectations(questions.golden_questions)))
            write_reports(run, out, questions, facts, datetime.now(UTC), wanted)
    return run


def stored_sessions(db: Path, selection: StoredSelection, callbacks: Callbacks) -> Iterator[Session]:
    """Yield the stored sessions that a selection chooses. Raises InputError as `select_sessions` does."""
    with up_to_date(db, callbacks, wait_s=RUN_WAIT_S, confined=True) as store:
        only = select_sessions(store, selection)
    with up_to_date(db, callbacks, wait_s=RUN_WAIT_S) as store:
        reader = SessionReader(store, only)
    yield from reader.read(callbacks)


def try_queries(db: Path, metrics: Iterable[Metric], *, read_only: bool = False) -> None:
    """Run the queries among metrics on a database; one that fails breaks its metric alone."""
    if queries := [metric.function for metric in metrics if isinstance(metric.function, Query)]:
        with Store.open(db, read_only=read_only, confined=True, wait_s=RUN_WAIT_S) as store:
            for query in queries:
                query.try_run(store)


def sessions_to_grade(
    db: Path,
    recordings: Sequence[Path],
    own_spans: Sequence[Span] | None,
    last_import: bool,
    callbacks: Callbacks,
) -> tuple[SessionReader, bool]:
    """Return the sessions of recordings, of a dataset's own spans or of a database, and whether all was read.

    The recordings, or the dataset's spans, are stored first. Raises StoreError if there are neither and no
    database.
    """
    complete = True
    if recordings:
        intake, parts = start_import(db, recordings, callbacks)
        import_batches(partial(Store.open, db, wait_s=WAIT_S), intake, parts, callbacks)
        complete = not intake.incomplete
    elif own_spans is not None:
        with Store.open(db, wait_s=WAIT_S) as store:
            store.add(own_spans)
    elif not db.exists():
        raise StoreError(f"{db}: no such database: import spans first, or name another with --db")
    only: set[str] | None = None
    with up_to_date(db, callbacks) as store:
        if recordings:
            only = _sessions_of(store, intake.traces)
        elif own_spans is not None:
            only = _sessions_of(store, {span.trace_id for span in own_spans})
        elif last_import:
            only = _sessions_of_last_import(store)
        return SessionReader(store, only), complete


def requested_metrics(
    metrics: Iterable[str | Metric],
    files: Sequence[Path],
    columns: Collection[str] = (),
    others: Mapping[str, Metric] = MappingProxyType({}),
) -> tuple[Metric, ...]:
    """Return the metrics that texts (`NAME>=T`) ask for, those that are given, and those of files.

    `columns` are those of the dataset, which definitions may use beside the known ones. `others` may be
    requested too. Raises InputError for a name that is not known, or is requested twice.
    """
    metrics = list(metrics)
    by_name = requested([metric for metric in metrics if isinstance(metric, str)], files, columns, others)
    found = {metric.name: metric for metric in by_name}
    for metric in metrics:
        if isinstance(metric, Metric) and found.setdefault(metric.name, metric) is not metric:
            raise InputError(f'metric "{metric.name}" is requested twice')
    return tuple(found.values())


def metric_text(metric: Metric) -> str:
    """Return a metric with its threshold as `spangrade grade --metric` takes it."""
    if metric.threshold is None:
        return metric.name
    return f"{metric.name}{'<=' if metric.higher_is_better is False else '>='}{metric.threshold:g}"


def _sessions_of_last_import(store: Store) -> set[str]:
    rows = store.query(
        "SELECT DISTINCT session_id FROM derived.traces SEMI JOIN last_import USING (trace_id)"
    )
    if not rows and not store.query("FROM last_import LIMIT 1"):
        raise InputError(
            f"{store.path}: nothing was imported into it since it has such a record; see --since"
        )
    return {session_id for (session_id,) in rows}


def _sessions_of(store: Store, traces: set[str]) -> set[str]:
    wanted = arrow_column("trace_id", traces)
    rows = store.query(
        "SELECT DISTINCT session_id FROM derived.traces SEMI JOIN wanted USING (trace_id)", wanted=wanted
    )
    return {session_id for (session_id,) in rows}
