"""The public API: a database of spans and sessions.

`spangrade.open()` returns a `Database`. It holds no file: each call opens the database, works and closes it,
so that agents and other processes can write in between. Each method is a few lines over a function of the
folder that does the work. Modules that a single method needs are imported in it: all of them take 50 ms, and
an import or a list of sessions does without.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from spangrade.evaluator.derive import load, load_sessions, not_understood
from spangrade.evaluator.derive.settings import Configured
from spangrade.evaluator.derive.sync.intake import (
    DEFAULT,
    Callbacks,
    Imported,
    check_files,
    import_files,
    log_problem,
)
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S, WAIT_S, DatabaseFile, derive
from spangrade.evaluator.derive.sync.update import count_sessions
from spangrade.evaluator.grading.run_list import list_runs
from spangrade.evaluator.grading.spec import Gates, GradeSpec, Questions, Selection, StrPath, several
from spangrade.evaluator.grading.stored_sessions import (
    StoredGrade,
    failed_sessions,
    find_session_id,
    find_session_to_show,
    grades_of,
    latest_grade,
    list_sessions,
)
from spangrade.evaluator.judge.options import JudgeOptions
from spangrade.evaluator.maintenance import delete as deletion
from spangrade.evaluator.maintenance.delete import Deleted
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.metrics.external import ExternalScore, external_scores, save_external_scores
from spangrade.evaluator.reports.kinds import ALL_REPORTS, Report, reports_named
from spangrade.evaluator.results.origin import counts_by_origin, listed_origin, origin_condition
from spangrade.evaluator.results.session_sort import SessionSort
from spangrade.evaluator.review.scores.queue import ToReview, queued
from spangrade.evaluator.review.scores.queues import USUAL
from spangrade.evaluator.session import Session
from spangrade.evaluator.settings import (
    NO_SETTINGS,
    ProjectSettings,
    filled,
    load_settings,
    with_definitions,
)
from spangrade.tracer.base.errors import InputError, StoreError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.plugins import notebook_html
from spangrade.tracer.base.quantities import check_age, parsed_time
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store
from spangrade.tracer.store.query import MAX_ROWS, TIMEOUT_S, Rows, select
from spangrade.tracer.store.store import Stored

if TYPE_CHECKING:
    from spangrade.evaluator.agents.accept import Accepted
    from spangrade.evaluator.agents.earlier import FlippedSince
    from spangrade.evaluator.apps.audit.failure_to_golden import Corrected
    from spangrade.evaluator.apps.audit.options import Mutants
    from spangrade.evaluator.apps.audit.report import Audit
    from spangrade.evaluator.apps.server.grade.options import WatchOptions
    from spangrade.evaluator.apps.server.grade.send_scores import SentScores
    from spangrade.evaluator.apps.server.grade.watch import WatchSummary
    from spangrade.evaluator.apps.server.start import ServedBy, ServeOptions
    from spangrade.evaluator.derive.sync.why import SpanReading
    from spangrade.evaluator.grading.regrade import Regraded
    from spangrade.evaluator.grading.run import Run
    from spangrade.evaluator.grading.run_options import RunOptions
    from spangrade.evaluator.maintenance.doctor import Checked
    from spangrade.evaluator.maintenance.lint import Finding as Finding  # noqa: PLC0414 (for the command line)
    from spangrade.evaluator.metrics.causes import Evidence
    from spangrade.evaluator.results.alarms import Alarm
    from spangrade.evaluator.review.mining.call_rules import MinedRule
    from spangrade.evaluator.statistics.agreement.agreement import Agreement
    from spangrade.evaluator.statistics.agreement.check import JudgeCheck
    from spangrade.evaluator.statistics.clusters import Cluster
    from spangrade.evaluator.statistics.comparison.condition import Compared
    from spangrade.evaluator.statistics.comparison.sample import Sample
    from spangrade.evaluator.statistics.trends.trend import Trend

__all__ = [
    "Callbacks",
    "Database",
    "Deleted",
    "ExternalScore",
    "GoldenAddition",
    "GradedSession",
    "Imported",
    "Metric",
    "Rows",
    "Session",
    "SessionSort",
    "StoredGrade",
    "ToReview",
    "check_age",
    "default_path",
    "grade",
    "list_metrics",
    "open",
    "open_lake",
    "sessions",
]

Metrics = Gates | str | Metric | Iterable[str | Metric]
NEAREST = "nearest"  # the settings of the project
MEMORY = ":memory:"  # as in duckdb.connect


def app(name: str) -> Any:
    """Return a module of an app, by its name below `apps`: the core imports none, and no app another."""
    return import_module(f"spangrade.evaluator.apps.{name}")


class GoldenAddition(NamedTuple):
    """The result of adding sessions to a golden file.

    `added` is the number of questions that were added. `volatile` names the values that look generated, such
    as ids and timestamps: another run has others.
    """

    added: int
    problems: Sequence[Problem]
    volatile: Sequence[str]


class GradedSession(NamedTuple):
    """A session, the verdict that it shows with its scores (None if no run graded it), and other scores.

    `external_scores` are those that people, traces and programs gave it.
    """

    session: Session
    grade: StoredGrade | None
    external_scores: tuple[ExternalScore, ...]

    def _repr_html_(self) -> str | None:
        return notebook_html(self)


def default_path() -> Path:
    """Return the path of the database that is used where none is named."""
    return Path(load_settings().settings.database)


def open(  # noqa: A001 (as in duckdb.connect, the module's name says of what)
    path: StrPath | None = None,
    *,
    settings: StrPath | Literal["nearest"] | None = NEAREST,
    on_problem: Callable[[Problem], None] = log_problem,
    on_progress: Callable[[str], None] | None = None,
    on_share: Callable[[float], None] | None = None,
    workers: int | None = 1,
) -> Database:
    """Return the database at a path, without one that of $SPANGRADE_DB, else of the settings.

    Nothing is opened yet, and the file is created by the first import or grade. With `":memory:"` it is in a
    temporary folder, and gone when the `Database` is closed, or no longer used. `on_problem` is called with
    each part of an input that cannot be used or is odd; by default a warning is logged. `on_progress` is
    called with the name of each step that may take a while, `on_share` with the share of it that is done,
    from 0 to 1, where that is known. `workers` is the number of processes that read the recordings of a
    grade, and grade its sessions; None is one per CPU, up to 4, from about 20,000 spans, or 10,000 sessions,
    on. A script that has workers must do its work under `if __name__ == "__main__":`.

    The settings of the project (docs/python.md) apply as they do to the command line: `settings` is
    the file, by default the nearest; with None neither a file nor a variable counts. Raises InputError if
    they cannot be used.
    """
    project, callbacks = _of_project(settings, on_problem, on_progress, on_share)
    return Database(Path(project.database if path is None else path), callbacks, project, workers)


def _of_project(
    settings: StrPath | None,
    on_problem: Callable[[Problem], None],
    on_progress: Callable[[str], None] | None,
    on_share: Callable[[float], None] | None,
) -> tuple[ProjectSettings, Callbacks]:
    """Return the settings, and the callbacks with those settings by which sessions are derived."""
    if settings is None:
        project = NO_SETTINGS
    else:
        project = load_settings(None if settings == NEAREST else Path(settings)).settings
    callbacks = Callbacks(on_problem, configured=Configured.of(project))
    if on_progress is not None:
        callbacks = callbacks._replace(on_progress=on_progress)
    if on_share is not None:
        callbacks = callbacks._replace(on_share=on_share)
    return project, callbacks


def grade(
    dataset: Questions | GradeSpec | None = None,
    *,
    db: StrPath | None = None,
    gates: Metrics | None = None,
    select: Selection | str | None = None,
    judge: JudgeOptions | str | None = None,
    name: str | None = None,
    out: StrPath | None = None,
) -> Run:
    """Grade sessions in the database `db`, without it in that of `spangrade grade`; see `Database.grade`."""
    return open(db).grade(dataset, gates=gates, select=select, judge=judge, name=name, out=out)


def sessions(files: StrPath | Iterable[StrPath]) -> list[Session]:
    """Return the sessions in files of recorded spans and logs; no database is kept.

    What cannot be read is logged and left out. Raises InputError if nothing can be read.
    """
    with open(MEMORY) as db:
        db.import_files(files)
        return list(db)


def _write_html(stored: Stored, file: Path, run_id: str) -> None:
    from spangrade.evaluator.reports.html.report import write_report  # jinja2 takes 50 ms to import

    write_report(partial(stored.reading, derived=False, wait_s=RUN_WAIT_S), run_id, file)


class Database:
    """A DuckDB file of spans, the sessions that are derived from them, and their scores.

    It keeps no file open between calls. Every method waits up to 5 s for another process that has the file
    open, then raises StoreLockedError; all raise StoreError for a file that is not there or cannot be used.
    """

    def __init__(
        self,
        path: Path | Stored,
        callbacks: Callbacks = DEFAULT,
        settings: ProjectSettings = NO_SETTINGS,
        workers: int | None = 1,
    ) -> None:
        self._callbacks = callbacks
        self._workers = workers
        self._settings = settings
        self._folder: TemporaryDirectory[str] | None = None
        if str(path) == MEMORY:
            self._folder = TemporaryDirectory(prefix="spangrade-")
            path = Path(self._folder.name) / "memory.duckdb"
        self.stored: Stored = DatabaseFile(path, callbacks) if isinstance(path, Path) else path

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def _repr_html_(self) -> str | None:
        return notebook_html(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of sessions."""
        with self.stored.reading() as store:
            return count_sessions(store)

    def __bool__(self) -> bool:
        """Return true: a database without sessions is one, too."""
        return True

    def __iter__(self) -> Iterator[Session]:
        """Yield the sessions, as `sessions()` does."""
        return self.sessions()

    def close(self) -> None:
        """Remove a database that was opened as `:memory:`. Of any other, nothing is open between calls."""
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def path(self) -> Path:
        """The path of the file, or the catalog of a lake."""
        return self.stored.path

    @property
    def _file(self) -> Path:
        """The database file. Raises InputError for a lake, which has none."""
        return self.stored.file

    # Sessions in, and out again

    def import_files(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        strict: bool = False,
        session_from: Sequence[str] | None = None,
        ignore_scopes: Sequence[str] | None = None,
        workers: int | None = 1,
    ) -> Imported:
        """Import recorded spans and logs, and derive sessions from them.

        What cannot be read is reported and left out; with `strict` nothing is imported then, and InputError
        is raised. It is raised too if nothing can be read and there is no such database yet. `session_from`
        names span or resource attributes that hold the session's id, before any other; spans of the scopes
        `ignore_scopes` do not count as not understood. The database remembers both, `[]` forgets them.

        `workers` is the number of processes that read the files; None is one per CPU, up to 4, from about
        20,000 spans on. A script that has workers must do its work under `if __name__ == "__main__":`.
        """
        callbacks = self._callbacks
        if ignore_scopes is not None:
            configured = callbacks.configured._replace(ignored_scopes=frozenset(ignore_scopes))
            callbacks = callbacks._replace(configured=configured)
        files = [Path(path) for path in several(paths)]
        if strict:
            check_files(files, callbacks)
        opened = partial(Store.open, self._file, wait_s=WAIT_S)
        return import_files(self._file, opened, files, callbacks, session_from, workers)

    def derive(self, *, all: bool = False, workers: int | None = 1) -> int:  # noqa: A002 (`spangrade doctor --derive-all`)
        """Derive the sessions that are new or out of date, or all of them again; return how many.

        The other methods do the same before they read. For `workers` see `import_files`.
        """
        if not self._file.exists():
            raise StoreError(f"{self.path}: no such database: import spans first")
        self._callbacks.on_progress("deriving sessions")
        return derive(self.path, again=all, workers=workers, callbacks=self._callbacks)

    def delete(
        self,
        sessions: str | Sequence[str] = (),
        *,
        before: str | datetime | None = None,
        by_arrival: bool = False,
        user: str | None = None,
        runs_before: str | datetime | None = None,
        dry_run: bool = False,
        on_start: Callable[[Deleted], None] = lambda counted: None,  # noqa: ARG005
    ) -> Deleted:
        """Delete sessions for good, with their spans, logs and scores; the file becomes smaller.

        Deleted are the sessions with the ids `sessions`, all that ended `before` a time (a `datetime`, a text
        such as `2026-01-31`, or an age such as `30d`), and all in which `user` is named. With `by_arrival`,
        sessions of which a part arrived after that time stay, however old they are. Runs that were graded
        before `runs_before` go with their scores, unless one has the latest verdict of a session that stays.
        With `dry_run` they are only counted. `on_start` is called with the counts before anything is deleted:
        the whole file is written again, once, however many sessions there are. Raises InputError for an
        unknown id, or if nothing says what to delete.
        """
        return deletion.delete(
            self._file,
            sessions=several(sessions),
            before_ns=deletion.time_to_delete(sessions, before, user, runs_before),
            by_arrival=by_arrival,
            user=user,
            runs_before_ns=parsed_time("runs_before", runs_before),
            dry_run=dry_run,
            wait_s=WAIT_S,
            configured=self._callbacks.configured,
            on_start=on_start,
        )

    def sessions(self, *, failed: bool = False) -> Iterator[Session]:
        """Yield the sessions in the order in which they were derived, read in batches.

        With `failed` only those whose verdict is failed or broken.
        """
        from spangrade.evaluator.grading.selection import SessionReader

        with self.stored.reading() as store:
            reader = SessionReader(self.stored, store, failed_sessions(store) if failed else None)
        yield from reader.read(self._callbacks, wait_s=WAIT_S)

    def session(self, session_id: str) -> Session:
        """Return the session of an id, or of an unambiguous beginning of one.

        Raises InputError if there is none, or more than one.
        """
        with self.stored.reading() as store:
            return next(load(store, find_session_id(store, session_id)))

    def list_sessions(
        self,
        *,
        failed: bool = False,
        stale: bool = False,
        sort: str = SessionSort.NEWEST,
        limit: int | None = None,
        origin: str | None = None,
        select: Selection | str | None = None,
    ) -> Rows:
        """Return a row per session: the columns of the view `sessions`, `first_input` and `short_id`.

        `first_input` are the first words of the user, `short_id` is a beginning of the id that `show` takes.
        `sort` is "start", "newest", "latency", "cost", "tokens", "errors" or "verdict", `limit` the number of
        sessions. `failed` lists only sessions whose verdict is failed or broken, `stale` only sessions that
        got more spans after their verdict. `origin` is what made a session: "production", "run",
        "simulated", "test", "drill", "replay" or "any"; without it, sessions of production are listed, or all
        if there are none. `select` chooses among them, as in `grade`. The tables are read, not the view: a
        file may define another view of that name.
        """
        with self._selecting(select) as (store, among):
            return list_sessions(
                store, failed=failed, stale=stale, sort=sort, limit=limit, origin=origin, among=among
            )

    def count_origins(self) -> dict[str, int]:
        """Return how many sessions there are by what made them: `production`, `run` and so on."""
        with self.stored.reading() as store:
            return counts_by_origin(store)

    def not_understood(self) -> dict[str, int]:
        """Return how many spans look like an agent's and were not understood by any dialect, by scope."""
        with self.stored.reading() as store:
            return not_understood.by_scope(store)

    def sql(
        self,
        query: str,
        *,
        timeout_s: float = TIMEOUT_S,
        max_rows: int = MAX_ROWS,
        on_overrun: Callable[[], None] | None = None,
    ) -> Rows:
        """Return the rows of a query over spans, logs, the derived views and the scores.

        It is one SELECT (also DESCRIBE, SHOW, SUMMARIZE), or EXPLAIN of one, and can neither write nor read a
        file. Raises InputError for anything else, if DuckDB refuses it, and if it takes longer than
        `timeout_s`, more memory than SPANGRADE_MEMORY_LIMIT (1GB), or returns more than `max_rows` or 1 GB.

        DuckDB cannot interrupt a single call of a function over a huge value: `on_overrun` is called from
        another thread if the query still runs 5 s after its time.
        """
        with self.stored.reading(confined=True) as store:
            return select(
                store,
                query,
                limited_by="timeout_s",
                timeout_s=timeout_s,
                max_rows=max_rows,
                on_overrun=on_overrun,
            )

    @contextmanager
    def _selecting(self, select: Selection | str | None) -> Iterator[tuple[Store, set[str] | None]]:
        """Give the open database, and the ids of the sessions that a selection chooses; None is all."""
        from spangrade.evaluator.grading.selection import chosen_ids

        chosen = Selection(where=select) if isinstance(select, str) else select
        confined = chosen is not None and chosen != Selection()
        with self.stored.reading(confined=confined) as store:
            yield store, chosen_ids(store, chosen)

    # Grades

    def _spec(
        self,
        dataset: Questions | GradeSpec | None,
        gates: Metrics | None,
        select: Selection | str | None,
        judge: JudgeOptions | str | None,
        *,
        sampled: bool = False,
    ) -> GradeSpec:
        """Return what a grade is asked for, the settings of the project filled in."""
        return filled(GradeSpec.of(dataset, gates, select, judge), self._settings, sampled=sampled)

    def grade(
        self,
        dataset: Questions | GradeSpec | None = None,
        *,
        spans: StrPath | Iterable[StrPath] = (),
        gates: Metrics | None = None,
        select: Selection | str | None = None,
        judge: JudgeOptions | str | None = None,
        name: str | None = None,
        out: StrPath | None = None,
        reports: str | Iterable[str] = ALL_REPORTS,
    ) -> Run:
        """Grade sessions against a dataset or by gates alone, save the scores, and return the run.

        `dataset` is a golden file, a folder with a golden file and recorded spans, an ADK eval set, a
        simulation's CSV or JSONL, a list of questions as in a golden file, or a `GradeSpec`. The sessions of
        `spans` (files, imported first), of the folder, or of the simulation are graded; without any of these,
        all stored sessions. `select` chooses among them: a `Selection`, or a condition in SQL over the view
        `sessions` (`"agent_version = '2'"`).

        `gates` are metrics (`"tools:recall>=0.9"`, a `Metric`, or several), or `Gates` with more options:
        they come on top of the references of the questions. Without a `dataset`, sessions are graded by the
        gates that need no reference.

        The judge is `judge` (`provider/model`, or `JudgeOptions` with limits), else the judge of `use_judge`,
        else that of the settings; `run.judge` has its calls and their cost. Raises InputError for a provider
        that is not installed, and for a model that its provider does not have.

        Omitted arguments are those of the settings; if only the sessions of one run are graded (`of_run`),
        those of this run. `name` is the run's, and `tags` of a `GradeSpec` are notes on it: `spangrade runs`
        and `compare` find it by them. The `reports` (`"junit,markdown"`, or a list; by default all) are
        written in the folder `out` (docs/comparing.md).

        The database is free while metrics run and judges answer. The scores are saved at the end, all or
        none. Raises InputError for what cannot be used.
        """
        from spangrade.evaluator.grading.grade_stored import grade_stored
        from spangrade.evaluator.statistics.repeats.repeats import repeats_of_run

        spec = GradeSpec.of(dataset, gates, select, judge, name)
        recordings = [Path(path) for path in several(spans)]
        given = (spec.dataset, spec.gates.requested, recordings)
        if spec.select.of_run is not None and not any(given):
            from spangrade.evaluator.grading.regrade import grade_again

            spec = replace(spec, gates=with_definitions(spec.gates, self._settings))
            graded = partial(grade_again, spec)
        else:
            spec = filled(spec, self._settings)
            graded = partial(grade_stored, spec, recordings=recordings)
        return self._reported(
            partial(
                graded,
                db=self.stored,
                callbacks=self._callbacks,
                repeats_of=repeats_of_run,
                workers=self._workers,
            ),
            out,
            reports_named(reports),
        )

    def run(
        self,
        agent: object | None = None,
        dataset: Questions | GradeSpec | None = None,
        *,
        name: str | None = None,
        gates: Metrics | None = None,
        select: Selection | str | None = None,
        judge: JudgeOptions | str | None = None,
        options: RunOptions | None = None,
        out: StrPath | None = None,
    ) -> Run:
        """Run an agent over the questions of a dataset, each in a session of its own, and grade the sessions.

        `agent` is anything that `ConversationRunner` takes (a function, a coroutine, a generator, an object
        of a framework), a class, of which each session gets an instance, or a text that names an agent:
        `"package.module:name"`, `"file.py:name"`. The texts of `user_inputs` are its turns, and an exception
        of the agent is the failure of its session. `select` chooses questions (`"metadata.topic = refund"`),
        `options` say how often each is asked, how many at once, and what they may cost. Omitted arguments are
        those of the settings, also the agent and the dataset.

        Each turn is stored when it ends. After an interruption, or when the limit of the cost is reached, the
        same `name` with `RunOptions(resume=True)` asks the missing questions; a session that was interrupted
        stays and is not graded. Without a `name` the run has that of the branch and the commit. Only its own
        sessions are graded, as `grade` grades them with the same arguments.

        Raises InputError for what cannot be used, before the agent runs.
        """
        from spangrade.evaluator.agents.find_agent import agent_of
        from spangrade.evaluator.agents.run import run_agent
        from spangrade.evaluator.statistics.repeats.repeats import repeats_of_run

        asked = self._settings.run
        agent = agent_of(asked) if agent is None else agent
        dataset = asked.dataset if dataset is None else dataset
        if dataset is None:
            raise FieldError(
                "dataset", "expected golden questions, here or in the table `run` of the settings"
            )
        spec = filled(GradeSpec.of(dataset, gates, select, judge, name), self._settings)
        options = asked.options() if options is None else options.filled(asked.options())
        return self._reported(
            partial(
                run_agent,
                agent,
                spec,
                options,
                self._file,
                self._callbacks,
                repeats_of=repeats_of_run,
                workers=self._workers,
            ),
            out,
        )

    def send_scores(self, run: Run | str, url: str, *, dry_run: bool = False) -> SentScores:
        """Send the scores of a stored run to an OTLP receiver, each on its span.

        `run` is one, or named as in `compare`; `url` is that of an OTLP receiver.
        What was accepted is noted in the database, so that it is not sent again, and what was not is sent the
        next time. With `dry_run` nothing is sent: the result has the events. Raises InputError for a URL that
        cannot be used.
        """
        from spangrade.evaluator.grading.run_list import find_run_id

        if isinstance(run, str):
            with self.stored.reading(derived=False) as store:
                run_id = find_run_id(store, run)
        else:
            run_id = run.run_id
        sent: SentScores = app("server.grade.send_scores").send_scores(
            self.stored, run_id, url, dry_run=dry_run
        )
        return sent

    def flips(self, run: Run) -> FlippedSince | None:
        """Return which questions of a run flipped since the earlier run of the same dataset and questions.

        That is the last of the branch that is checked out, else of the branch that it is to go into; None if
        there is none.
        """
        from spangrade.evaluator.agents.earlier import flips_since

        with self.stored.reading(derived=False) as store:
            return flips_since(store, run, Path.cwd())

    def accept(self, run: Run) -> Accepted:
        """Return the golden file of a run with what its failed sessions did as the reference; see `run`.

        Nothing is written until `write()` is called. Raises InputError for a file that cannot be edited.
        """
        from spangrade.evaluator.agents.accept import accept

        ids = [one.session_id for one in run.sessions if one.session_id is not None]
        with self.stored.reading() as store:
            sessions = list(load_sessions(store, ids).decoded())
        return accept(Path(run.dataset), run, sessions)

    def _reported(
        self,
        graded: Callable[..., Run],
        out: StrPath | None,
        wanted: frozenset[Report] = ALL_REPORTS,
    ) -> Run:
        """Return the run that a function grades, with the wanted reports in the folder `out`, if any."""
        if out is None:
            return graded()
        from spangrade.converters.datasets.files import replacing
        from spangrade.evaluator.reports.files import Reports  # JUnit's XML takes 10 ms to import

        # Its callbacks are of this process, and reading what is derived calls none.
        stored = DatabaseFile(self.path) if isinstance(self.stored, DatabaseFile) else self.stored
        with (
            replacing(Path(out)) as new,
            Reports(new, wanted, partial(_write_html, stored, new / "report.html")) as reports,
        ):
            return graded(output=reports)

    def regrade(
        self,
        run: str,
        *,
        dataset: StrPath | None = None,
        gates: Metrics | None = None,
        judge: JudgeOptions | str | None = None,
        without: str | Iterable[str] = (),
    ) -> Regraded:
        """Grade the sessions of a stored run again, without storing it, and return the verdicts that change.

        `run` is named as in `compare`. The run's own metrics, metrics files, `where`, `require_match`, judge
        and references that are not gates are applied again; each of the metrics of `gates` takes the place of
        the run's metric of that name, or is new, and the other arguments take the place of the run's. The
        questions are those of `dataset`, else those that the run had.

        Raises InputError if there is no such run, for a metric or dataset that cannot be used, and for a
        metric of the run that is gone unless `without` names it.
        """
        from spangrade.evaluator.grading.regrade import regrade

        spec = GradeSpec.of(dataset, gates, Selection(of_run=run), judge)
        spec = replace(spec, gates=with_definitions(spec.gates, self._settings))
        return regrade(spec, self.stored, self._callbacks, several(without), self._workers)

    def audit(
        self,
        dataset: StrPath | GradeSpec,
        *,
        spans: StrPath | Iterable[StrPath] = (),
        gates: Metrics | None = None,
        select: Selection | str | None = None,
        judge: JudgeOptions | str | None = None,
        mutants: Mutants | int | None = None,
        write: bool = False,
        out: StrPath | None = None,
    ) -> Audit:
        """Break sessions that pass, in many ways, and return which defects the gates notice.

        The sessions and the gates are those of `grade` with the same arguments. `mutants` is how many are
        made of each session (20), or `Mutants` that say more. A judge is asked only if `judge` names its
        model; otherwise what it would have to rate is undecided. The sessions are held in memory.

        The audit has the references that would catch the survivors, as a diff to the golden file; with
        `write` they are written into it: calls, trajectories and replies only where at least
        `mutants.least_sessions` of a question show them, else they are listed. The reports are written in the
        folder `out`.
        Nothing is saved in the database. Raises InputError as `grade` does, for an unknown kind of mutant,
        and if `write` is asked for with a dataset that is not a golden file.
        """
        asked = GradeSpec.of(dataset, gates, select, judge)
        spec = filled(asked, self._settings)
        # A judge of the settings is not meant for the thousands of replies of an audit.
        spec = replace(spec, judge=replace(spec.judge, model=asked.judge.model))
        audit: Audit = app("audit.run").run_audit(
            spec,
            self.stored,
            app("audit.options").asked_mutants(mutants),
            recordings=[Path(path) for path in several(spans)],
            write=write,
            callbacks=self._callbacks,
            workers=self._workers,
        )
        if out is not None:
            app("audit.printed").write_audit(audit, Path(out))
        return audit

    def watch(
        self,
        dataset: StrPath | GradeSpec | None = None,
        *,
        gates: Metrics | None = None,
        select: Selection | str | None = None,
        judge: JudgeOptions | str | None = None,
        options: WatchOptions | None = None,
        stop: threading.Event | None = None,
        on_start: Callable[[], None] = lambda: None,
        on_round: Callable[[WatchSummary], None] = lambda _: None,
    ) -> WatchSummary:
        """Grade sessions once they are idle, until `stop` is set; return what was graded.

        They are graded as by `grade` with the same arguments; of a `Selection`, `since` and `sample` count. A
        session is graded once for what it is, and again if something arrives that changes it. The scores are
        saved in batches, in one run per day (UTC); where it stopped, also by a crash, the next call goes on.
        The judge's limits are for a day, too: when they are reached, sessions that need it wait until the
        next day.
        `on_start` is called when all arguments are known to be good, `on_round` after each look that graded a
        session. See docs/production.md.

        Raises InputError for a value that cannot be used and, with `once`, StoreError if the database cannot
        be used.
        """
        spec = self._spec(dataset, gates, select, judge, sampled=True)
        if select is None or not isinstance(select, Selection) or select.limit is None:
            spec = replace(spec, select=replace(spec.select, limit=None))
        options = self._watching(options)
        summary: WatchSummary = app("server.grade.watch").watch(
            spec, self._file, options, self._callbacks, stop, on_start, on_round
        )
        return summary

    def _watching(self, options: WatchOptions | None) -> WatchOptions:
        """Return how sessions are watched, with the alerts of the settings."""
        from spangrade.evaluator.reports.html.links import ServerLinks

        alerts = tuple(self._settings.alerts)
        options = options or app("server.grade.options").WatchOptions()
        return replace(options, alerts=alerts, links=ServerLinks())

    def serve(
        self,
        options: ServeOptions,
        dataset: StrPath | GradeSpec | None = None,
        *,
        gates: Metrics | None = None,
        select: Selection | str | None = None,
        judge: JudgeOptions | str | None = None,
        watching: WatchOptions | None = None,
        on_ready: Callable[[str, str, str], None] = lambda pages, http, grpc: None,  # noqa: ARG005
    ) -> None:
        """Receive spans, grade sessions as `watch` does, and serve pages, until SIGTERM or SIGINT.

        Nothing is graded without a dataset, gates and rules. `on_ready` is called with the addresses of the
        pages, and for OTLP over HTTP and gRPC. See docs/production.md. Raises InputError or StoreError if it
        cannot start.
        """
        app("server.start").serve(
            options, lambda: self.served_by(dataset, gates, select, judge, watching), on_ready
        )

    def served_by(
        self,
        dataset: StrPath | GradeSpec | None = None,
        gates: Metrics | None = None,
        select: Selection | str | None = None,
        judge: JudgeOptions | str | None = None,
        watching: WatchOptions | None = None,
    ) -> ServedBy:
        """Return what `serve` grades by. Raises InputError if that cannot be."""
        spec = self._spec(dataset, gates, select, judge, sampled=True)
        spec = replace(spec, select=replace(spec.select, limit=None))
        made: ServedBy = app("server.start").ServedBy(spec, self._watching(watching), self._callbacks)
        return made

    def why(self, session_id: str) -> list[SpanReading]:
        """Return the spans of a session as they are read, each with what passes over them changed and why.

        `session_id` names a session as it does for `graded_session`. Raises InputError if there is none.
        """
        from spangrade.evaluator.derive.sync.why import readings

        with self.stored.reading() as store:
            found = find_session_to_show(store, session_id, self._callbacks.on_problem)
            return list(readings(store, found))

    def lint(
        self,
        session_id: str | None = None,
        *,
        dataset: StrPath | GradeSpec | None = None,
        gates: Metrics | None = None,
        select: Selection | str | None = None,
    ) -> list[Finding]:
        """Return what the recordings of the sessions, or of one, lack, and how to fix it.

        With a `dataset`, after these come the sessions and golden questions that a grade by it and the
        `gates` would find inconclusive; with `select` only what is about the sessions that it chooses.
        Nothing is saved, and no judge is asked.
        """
        from spangrade.evaluator.grading.prepare import prepare
        from spangrade.evaluator.maintenance.lint_grade import lint_stored

        prepared = None
        if dataset is not None:
            prepared = prepare(self._spec(dataset, gates, None, None), self.stored, self._callbacks)
        with self._selecting(select) as (store, among):
            chosen = None if session_id is None else find_session_id(store, session_id)
            found = lint_stored(store, chosen, prepared, self._callbacks.on_problem, self._workers)
        return found if among is None else [one for one in found if one.session_id in among]

    def examine(self, settings_file: Path | None = None, endpoint: str | None = None) -> list[Checked]:
        """Return the state of the installation and the database, as `spangrade doctor` shows it."""
        from spangrade.evaluator.maintenance.doctor import examine

        return list(examine(self.stored, self.lint, settings_file, endpoint))

    # What was graded

    def latest_grade(self, session_id: str) -> StoredGrade | None:
        """Return the verdict that a session shows, with its scores; None if no run graded it.

        That is the latest by a golden question, if there is one; `policy` is then the latest without one.

        `session_id` may be an unambiguous beginning of an id. Raises InputError if there is no such session.
        """
        with self.stored.reading() as store:
            return latest_grade(store, find_session_id(store, session_id))

    def graded_session(self, session_id: str, run: str | None = None) -> GradedSession:
        """Return a session with its latest grade, or that of `run`, and its scores from elsewhere.

        `session_id` may be the unambiguous beginning of an id, or a golden question: then its newest session
        is returned. Raises InputError if there is no such session, or no such run, or the run did not grade
        it.
        """
        from spangrade.evaluator.grading.run_list import find_run_id

        with self.stored.reading() as store:
            run_id = None if run is None else find_run_id(store, run)
            found = find_session_to_show(store, session_id, self._callbacks.on_problem, run_id)
            given = external_scores(store, [found]).get(found, ())
            grade = grades_of(store, [found], run_id).get(found)
            if run is not None and grade is None:
                raise InputError(f"session {found}: run {run} did not grade it; expected a run that did")
            return GradedSession(next(load(store, found)), grade, tuple(given))

    def runs(self) -> Sequence[Run]:
        """Return the stored runs, the oldest first: `runs()[-1]` is what the newest `grade` returned.

        Each is read when it is asked for. Of a stored run its `groups`, and whether it is `incomplete`, are
        not known.
        """
        from spangrade.evaluator.grading.stored_run import StoredRuns

        with self.stored.reading() as store:
            run_ids = [str(run["run_id"]) for run in list_runs(store)]
        return StoredRuns(run_ids[::-1], self.stored.reading)

    def list_runs(self, *, limit: int | None = None, watched: bool = False) -> Rows:
        """Return a row per grading run, the newest first, with the number of its sessions of each verdict.

        With `watched` they are the rolling runs of `watch`, one per policy and `day`, else all other runs.
        """
        with self.stored.reading() as store:
            return list_runs(store, limit=limit, watched=watched)

    def baseline(self, name: str) -> Sample:
        """Return what a run is to be compared with, as it is now, for `compare`.

        Take it before the run: `latest`, a branch's newest run and a name that is used again are another run
        after it. It is named as in `compare`, whose errors are raised.
        """
        from spangrade.evaluator.grading.run_list import no_run
        from spangrade.evaluator.statistics.comparison.sample_files import (
            is_file_of_run,
            sample_named,
            selects_sessions,
        )

        if not self.stored.exists():
            if not is_file_of_run(name):
                raise no_run(name, self.path)
            return sample_named(None, name)
        with self.stored.reading(confined=selects_sessions(name)) as store:
            return sample_named(store, name)

    def compare(
        self,
        first: str | Sample,
        second: str,
        *,
        by: str | None = None,
        metrics: str | Iterable[str] = (),
        fail_if: str | Iterable[str] = (),
        min_compared: float | None = None,
        allow_changed_questions: bool = False,
        select: Selection | str | None = None,
    ) -> Compared:
        """Compare two runs, or two selections of sessions, question by question where both have the same.

        A run is named by its name (the newest of that name), its id or the beginning of it, `latest`,
        `branch:NAME` (the newest of a git branch), or the folder that `grade(out=…)` wrote or a file in it. A
        selection is a condition in SQL, as `grade(select=…)` takes it: `"agent_version = '1.4'"`; each of its
        sessions has the grade of the latest run that graded it. With `by` "version", "prompt" or "model" the
        two are versions of the agent, prompts or models, and the sessions those of them. `metrics` limits the
        comparison to these; the share of sessions that passed is `passed`. `fail_if` are conditions such as
        `"worse"`, `"regressed > 0"`, `"passed worse by 5 points"` or `"cost worse by 10%"`; `min_compared` is
        one on the share of questions that can be compared. Those whose references, gates, versions of
        metrics or judge are not the same cannot, unless `allow_changed_questions`. Of both sides only the
        sessions that `select` chooses count.

        `first` may be a `baseline` that was taken before.

        Raises InputError if there is no such run, if both are one run, for a choice of sessions that cannot
        be used or that no graded session meets, for two that some but not all sessions meet both, for a
        metric or condition that cannot be used, and for a condition that needs scipy, which is not installed.
        """
        from spangrade.evaluator.grading.selection import chosen_ids, unrecorded
        from spangrade.evaluator.statistics.by import chosen_by
        from spangrade.evaluator.statistics.comparison.compare import compare
        from spangrade.evaluator.statistics.comparison.condition import (
            Compared,
            LossCondition,
            at_least_compared,
            judge,
            parse_condition,
        )
        from spangrade.evaluator.statistics.comparison.sample_files import (
            is_file_of_run,
            samples_of,
            selects_sessions,
        )

        if min_compared is not None and not 0 <= min_compared <= 1:
            raise FieldError("min_compared", f"expected a share from 0 to 1, found {min_compared:g}")
        conditions = [parse_condition(text) for text in several(fail_if)]
        names = (first, second)
        if by is not None:
            names = (chosen_by(by, first) if isinstance(first, str) else first), chosen_by(by, second)
        texts = [name for name in names if isinstance(name, str)]
        chosen = Selection(where=select) if isinstance(select, str) else select
        if all(map(is_file_of_run, texts)) and not self.stored.exists():
            samples, without = samples_of(None, *names), 0
        else:
            confined = any(map(selects_sessions, texts)) or chosen not in (None, Selection())
            with self.stored.reading(confined=confined) as store:
                samples = samples_of(store, *names)
                if (among := chosen_ids(store, chosen)) is not None:
                    samples = samples[0].of_sessions(among), samples[1].of_sessions(among)
                without = 0 if by is None else unrecorded(store, by)
        named = [one.metric for one in conditions if isinstance(one, LossCondition)]
        comparison = compare(*samples, several(metrics), named=named, allow_changed=allow_changed_questions)
        if by is not None:
            comparison = comparison._replace(by=by, unrecorded=without)
        results = [judge(one, comparison) for one in conditions]
        if min_compared is not None:
            results.insert(0, at_least_compared(min_compared, comparison))
        return Compared(comparison, tuple(results))

    def run_to_show(self, named: str) -> str | None:
        """Return the id of the run that `show` is to show: None if a session, or nothing, has this name.

        A session's whole id comes before the name of a run, and that before the beginning of a session's id.
        """
        from spangrade.evaluator.grading.run_list import find_run_id, is_name_of_run

        begins = (
            "SELECT bool_or(session_id = $id), count(*) FROM derived.sessions "
            "WHERE starts_with(session_id, $id)"
        )
        with self.stored.reading() as store:
            ((is_whole, number),) = store.query(begins, {"id": named})
            if is_whole or (number and not is_name_of_run(store, named)):
                return None
            try:
                return find_run_id(store, named)
            except InputError:
                return None

    def explain(
        self,
        run: str | None = None,
        what: str = "",
        *,
        baseline: str | None = None,
        select: Selection | str | None = None,
    ) -> list[Cluster]:
        """Return why sessions failed: those that failed alike together.

        First is the largest cluster or, with a `baseline` or a `since` in `select`, that with most sessions
        beyond what the baseline, or the time of equal length before, leads to expect.

        The sessions are those of a run or, without `run`, those of production (of any origin if there are
        none) by the verdict that they show. Clusters ignore arguments and values: eight sessions that lack a
        call of one tool are one cluster. A cluster has the facts that distinguish it from sessions that pass,
        of the run or of the `baseline`; runs are named as in `compare`. With `what`, only clusters whose text
        contains it are returned. Raises InputError if there is no such run.
        """
        from spangrade.evaluator.grading.run_list import find_run_id, refuse_itself
        from spangrade.evaluator.grading.selection import chosen_ids
        from spangrade.evaluator.statistics.clusters import FAILING
        from spangrade.evaluator.statistics.comparison.graded import sessions_of_run, shown_sessions
        from spangrade.evaluator.statistics.failure_causes.causes import ranked
        from spangrade.evaluator.statistics.failure_causes.groups import explain

        with self._selecting(select) as (store, among):
            run_id = None if run is None else find_run_id(store, run)
            if run_id is None:
                asked = select.origin if isinstance(select, Selection) else None
                sessions = shown_sessions(store, origin_condition(listed_origin(store, asked)))
            else:
                sessions = sessions_of_run(store, run_id)
            chosen = sessions
            if among is not None:
                sessions = tuple(one for one in sessions if one.session_id in among)
            base = None if baseline is None else find_run_id(store, baseline)
            refuse_itself(run_id, base, (run or "", baseline or ""))
            others = () if base is None else sessions_of_run(store, base)
            clusters = explain(store, sessions, others, run_id)
            before = others
            earlier = select.period_before(time.time_ns()) if isinstance(select, Selection) else None
            if run_id is None and earlier is not None:
                ids = chosen_ids(store, earlier)
                before = tuple(one for one in chosen if ids is None or one.session_id in ids)
            failed = [one for one in before if one.verdict in FAILING]
            groups = ranked(store, clusters, len(sessions), failed, len(before), base)
            found = [one.cluster for one in groups]
        return [one for one in found if what in one.what or any(what in each for each, _ in one.reasons)]

    def trend(
        self,
        metric: str,
        *,
        by: str = "day",
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        origin: str = "production",
        select: Selection | str | None = None,
    ) -> Trend:
        """Return the mean of a metric of the stored sessions by `day`, `version` or `model`, with intervals.

        `metric` is `passed`, `cost`, `latency`, `tokens`, or any that was measured: what counts is the
        latest run that graded, or measured, a session. The sessions are those that started from `since` on
        and before `until` (see `delete` for the form of a time), of an `origin` as `list_sessions` takes it.

        Raises InputError for a metric that no session has, and if an interval needs scipy and it is not
        installed.
        """
        from spangrade.evaluator.statistics.trends.trend import trend

        since_ns, until_ns = parsed_time("since", since), parsed_time("until", until)
        with self._selecting(select) as (store, among):
            return trend(store, metric, by, since_ns=since_ns, until_ns=until_ns, origin=origin, among=among)

    def alarms(self, *, limit: int | None = None) -> list[Alarm]:
        """Return the alarms that the alerts of the settings gave, those that are on first, then the newest.

        See docs/production.md. `limit` is their greatest number, by default 1,000.
        """
        from spangrade.evaluator.results.alarms import MOST, stored_alarms

        with self.stored.reading(derived=False) as store:
            return stored_alarms(store, limit=MOST if limit is None else limit)

    # What people and programs say

    def external_scores(self, session_id: str | None = None) -> list[ExternalScore]:
        """Return the scores that people, traces and programs gave all sessions, or one, by session and time.

        `session_id` may be an unambiguous beginning of an id. Raises InputError if there is no such session.
        """
        with self.stored.reading() as store:
            chosen = None if session_id is None else [find_session_id(store, session_id)]
            return [score for scores in external_scores(store, chosen).values() for score in scores]

    def score(
        self,
        session_id: str,
        scores: Mapping[str, float | bool | str],
        *,
        turn: int | None = None,
        by: str | None = None,
        note: str = "",
        at: datetime | None = None,
        span_id: str | None = None,
    ) -> list[ExternalScore]:
        """Store scores of a session, of one of its turns, or of one of its spans, by name; return them.

        A value is a number, true or false (1 and 0), or a text, which has no number. `by` names the person
        who gives them; without it they are a program's. A score replaces an earlier one of the same name,
        person, session, turn and span; `at` is when it was given, by default now (UTC).

        Raises InputError if there is no such session, turn or span, or for a name or value that cannot be
        stored.
        """
        from spangrade.evaluator.review.scores.given import on_span, scores_of

        given = [on_span(one, span_id) for one in scores_of(scores, turn=turn, by=by, note=note)]
        return self._save_scores(session_id, given, at)

    def label(
        self,
        session_id: str,
        verdict: Literal["pass", "fail"],
        *,
        by: str,
        metric: str | None = None,
        note: str = "",
        at: datetime | None = None,
        span_id: str | None = None,
    ) -> ExternalScore:
        """Store a person's verdict on a session or, with `metric`, on what a metric measures; return it.

        It is a score with the name of the metric, else `label`, and the value 1 (pass) or 0 (fail). For `by`,
        `at` and `span_id`, and for what it replaces, see `score`.
        """
        from spangrade.evaluator.review.scores.given import label_of, on_span

        given = on_span(label_of(verdict, by=by, metric=metric, note=note), span_id)
        return self._save_scores(session_id, [given], at)[0]

    def labels(
        self, rows: StrPath | Iterable[Mapping[str, Any]], *, at: datetime | None = None
    ) -> list[ExternalScore]:
        """Store labels and scores in bulk, in one transaction, and return them.

        Each of `rows`, objects or the rows of a CSV, has a `session_id` and a `value`: pass or fail is a
        person's label, of the session or of the metric `name`; any other value is the score `name`. `by`,
        `note` and `span_id` are optional, but `by` of a label. For `at`, and for what a row replaces, see
        `score`. Raises InputError, with a line for each row that cannot be used; nothing is stored then.
        """
        from spangrade.evaluator.review.scores.given import of_sessions, rows_of, rows_of_file

        given = rows_of_file(Path(rows)) if isinstance(rows, str | PathLike) else rows_of(rows)
        with self.stored.reading() as store:
            scores = of_sessions(store, given, at)
        with self.stored.writing(wait_s=RUN_WAIT_S) as store, store.transaction():
            save_external_scores(store, scores)
        return scores

    def _save_scores(
        self, session_id: str, given: Sequence[ExternalScore], at: datetime | None
    ) -> list[ExternalScore]:
        from spangrade.evaluator.review.scores.given import of_session

        with self.stored.reading() as store:
            scores = of_session(store, session_id, given, at)
        with self.stored.writing(wait_s=RUN_WAIT_S) as store, store.transaction():
            save_external_scores(store, scores)
        return scores

    def to_review(
        self,
        *,
        metric: str | None = None,
        seed: int = 0,
        limit: int | None = None,
        queue: str = USUAL,
        by: str | None = None,
        origin: str = "production",
        select: Selection | str | None = None,
    ) -> list[ToReview]:
        """Return sessions without a label, or without a label of a `metric`, for people to review.

        With `by` they are the sessions that this person has not labelled; the pages have the same queues in
        the same order. `queue` is `suggested`: first sessions on which the gates of their verdict disagree,
        then sessions with a value near its threshold, the nearest first, then the rest in an order that
        `seed` shuffles; `failed`; `disputed` by a label of `by`; `sampled`: all in the shuffled order, so
        that a random share is labelled; or `unlabelled`: the newest first. `origin` is as in
        `list_sessions`, and `select` chooses among them, as in `grade`.

        Raises InputError for another queue or origin.
        """
        from spangrade.evaluator.metrics.external import LABEL
        from spangrade.evaluator.review.scores.given import score_name

        name = LABEL if metric is None else score_name(metric)
        with self._selecting(select) as (store, only):
            found = queued(store, queue, by, name=name, seed=str(seed), origin=origin, limit=limit, only=only)
        return [one.review for one in found.waiting]

    def judge_agreement(self, metric: str, *, threshold: float | None = None) -> Agreement:
        """Return how far the verdicts of a metric agree with the labels that people gave for it.

        The metric `passed` is the verdict that a session shows, compared with the labels of sessions as a
        whole. Else the verdict is that of the latest run that measured the metric; with a `threshold`, a
        score that meets it passes, whatever its run required. Raises InputError if no run measured the
        metric or scipy is not installed, and TooFewLabelsError if fewer than 20 sessions have a verdict and
        a label.
        """
        from spangrade.evaluator.statistics.agreement.agreement import agreement
        from spangrade.evaluator.statistics.agreement.stored import stored_labels, stored_verdicts

        with self.stored.reading() as store:
            judged = stored_verdicts(store, metric, threshold)
            labels = stored_labels(store, metric)
        return agreement(metric, judged, labels)

    def check_judge(
        self, metric: str, *, gates: Metrics | None = None, judge: JudgeOptions | str | None = None
    ) -> JudgeCheck:
        """Ask the judge again about the labelled sessions of the latest run that measured a metric.

        The result says whether its verdicts drifted from those of the run, and how both fit the labels. No
        stored answer is used, and nothing is written. `judge` is another model to ask, `gates` may bring the
        file of the metric. Raises InputError if no run measured the metric, and TooFewLabelsError if fewer
        than 20 sessions have a label and a verdict.
        """
        from spangrade.evaluator.statistics.agreement.check import check_judge

        asked = GradeSpec.of(None, gates, None, judge)
        gates = with_definitions(asked.gates, self._settings)
        return check_judge(self.stored, metric, gates, asked.judge, self._callbacks)

    # Golden questions of recorded sessions

    def add_to_golden(
        self, session_id: str, golden: StrPath, *, question_id: str | None = None, wildcards: bool = False
    ) -> GoldenAddition:
        """Add a session to a golden file as a question: what it did is what is expected from then on.

        The question's id is `question_id`, else that of the question which the session answers, else the
        session's own. With `wildcards` no value is expected that looks generated. Raises InputError if the
        spans do not say what a question must.
        """
        from spangrade.converters.datasets.golden import append
        from spangrade.evaluator.review.session_to_golden import question_of

        session = self.session(session_id)
        name = question_id or session.question_id or session.session_id
        question, volatile = question_of(session, name, wildcards=wildcards)
        added, problems = append(Path(golden), [{**question, "reviewed": False}])
        return GoldenAddition(added, problems, volatile)

    def failure_to_golden(
        self,
        session_id: str,
        golden: StrPath,
        *,
        calls: Sequence[Mapping[str, Any]] = (),
        texts: Sequence[Any] = (),
        references: Mapping[str, Any] | None = None,
        question_id: str | None = None,
    ) -> Corrected:
        """Add a session that failed to a golden file as a question that expects what should have happened.

        Calls that failed, and those that missed a gate, are struck out, and the last reply and the state are
        not expected. `calls` and `texts` of replies should have been there, `references` are other ones, such
        as `forbidden_tools`. The question is proved first: it fails on the session, passes on a corrected
        copy, catches at least 80% of the mutants of the failure, and fails no session with the same user
        inputs that passes. It is not reviewed. Raises InputError for one that is not proved, and writes
        nothing then.
        """
        from spangrade.converters.datasets.golden import append

        of_failures = app("audit.failure_to_golden")
        session, causes, passing = self._failure(session_id)
        name = question_id or session.question_id or session.session_id
        expected = of_failures.Corrections(calls, texts, references or {})
        made: Corrected = of_failures.correct(session, name, expected, causes=causes, passing=passing)
        if made.proof.problem is not None:
            raise InputError(f"session {session.session_id}: the question is left out: {made.proof.problem}")
        _, problems = append(Path(golden), [made.question])
        if dropped := [one for one in problems if one.dropped]:
            raise InputError(*(f"{one.where}: {one.message}" for one in dropped))
        return made

    def struck_out(self, session_id: str) -> list[str]:
        """Return what `failure_to_golden` strikes out of a session, a line for each call, with the reason."""
        of_failures = app("audit.failure_to_golden")
        session, causes, _ = self._failure(session_id)
        found = of_failures.struck_calls(session, causes)
        calls = session.tool_interactions
        return [f"{of_failures.call_line(calls[index])}: {why}" for index, why in found.items()]

    def _failure(self, session_id: str) -> tuple[Session, tuple[Evidence, ...], list[Session]]:
        """Return a session, the causes of the gates that it failed, and those that pass and begin like it."""
        session = self.session(session_id)
        with self.stored.reading() as store:
            failure = app("audit.failure_to_golden").failure_of(store, session.session_id)
        return session, failure.causes, [self.session(one) for one in failure.passing]

    def mine_golden(
        self,
        golden: StrPath,
        *,
        select: Selection | str | None = None,
        dedupe: bool = False,
        failed_calls: bool = False,
    ) -> GoldenAddition:
        """Add many sessions to a golden file as questions that nobody has reviewed yet.

        The sessions are chosen as in `grade` without a dataset. Sessions with equal user inputs become one
        question, with `dedupe` also sessions that differ in values alone; values that vary become a reference
        or a wildcard. Questions whose user inputs the file has already are left out.
        Calls that failed are expected only with `failed_calls`. Raises InputError for a condition that DuckDB
        refuses.
        """
        from spangrade.converters.datasets.golden import append, new_questions
        from spangrade.evaluator.review.mining.questions import mine

        questions, problems = mine(self._chosen(select), dedupe=dedupe, failed_calls=failed_calls)
        new, known = new_questions(Path(golden), questions)
        added, mistakes = append(Path(golden), new)
        return GoldenAddition(added, [*problems, *known, *mistakes], [])

    def mine_rules(self, *, select: Selection | str | None = None, least: int = 20) -> list[MinedRule]:
        """Return the rules that the calls of good sessions obey, as drafts, and how often each is broken.

        Good sessions passed, or are of production and did not fail; `select` chooses among them. A rule
        concerns `least` sessions or more. Raises InputError for a
        condition that DuckDB refuses.
        """
        from spangrade.evaluator.review.mining.call_rules import GOOD, mine_rules

        chosen = select if isinstance(select, Selection) else Selection(where=select)
        if chosen.of_questions is not None:
            raise FieldError("select.where", "it is about golden questions: expected sessions")
        where = GOOD if chosen.where is None else f"({chosen.where}) AND ({GOOD})"
        return mine_rules(self._chosen(replace(chosen, where=where)), least=least)

    def check_rules(self, *, select: Selection | str | None = None) -> list[MinedRule]:
        """Return the rules of the settings, drafts too, and how many sessions they concern and break them.

        Raises InputError for a condition that DuckDB refuses.
        """
        from spangrade.evaluator.review.mining.call_rules import check_rules

        return check_rules(self._settings.rules, list(self._chosen(select)))

    def _chosen(self, select: Selection | str | None) -> Iterator[Session]:
        """Yield the sessions of a selection, as `grade` without a dataset chooses them."""
        from spangrade.evaluator.grading.prepare import NO_DATASET, sessions_to_grade, with_questions

        chosen = with_questions(GradeSpec.of(None, (), select), NO_DATASET)
        reader, _ = sessions_to_grade(chosen, self.stored, self._callbacks)
        return reader.read(self._callbacks)


def open_lake(
    catalog: str,
    *,
    settings: StrPath | Literal["nearest"] | None = NEAREST,
    on_problem: Callable[[Problem], None] = log_problem,
    on_progress: Callable[[str], None] | None = None,
    on_share: Callable[[float], None] | None = None,
    workers: int | None = 1,
) -> Database:
    """Return the lake of a catalog: sessions to read, to grade and to review, as `open` does those of a file.

    What needs a file is done by `spangrade lake`: import, derive, delete. Raises InputError for a catalog
    that cannot be one.
    """
    project, callbacks = _of_project(settings, on_problem, on_progress, on_share)
    return Database(app("lake.reading").reader_at(catalog), callbacks, project, workers)


def list_metrics(metrics_files: StrPath | Iterable[StrPath] = ()) -> list[Metric]:
    """Return the installed metrics, and after them those of files.

    Raises InputError for a file that cannot be used.
    """
    from spangrade.evaluator.metrics.files import with_files

    return list(with_files([Path(path) for path in several(metrics_files)])[0].values())
