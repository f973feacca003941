"""Reading recorded files into a database, and the callbacks that hear of problems and progress."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from spangrade.evaluator.derive import update
from spangrade.tracer.errors import ExitCode, InputError
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store import Added, Store
from spangrade.tracer.store.arrow import arrow_column

_log = logging.getLogger("spangrade")


def log_problem(problem: Problem) -> None:
    """Log a problem as a warning of the logger `spangrade`."""
    _log.warning("%s: %s", problem.where, problem.message)


def _ignore(step: str) -> None:
    pass


class Callbacks(NamedTuple):
    """What is called with input that cannot be used, and with the name of a step that begins."""

    on_problem: Callable[[Problem], None] = log_problem
    on_progress: Callable[[str], None] = _ignore


DEFAULT = Callbacks()


@dataclass(slots=True)
class Intake:
    """What importing files comes to: the traces in them, the rows added, and what could not be read."""

    traces: set[str] = field(default_factory=set)
    added: Added = field(default_factory=lambda: Added(0, 0, 0))
    records_lost: int = 0
    files_lost: int = 0

    def records(
        self, paths: Iterable[Path], on_problem: Callable[[Problem], None]
    ) -> Iterator[Span | LogRecord]:
        """Yield the records of files; what cannot be read is reported, counted and left out."""
        for path in paths:
            try:
                for record in read(path):
                    if isinstance(record, Problem):
                        self.records_lost += record.dropped
                        on_problem(record)
                        continue
                    if record.trace_id is not None:
                        self.traces.add(record.trace_id)
                    yield record
            except InputError as error:
                self.files_lost += 1
                on_problem(Problem(str(path), str(error).removeprefix(f"{path}: ")))

    @property
    def incomplete(self) -> bool:
        """Whether anything could not be read."""
        return bool(self.records_lost or self.files_lost)


def check_files(paths: Iterable[Path], callbacks: Callbacks = DEFAULT) -> None:
    """Read files and keep nothing. Raises InputError if anything in them cannot be read."""
    intake = Intake()
    for _ in intake.records(paths, callbacks.on_problem):
        pass
    if intake.incomplete:
        raise InputError("nothing imported: --strict, and not everything could be read")


def start_import(
    db: Path, paths: Iterable[Path], callbacks: Callbacks = DEFAULT
) -> tuple[Intake, Iterator[Span | LogRecord]]:
    """Return the intake of files, and their records for `import_records`.

    Raises InputError if nothing in them can be read and the database does not exist: it is not created then.
    """
    callbacks.on_progress("importing")
    intake = Intake()
    records = intake.records(paths, callbacks.on_problem)
    if db.exists():
        return intake, records
    first = list(islice(records, 1))
    if not first and intake.incomplete:
        raise InputError(f"{db}: not created, because nothing could be imported")
    return intake, chain(first, records)


def import_records(
    store: Store, intake: Intake, records: Iterable[Span | LogRecord], callbacks: Callbacks = DEFAULT
) -> None:
    """Store the records of an intake, and derive their sessions."""
    intake.added = store.add(records)
    if intake.traces:
        with store.transaction():
            store.query("DELETE FROM last_import")
            store.query(
                "INSERT INTO last_import FROM traces", traces=arrow_column("trace_id", sorted(intake.traces))
            )
    callbacks.on_progress("deriving sessions")
    update(store)


class Imported(NamedTuple):
    """How much was imported. `sessions` are those in the database, `new_sessions` those of them that are new.

    `duplicates` are records that the database had already, `records_lost` and `files_lost` those that could
    not be read. `not_understood` is, by scope, the number of spans in the database that look like an agent's
    and that no dialect understood.
    """

    db: str
    spans: int
    logs: int
    duplicates: int
    sessions: int
    new_sessions: int
    records_lost: int
    files_lost: int
    not_understood: Mapping[str, int]

    @property
    def exit_code(self) -> ExitCode:
        """What `spangrade import` exits with: 2 if anything could not be read."""
        return ExitCode.BAD_INPUT if self.records_lost or self.files_lost else ExitCode.PASSED
