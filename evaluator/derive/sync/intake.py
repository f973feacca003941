"""Reading recorded files into a database, and the callbacks for problems and progress."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import nanoarrow as na
import orjson

from spangrade.converters.spans.registry import all_settings
from spangrade.converters.spans.session_attributes import placeholder_in
from spangrade.evaluator.derive.not_understood import without_session
from spangrade.evaluator.derive.settings import (
    NO_SETTINGS,
    NOT_CONFIGURED,
    Configured,
    Settings,
    apply,
    set_session_from,
    settings_of,
)
from spangrade.evaluator.derive.sync.parts import (
    ReadBatch,
    ReadJob,
    grouped,
    part_groups,
    read_parts,
    read_parts_at_once,
)
from spangrade.evaluator.derive.sync.recorded import Place, spans_at
from spangrade.evaluator.derive.sync.sessions import Order
from spangrade.evaluator.derive.sync.update import (
    WINDOW_S,
    HeldTraces,
    OpenStore,
    bring_up_to_date,
    count_sessions,
    newest,
    stale,
    steps,
    write_built,
)
from spangrade.evaluator.derive.sync.workers import (
    InOrder,
    default_workers,
    few_collections,
    workers_in_order,
)
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import ExitCode, InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Added, Store
from spangrade.tracer.store.arrow import BATCH_BYTES, Table, arrow_column, bytes_of
from spangrade.tracer.store.sql import statement

WRITE = 32_768  # rows that are written at once: some 60 MB
WRITE_BYTES = BATCH_BYTES  # that they have at most, but for the last batch of them
_SQL = "spangrade.evaluator.derive.sync.sql"
_MOST_SILENT = 200  # model calls without content whose stacks are told apart
_MOST_WITHOUT_ID = 20  # traces in which a placeholder for an id is looked for
_SPAN_BYTES = 1_800  # of a span with messages, as OTLP/JSON

_log = logging.getLogger("spangrade")


def log_problem(problem: Problem) -> None:
    """Log a problem as a warning of the logger `spangrade`."""
    _log.warning("%s: %s", problem.where, problem.message)


def _ignore(_: object) -> None:
    pass


class Callbacks(NamedTuple):
    """The functions to call with unusable input, and with the name of a step that begins.

    `on_share` is called with the share of the step that is done, from 0 to 1, where it is known. `configured`
    are the project's settings, which are applied before sessions are derived.
    """

    on_problem: Callable[[Problem], None] = log_problem
    on_progress: Callable[[str], None] = _ignore
    configured: Configured = NOT_CONFIGURED
    on_share: Callable[[float], None] = _ignore


DEFAULT = Callbacks()


@dataclass(slots=True)
class Intake:
    """The result of importing files into a database: the traces in them, the rows added, and the problems.

    `is_new` says that there was no database. `in_order` gives work to the processes that `workers` ends. By
    the `settings` sessions are built where they are read, as long as they follow one another (`order`).
    """

    db: Path = Path()
    traces: set[str] = field(default_factory=set)
    added: Added = field(default_factory=lambda: Added(0, 0, 0))
    records_lost: int = 0
    files_lost: int = 0
    is_new: bool = False
    in_order: InOrder = map
    settings: Settings | None = None
    order: Order = field(default_factory=Order)
    held: HeldTraces = field(default_factory=HeldTraces)
    workers: ExitStack = field(default_factory=ExitStack)

    def count(self, batch: ReadBatch, on_problem: Callable[[Problem], None]) -> None:
        """Count the records of a batch, and report its problems."""
        self.traces |= batch.traces
        if batch.part is not None:
            self.order.add(batch.part)
        self.records_lost += sum(problem.dropped for problem in batch.problems) - batch.files_lost
        self.files_lost += batch.files_lost
        for problem in batch.problems:
            on_problem(problem)

    @property
    def incomplete(self) -> bool:
        """Whether anything could not be read."""
        return bool(self.records_lost or self.files_lost)


def check_files(paths: Sequence[Path], callbacks: Callbacks = DEFAULT) -> None:
    """Read files and keep nothing. Raises InputError if anything in them cannot be read."""
    intake = Intake()
    for _ in _read_files(intake, paths, callbacks):
        pass
    if intake.incomplete:
        raise FieldError("strict", "nothing imported: not everything could be read")


def start_import(
    db: Path, paths: Sequence[Path], callbacks: Callbacks = DEFAULT, workers: int | None = 1
) -> tuple[Intake, Iterator[ReadBatch]]:
    """Return the intake of files, and their batches for `import_batches`.

    `workers` processes read them; None is as many as are worth it. Raises InputError if nothing in them can
    be read and the database does not exist: it is not created then.
    """
    callbacks.on_progress("importing")
    with ExitStack() as stack:
        workers = workers or default_workers(_spans_in(paths))
        in_order = stack.enter_context(workers_in_order(workers))
        intake = Intake(db, is_new=not db.exists(), in_order=in_order, settings=NO_SETTINGS)
        batches = _read_files(intake, paths, callbacks)
        with few_collections():
            skipped = _until_rows(batches) if intake.is_new else []
        if skipped and not skipped[-1].rows and intake.incomplete:
            raise InputError(f"{db}: not created, because nothing could be imported")
        intake.workers = stack.pop_all()
    return intake, chain(skipped, batches)


def _until_rows(batches: Iterator[ReadBatch]) -> list[ReadBatch]:
    """Return the batches up to the first with a row."""
    skipped = []
    for batch in batches:
        skipped.append(batch)
        if batch.rows:
            break
    return skipped


def _spans_in(paths: Iterable[Path]) -> float:
    """Return about how many spans files hold, by their size."""
    return sum(_size(path) * (8 if path.suffix == ".gz" else 1) for path in paths) / _SPAN_BYTES


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _read_files(intake: Intake, paths: Sequence[Path], callbacks: Callbacks) -> Iterator[ReadBatch]:
    """Yield the batches of files, in order; unreadable input is reported and counted."""
    sizes: deque[int] = deque()

    def jobs() -> Iterator[ReadJob]:
        for group in part_groups(paths):
            sizes.append(sum(part.size for part in group))
            yield group, intake.settings if intake.order.is_by_session else None

    size, done = sum(map(_size, paths)), 0
    for batches in intake.in_order(read_parts if intake.in_order is map else read_parts_at_once, jobs()):
        for batch in batches:
            intake.count(batch, callbacks.on_problem)
            yield batch
        done += sizes.popleft()
        callbacks.on_share(done / max(done, size, 1))


class NotRead(NamedTuple):
    """What an import's sessions record and nobody could read.

    `spans` are, by scope ("" is no scope), those that look like an agent's and that no dialect understood, of
    which `tools` look like calls of tools. `turns` are, by the reason, those whose calls are not known.
    `without_session` is the number of spans if no session was found in any of them, ignored scopes left out;
    else 0. `unnamed` sessions are one per trace because `placeholder` stands in place of their id.
    `model_calls` have no content, of `all_model_calls`, with the settings of their stacks that record it
    (`help`).
    """

    spans: Mapping[str, int] = MappingProxyType({})
    tools: int = 0
    turns: Mapping[str, int] = MappingProxyType({})
    without_session: int = 0
    unnamed: int = 0
    placeholder: str | None = None
    model_calls: int = 0
    all_model_calls: int = 0
    help: str | None = None

    @property
    def in_words(self) -> str:
        """What was not read, in words; empty if everything was."""
        said = []
        for scope, number in self.spans.items():
            where = f"of scope `{scope}`" if scope else "without a scope"
            said.append(f"{counted(number, 'span')} {where}")
        if self.tools:
            said[-1] += f" ({self.tools} of them {'looks' if self.tools == 1 else 'look'} like tools' calls)"
        if self.without_session and not self.spans:
            spans = counted(self.without_session, "span")
            said.append(f"{spans} without a session: none of them is known to be an agent's")
        said += (f"what {counted(turns, 'turn')} called: {reason}" for reason, turns in self.turns.items())
        if self.unnamed:
            sessions = counted(self.unnamed, "session")
            said.append(f"the id of {sessions}: {self.placeholder} is none, and each trace is a session")
        if self.model_calls:
            of_all = f"{self.model_calls} of {counted(self.all_model_calls, 'model call')}"
            said.append(f"{of_all}, without content ({self.help})")
        return "; ".join(said)


ALL_READ = NotRead()


class Imported(NamedTuple):
    """How much was imported. `sessions` are those in the database, `new_sessions` those of them that are new.

    `duplicates` are records that the database had already, `records_lost` and `files_lost` those that could
    not be read. `lacking` is what the imported sessions do not record and metrics read: how many turns or
    calls, by the code of lint's finding. `not_read` is what they record that nobody could read.
    """

    db: str
    spans: int
    logs: int
    duplicates: int
    sessions: int
    new_sessions: int
    records_lost: int
    files_lost: int
    lacking: Mapping[str, int] = MappingProxyType({})
    not_read: NotRead = ALL_READ

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of `spangrade import`: 2 if anything could not be read."""
        return ExitCode.BAD_INPUT if self.records_lost or self.files_lost else ExitCode.PASSED


