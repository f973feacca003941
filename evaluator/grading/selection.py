"""Which of the stored sessions a selection chooses, by columns and questions, and reading them in batches.

The database is open only while a batch is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

import duckdb

from spangrade.evaluator.derive import load_batches, load_sessions
from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.derive.session_rows import SessionRows
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.recorded import Place, spans_at
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S
from spangrade.evaluator.grading.run_list import find_run_id
from spangrade.evaluator.grading.spec import Selection
from spangrade.evaluator.results.origin import origin_condition
from spangrade.evaluator.results.views import sessions_query, with_views
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.span import Problem, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.query import select
from spangrade.tracer.store.sql import error_line, statement, text_literal
from spangrade.tracer.store.store import Stored

if TYPE_CHECKING:
    from spangrade.converters.datasets.golden import GoldenDataset

SESSIONS_AT_ONCE = 4_000
_NO_ROWS = SessionRows([], {})


def select_sessions(
    store: Store, selection: Selection, among: Collection[str] | None = None, label: str | None = None
) -> set[str]:
    """Return the ids of the sessions that a selection chooses, of those `among` which it is to choose.

    What it selects by questions, and by the last import, is ignored. The store must be open with `confined`;
    `label` says in errors where the condition is from.

    Raises InputError for a condition that is not one expression or that DuckDB refuses, for a session id that
    is not chosen, and for a run that is not there.
    """
    try:
        rows = select(store, _query(selection), where="").rows()
    except InputError as error:
        problem = str(error).removeprefix(": ")
        raise (InputError(f"{label}: {problem}") if label else FieldError("select.where", problem)) from None
    if selection.of_run is not None:
        run = {"run_id": find_run_id(store, selection.of_run)}
        query = with_views("SELECT session_id FROM {run_cells} WHERE run_id = $run_id")
        of_run = {session_id for (session_id,) in store.query(query, run)}
        among = of_run if among is None else of_run.intersection(among)
    newest_first = [row["session_id"] for row in rows if among is None or row["session_id"] in among]
    if selection.sessions:
        check_present(store, "select.sessions", selection.sessions, newest_first)
        newest_first = [one for one in newest_first if one in set(selection.sessions)]
    if selection.share is not None:
        newest_first = [one for one in newest_first if is_sampled(one, selection.share)]
    return set(newest_first[: selection.limit])


def chosen_ids(store: Store, selection: Selection | None) -> set[str] | None:
    """Return the ids of the sessions that a selection chooses; None for one that chooses all.

    The store must be open with `confined`. Raises InputError as `select_sessions` does, and for a condition
    on golden questions, of which there are none here.
    """
    if selection is None or selection == Selection():
        return None
    if selection.of_questions is not None:
        raise FieldError("select.where", "it chooses questions: expected a condition on sessions")
    return select_sessions(store, selection)


def check_present(
    store: Store, name: str, session_ids: Iterable[str], chosen: Collection[str] | None
) -> None:
    """Raise FieldError, of the field `name`, for a session that is not among the chosen; None are all."""
    if chosen is None:
        chosen = {session_id for (session_id,) in store.query("SELECT session_id FROM derived.sessions")}
    if unknown := [one for one in session_ids if one not in chosen]:
        raise FieldError(name, f"no session {unknown[0]!r} to grade: `spangrade sessions` lists them")


def is_sampled(session_id: str, share: float) -> bool:
    """Return whether a session is in a sample: each time, and also in every larger sample."""
    digest = blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def sessions_of_questions(
    sessions: Iterable[Session],
    dataset: GoldenDataset,
    answers: Mapping[str, str],
    chosen_questions: Collection[str] | None,
    *,
    latest: bool,
) -> set[str]:
    """Return the ids of the sessions that may answer one of the chosen questions (ids; None is any or none).

    With `latest`, of the sessions that answer the same golden question only the last is chosen, and of those
    that answer n equal questions the last n.
    """
    from spangrade.evaluator.grading.match_questions import QuestionIndex  # without questions none is needed

    questions = QuestionIndex(dataset, answers)
    chosen: set[str] = set()
    by_questions: dict[frozenset[str], list[tuple[int, str]]] = {}
    for session in sessions:
        candidates = questions.find(session)
        names = candidates.ids
        if chosen_questions is not None and names.isdisjoint(chosen_questions):
            continue
        if latest and len(candidates.groups) == 1:
            by_questions.setdefault(names, []).append((session.start_ns or 0, session.session_id))
        else:
            chosen.add(session.session_id)
    last = (sorted(each)[-len(names) :] for names, each in by_questions.items())
    return chosen.union(session_id for each in last for _, session_id in each)


_UNRECORDED = {
    "version": "agent_version IS NULL",
    "prompt": "len(coalesce(prompts::JSON::VARCHAR[], [])) = 0",
    "model": "len(coalesce(models::JSON::VARCHAR[], [])) = 0",
}


def unrecorded(store: Store, what: str, only: Collection[str] | None = None) -> int:
    """Return how many of the sessions, all or `only` these, record no "version", "prompt" or "model"."""
    found = store.query(f"SELECT session_id FROM derived.sessions WHERE {_UNRECORDED[what]}")  # noqa: S608 (ours)
    return sum(only is None or session_id in only for (session_id,) in found)


def _query(selection: Selection) -> str:
    conditions = [
        f"(started_at IS NULL OR started_at {sign} make_timestamp({time_ns // 1000}))"
        for sign, time_ns in ((">=", selection.since_ns), ("<", selection.until_ns))
        if time_ns is not None
    ]
    conditions += [
        condition.format(text_literal(value))
        for condition, value in (
            ("list_contains(agents, {})", selection.agent),
            ("list_contains(models, {})", selection.model),
            ("list_contains(prompts, {})", selection.prompt),
            ("agent_version = {}", selection.version),
            ("user_id = {}", selection.user),
            ("environment = {}", selection.environment),
        )
        if value is not None
    ]
    if selection.origin is not None:
        conditions.append(origin_condition(selection.origin))
    sessions = SESSIONS.select
    if selection.of_sessions is not None:
        _check_expression(selection.of_sessions)
        conditions.append(f"(\n{selection.of_sessions}\n)")  # on lines of its own: it may end with a comment
        sessions = statement("sessions_to_select", "spangrade.evaluator.grading").format(
            sessions=sessions_query(SESSIONS.selected)
        )
    chosen = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT session_id FROM (\n{sessions}\n){chosen} ORDER BY started_at DESC NULLS LAST, session_id"  # noqa: S608 (one expression, in a confined database)


def _check_expression(text: str) -> None:
    """Raise InputError unless a text is one SQL expression, which cannot close the brackets around it."""
    try:
        duckdb.SQLExpression(text)
    except duckdb.Error as error:
        raise InputError(error_line(error)) from None


class SessionReader:
    """The sessions that a database holds when the reader is made, each once, read in batches.

    The first batch is read at once, from its open `store`; the database is open for each other one only while
    it is read. A session that is derived again in between moves out of its batch: it is read by its id at the
    end.
    """

    def __init__(self, db: Stored, store: Store, only: Collection[str] | None = None) -> None:
        self._db = db
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
        for rows in self.read_rows(callbacks, wait_s=wait_s):
            yield from rows.decoded()

    def read_rows(
        self, callbacks: Callbacks = DEFAULT, *, wait_s: float = RUN_WAIT_S
    ) -> Iterator[SessionRows]:
        """Yield the rows of the sessions as `read` yields the sessions, many at a time."""
        yield self._taken(self._first)
        self._first = _NO_ROWS
        while self._ranges:
            with self._db.reading(derived=False, wait_s=wait_s) as store:
                batch = self._next_batch(store)
            yield self._taken(batch)
        moved_ids = sorted(self._unread)
        for start in range(0, len(moved_ids), SESSIONS_AT_ONCE):
            ids = moved_ids[start : start + SESSIONS_AT_ONCE]
            with self._db.reading(wait_s=wait_s) as store:
                moved = load_sessions(store, ids)
            yield self._taken(moved)
        for session_id in sorted(self._unread):
            callbacks.on_problem(
                Problem(f"session {session_id}", "deleted before it was read", dropped=False)
            )

    def spans_at(self, places: Iterable[Place]) -> Mapping[Place, Span]:
        """Return the spans at places, as far as they identify their instrumentation."""
        with self._db.reading(derived=False, wait_s=RUN_WAIT_S) as store:
            return spans_at(store, places)

    def _next_batch(self, store: Store) -> SessionRows:
        return load_batches(store, *self._ranges.pop()) if self._ranges else _NO_ROWS

    def _taken(self, rows: SessionRows) -> SessionRows:
        """Return the rows of the sessions that were not read yet, and count them as read."""
        taken = rows.only(self._unread)
        self._unread.difference_update(row[0] for row in taken.sessions)
        return taken
