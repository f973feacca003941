"""`spangrade import`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spangrade.evaluator.cli.opening import WAIT_S
from spangrade.evaluator.cli.output import print_json, progress, warn
from spangrade.evaluator.derive import update
from spangrade.evaluator.derive.session_from import set_session_from
from spangrade.tracer.errors import ExitCode, InputError
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store import Added, Store

MOST_LISTED = 20  # problems a person reads; the rest is counted


@dataclass(slots=True)
class Intake:
    """What came of reading files: the traces in them, and what could not be read."""

    traces: set[str] = field(default_factory=set)
    lost: int = 0
    problems: int = 0
    bad_files: int = 0

    def records(self, paths: Iterable[Path]) -> Iterator[Span | LogRecord]:
        """Yield the records of files; what cannot be read is said and counted, and the rest is read on."""
        for path in paths:
            try:
                for record in read(path):
                    if isinstance(record, Problem):
                        self._note(record)
                        continue
                    if record.trace_id is not None:
                        self.traces.add(record.trace_id)
                    yield record
            except InputError as error:
                self.bad_files += 1
                warn(str(error))

    def _note(self, problem: Problem) -> None:
        self.problems += 1
        self.lost += problem.dropped
        if self.problems <= MOST_LISTED:
            warn(f"{problem.where}: {problem.message}")

    @property
    def exit_code(self) -> ExitCode:
        """What the command line exits with: bad input if anything was lost."""
        return ExitCode.BAD_INPUT if self.lost or self.bad_files else ExitCode.PASSED


def check(paths: Sequence[Path]) -> None:
    """Read files and keep nothing. Raises InputError if anything in them cannot be read."""
    intake = Intake()
    for _ in intake.records(paths):
        pass
    if intake.exit_code:
        raise InputError("nothing imported: --strict, and not everything could be read")


def take_in(store: Store, paths: Sequence[Path]) -> tuple[Added, Intake]:
    """Store the records of files and derive their sessions."""
    intake = Intake()
    with progress("importing"):
        added = store.add(intake.records(paths))
    if intake.problems > MOST_LISTED:
        warn(f"and {intake.problems - MOST_LISTED} more that could not be read well")
    with progress("deriving sessions"):
        update(store)
    return added, intake


def run(paths: Sequence[Path], db: Path, session_from: Sequence[str], *, strict: bool, as_json: bool) -> None:
    """Import files into a database and say what came of it.

    `session_from` are attributes that hold a session's id; none leaves those of the database as they are, an
    empty one takes them back.
    """
    if strict:
        check(paths)
    with Store.open(db, wait_s=WAIT_S) as store:
        before = _sessions(store)
        if session_from:
            set_session_from(store, filter(None, session_from))
        added, intake = take_in(store, paths)
        sessions = _sessions(store)
    result = {
        "db": str(db),
        **added._asdict(),
        "sessions": sessions,
        "new_sessions": sessions - before,
        "records_lost": intake.lost,
        "files_lost": intake.bad_files,
    }
    if as_json:
        print_json(result)
    else:
        print(
            f"{added.spans} spans and {added.logs} logs imported into {db}, "
            f"{added.duplicates} were there already; {sessions} sessions in it"
        )
    if intake.lost:
        warn(f"not read: {intake.lost} of the records; the rest is imported")
    raise SystemExit(intake.exit_code)


def _sessions(store: Store) -> int:
    if not store.query("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'derived'"):
        return 0
    return int(store.query("SELECT count(*) FROM derived.sessions")[0][0])