def import_batches(
    open_store: OpenStore,
    intake: Intake,
    batches: Iterable[ReadBatch],
    callbacks: Callbacks = DEFAULT,
    session_from: Sequence[str] | None = None,
) -> Imported:
    """Store the batches of files, and derive their sessions. The database is open in short windows.

    For `session_from` see `import_files`.
    """
    with intake.workers:
        before = 0
        if not intake.is_new or session_from or any(callbacks.configured):
            with open_store() as store:
                before = count_sessions(store)
                if session_from is not None:
                    set_session_from(store, session_from)
                apply(store, callbacks.configured)
                intake.settings = settings_of(store)
        with few_collections():
            imported = _store_batches(open_store, intake, batches, before, callbacks)
        if imported is not None:  # a small one
            return imported
        bring_up_to_date(open_store, held=intake.held, spool=False, on_share=callbacks.on_share)
    with open_store() as store:
        return _imported(store, intake, before)


def _store_batches(
    open_store: OpenStore, intake: Intake, batches: Iterable[ReadBatch], before: int, callbacks: Callbacks
) -> Imported | None:
    """Store batches, and begin to derive; return None if there is more to derive.

    `before` is the number of sessions that there were.
    """
    rest: Sequence[ReadBatch] = ()
    group: Sequence[ReadBatch]
    for group in grouped(batches, _share_of_write, 1):
        if sum(map(_share_of_write, group)) < 1:
            rest = group  # the last
        else:
            with open_store() as store:
                _write(store, intake, group)
    with open_store() as store:  # once for the rest and what follows: opening it takes 50 ms
        if rest:
            _write(store, intake, rest)
        group = rest = ()  # not in memory while sessions are built and the database is closed
        callbacks.on_progress("deriving sessions")
        if intake.traces:
            _remember_import(store, intake.traces)
        for _ in steps(store, until_s=time.monotonic() + WINDOW_S, held=intake.held):
            pass
        return None if stale(store) else _imported(store, intake, before)


