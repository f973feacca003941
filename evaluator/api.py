"""The public way in: a database of spans and sessions, and what can be asked of it.

`spangrade.open()` returns a `Database`. It holds no file: each call opens the database, works and closes it,
so that agents and other processes can write in between. The command line is a thin skin over it. What one
method alone needs is imported there: all of it takes 50 ms, which an import or a list of sessions need not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spangrade.evaluator.arguments import StrPath, paths_of, texts_of
from spangrade.evaluator.audit_methods import AuditMethods
from spangrade.evaluator.derive import load
from spangrade.evaluator.derive.settings import Configured
from spangrade.evaluator.derive.sync.intake import (
    DEFAULT,
    Callbacks,
    Imported,
    check_files,
    import_files,
    log_problem,
)
from spangrade.evaluator.derive.sync.up_to_date import WAIT_S, derive, up_to_date
from spangrade.evaluator.grade_methods import GradeMethods
from spangrade.evaluator.grading.session_list import SessionSort, find_session_id
from spangrade.evaluator.grading.stored_grades import StoredGrade, failed_sessions
from spangrade.evaluator.judge_methods import JudgeMethods
from spangrade.evaluator.maintenance import delete as deletion
from spangrade.evaluator.maintenance.delete import Deleted, check_age
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.read_methods import ReadMethods
from spangrade.evaluator.review.scores.review import ToReview
from spangrade.evaluator.run_methods import RunMethods
from spangrade.evaluator.score_methods import ScoreMethods
from spangrade.evaluator.session import Session
from spangrade.evaluator.watch_methods import WatchMethods
from spangrade.tracer.errors import StoreError
from spangrade.tracer.settings import load_settings
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store
from spangrade.tracer.store.query_rows import Rows

if TYPE_CHECKING:
    from spangrade.evaluator.maintenance.lint import Finding as Finding  # noqa: PLC0414 (for the command line)

__all__ = [
    "Callbacks",
    "Database",
    "Deleted",
    "GoldenAddition",
    "Imported",
    "Metric",
    "Rows",
    "Session",
    "SessionSort",
    "StoredGrade",
    "ToReview",
    "check_age",
    "default_path",
    "list_metrics",
    "open",
]


class GoldenAddition(NamedTuple):
    """The result of adding sessions to a golden file.

    `added` is the number of questions that were added. `volatile` names the values that look generated, such
    as ids and timestamps: another run has others.
    """

    added: int
    problems: Sequence[Problem]
    volatile: Sequence[str]


def default_path() -> Path:
    """Return the path of the database that is used where none is named."""
    return Path(load_settings().settings.database)


def open(  # noqa: A001 (as in duckdb.connect, the module's name says of what)
    path: StrPath | None = None,
    *,
    on_problem: Callable[[Problem], None] = log_problem,
    on_progress: Callable[[str], None] | None = None,
    on_share: Callable[[float], None] | None = None,
) -> Database:
    """Return the database at a path, without one that of $SPANGRADE_DB, else of the settings.

    Nothing is opened yet, and the file is created by the first import or grade. `on_problem` is called with
    each part of an input that cannot be used or is odd; by default a warning is logged. `on_progress` is
    called with the name of each step that may take a while, `on_share` with the share of it that is done,
    from 0 to 1, where that is known. The prices and ignored scopes of the settings apply
    (docs/configuration.md); raises InputError if these cannot be used.
    """
    settings = load_settings().settings
    callbacks = Callbacks(on_problem, configured=Configured.of(settings))
    if on_progress is not None:
        callbacks = callbacks._replace(on_progress=on_progress)
    if on_share is not None:
        callbacks = callbacks._replace(on_share=on_share)
    return Database(Path(settings.database if path is None else path), callbacks)


class Database(AuditMethods, GradeMethods, JudgeMethods, RunMethods, ScoreMethods, WatchMethods, ReadMethods):
    """A DuckDB file of spans, the sessions that are derived from them, and their scores.

    It keeps no file open between calls. Every method waits up to 5 s for another process that has the file
    open, then raises StoreLockedError; all raise StoreError for a file that is not there or cannot be used.
    """

    def __init__(self, path: Path, callbacks: Callbacks = DEFAULT) -> None:
        self.path = path
        self._callbacks = callbacks

    def __repr__(self) -> str:
        return f"<Database {self.path}>"

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

        So many `workers` (processes) read the files; None is one per CPU, up to 4, from about 20,000 spans
        on. A script that has workers must do its work under `if __name__ == "__main__":`.
        """
        callbacks = self._callbacks
        if ignore_scopes is not None:
            configured = callbacks.configured._replace(ignored_scopes=frozenset(ignore_scopes))
            callbacks = callbacks._replace(configured=configured)
        files = paths_of(paths)
        if strict:
            check_files(files, callbacks)
        opened = partial(Store.open, self.path, wait_s=WAIT_S)
        return import_files(self.path, opened, files, callbacks, session_from, workers)

    def derive(self, *, all: bool = False, workers: int | None = 1) -> int:  # noqa: A002 (`spangrade derive --all`)
        """Derive the sessions that are new or out of date, or all of them again; return how many.

        The other methods do the same before they read. For `workers` see `import_files`.
        """
        if not self.path.exists():
            raise StoreError(f"{self.path}: no such database: import spans first")
        self._callbacks.on_progress("deriving sessions")
        return derive(self.path, again=all, workers=workers, callbacks=self._callbacks)

    def sessions(self, *, failed: bool = False) -> Iterator[Session]:
        """Yield the sessions in the order in which they were derived, read in batches.

        With `failed` only those that missed a gate in the latest run that graded them.
        """
        from spangrade.evaluator.pipeline import SessionReader

        with up_to_date(self.path, self._callbacks) as store:
            reader = SessionReader(store, failed_sessions(store) if failed else None)
        yield from reader.read(self._callbacks, wait_s=WAIT_S)

    def lint(self, session_id: str | None = None, *, dataset: StrPath | None = None) -> list[Finding]:
        """Return what the recordings of the sessions, or of one, lack, and how to fix it.

        With a `dataset`, after these come the sessions and golden questions that a grade by the references
        would find inconclusive. Nothing is saved, and no judge is asked.
        """
        from spangrade.converters.datasets.formats import read_dataset
        from spangrade.evaluator.maintenance.lint import lint
        from spangrade.evaluator.maintenance.lint_grade import lint_grade

        golden = None if dataset is None else read_dataset(Path(dataset)).questions
        with up_to_date(self.path, self._callbacks) as store:
            chosen = None if session_id is None else find_session_id(store, session_id)
            findings = list(lint(store, chosen))
            if golden is not None:
                sessions = load(store, chosen)
                findings += lint_grade(sessions, golden, list(findings), whole=chosen is None)
        return findings

    def delete(
        self,
        sessions: str | Sequence[str] = (),
        *,
        before: str | datetime | None = None,
        by_arrival: bool = False,
        user: str | None = None,
        dry_run: bool = False,
    ) -> Deleted:
        """Delete sessions for good, with their spans, logs and scores; the file becomes smaller.

        They are those of the ids `sessions`, those that ended `before` a time (a `datetime`, a text such as
        `2026-01-31`, or an age such as `30d`), and those in which `user` is named. With `by_arrival`,
        sessions of which a part arrived after that time stay, however old they are. With `dry_run` they are
        only counted. Raises InputError for an unknown id, or if nothing says what to delete.
        """
        return deletion.delete(
            self.path,
            sessions=texts_of(sessions),
            before_ns=deletion.time_to_delete(sessions, before, user),
            by_arrival=by_arrival,
            user=user,
            dry_run=dry_run,
            wait_s=WAIT_S,
        )

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

    def mine_golden(
        self,
        golden: StrPath,
        *,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        where: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        limit: int | None = None,
        dedupe: bool = False,
        failed_calls: bool = False,
    ) -> GoldenAddition:
        """Add many sessions to a golden file as questions that nobody has reviewed yet.

        The sessions are chosen as in `grade` without a dataset. Those with equal user inputs become one
        question, with `dedupe` also those that differ in values alone; what varies between them becomes a
        reference or a wildcard (datasets/README.md). Questions whose user inputs the file has already are
        left out. Calls that failed are expected only with `failed_calls`. Raises InputError for a condition
        that DuckDB refuses.
        """
        from spangrade.converters.datasets.golden import append, new_questions
        from spangrade.evaluator.grading.stored_selection import StoredSelection
        from spangrade.evaluator.pipeline import stored_sessions
        from spangrade.evaluator.review.mining.questions import mine

        selection = StoredSelection(
            (),
            None if since is None else deletion.parse_time(since),
            None if until is None else deletion.parse_time(until),
            agent,
            model,
            where,
            None,
            limit,
        )
        sessions = stored_sessions(self.path, selection, self._callbacks)
        questions, problems = mine(sessions, dedupe=dedupe, failed_calls=failed_calls)
        new, known = new_questions(Path(golden), questions)
        added, mistakes = append(Path(golden), new)
        return GoldenAddition(added, [*problems, *known, *mistakes], [])


def list_metrics(metrics_files: StrPath | Iterable[StrPath] = ()) -> list[Metric]:
    """Return the installed metrics, and after them those of files.

    Raises InputError for a file that cannot be used.
    """
    from spangrade.evaluator.metrics.files import with_files

    return list(with_files(paths_of(metrics_files))[0].values())