def _imported(store: Store, intake: Intake, sessions_before: int) -> Imported:
    sessions = count_sessions(store)
    return Imported(
        str(intake.db),
        *intake.added,
        sessions=sessions,
        new_sessions=sessions - sessions_before,
        records_lost=intake.records_lost,
        files_lost=intake.files_lost,
        lacking=dict(store.query(statement("lacking", _SQL))),
        not_read=_not_read(store),
    )


def _not_read(store: Store) -> NotRead:
    row = store.query(statement("not_read", _SQL), {"most": _MOST_SILENT})
    ((silent, calls, some, scopes, tools, unnamed),) = row
    number, placeholder = _placeholder(store) if unnamed else (0, None)
    return NotRead(
        dict(sorted(scopes.items(), key=lambda one: (-one[1], one[0]))),
        tools,
        dict(store.query(statement("calls_unknown", _SQL))),
        sum(one.spans for one in without_session(store)),
        number,
        placeholder,
        silent,
        calls,
        _advice(store, [(place["trace_id"], place["span_id"]) for place in some]) if silent else None,
    )


def _advice(store: Store, places: Sequence[Place]) -> str:
    """Return the settings that record the content of calls, of each stack that recorded some of them."""
    return all_settings(map(spans_at(store, places).get, places), "content")


def _placeholder(store: Store) -> tuple[int, str | None]:
    """Return how many sessions have a placeholder for an id, and the first one with its attribute."""
    for (attributes,) in store.query(statement("spans_without_id", _SQL), {"most": _MOST_WITHOUT_ID}):
        if found := placeholder_in(orjson.loads(attributes)):
            name, value = found
            written = f'"{name}":{canonical(value)}'
            ((number,),) = store.query(statement("sessions_with", _SQL), {"written": written})
            return number, f"`{name}` of {canonical(value)}"
    return 0, None


def _share_of_write(batch: ReadBatch) -> float:
    """Return the share of a write that a batch fills, in rows or in bytes."""
    return max(batch.rows / WRITE, bytes_of(batch.tables) / WRITE_BYTES)


def _remember_import(store: Store, traces: Iterable[str]) -> None:
    """Store which traces were imported last."""
    with store.transaction():
        store.query("DELETE FROM last_import")
        store.query("INSERT INTO last_import FROM traces", traces=arrow_column("trace_id", sorted(traces)))


def _write(store: Store, intake: Intake, batches: Sequence[ReadBatch]) -> None:
    """Store rows, and the sessions that were built of them."""
    before = newest(store)
    tables: dict[Table, list[na.Array]] = {}
    for batch in batches:
        for table, rows in batch.tables.items():
            tables.setdefault(table, []).append(rows)
    added = store.add_rows(tables)
    repeated = sum(batch.repeated for batch in batches)
    intake.added = Added(
        intake.added.spans + added.spans,
        intake.added.logs + added.logs,
        intake.added.duplicates + added.duplicates + repeated,
    )
    if parts := [batch.part for batch in batches if batch.part is not None]:
        times = Counter(chain.from_iterable(batch.traces for batch in batches))
        once = {trace_id for trace_id, number in times.items() if number == 1}
        write_built(store, parts, once, before, intake.held)


def import_files(
    db: Path,
    open_store: OpenStore,
    files: Sequence[Path],
    callbacks: Callbacks = DEFAULT,
    session_from: Sequence[str] | None = None,
    workers: int | None = 1,
) -> Imported:
    """Import recorded files into a database and derive their sessions; `open_store` opens it.

    The attributes `session_from` hold a session's id from then on; None leaves them as they are. Raises
    InputError as `start_import` does.
    """
    intake, batches = start_import(db, files, callbacks, workers)
    return import_batches(open_store, intake, batches, callbacks, session_from)
