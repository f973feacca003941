"""Groups of options that several commands share: where spans are, how results are printed, which sessions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from spangrade import Selection
from spangrade.evaluator.cli.declare import Only, is_lake
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import OWN, option
from spangrade.tracer.base.terminal import LogFormat, LogLevel, log_of_service

if TYPE_CHECKING:
    from spangrade import Database

# What chooses sessions, where a command lists or measures them: the same words everywhere.
WORDS = Only("where", "since", "sample", "agent")
Selected = Annotated[Selection, WORDS]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIn:
    """Where the spans are: in a database file, or in a lake."""

    db: str | None = option(
        None,
        "The DuckDB file of the spans, or the catalog of a lake (postgres:…).",
        variable="SPANGRADE_DB",
        shown_default="spangrade.duckdb",
    )

    @property
    def file(self) -> Path | None:
        """The database file that is named, None if none is."""
        return None if self.db is None or is_lake(self.db) else Path(self.db)

    def opened(self, workers: int | None = 1) -> AbstractContextManager[Database]:
        """Give the database or the lake, whose sessions `workers` processes grade; None is as many as pay."""
        from spangrade.evaluator.cli.output import database_or_lake

        return database_or_lake(self.file, self.db if is_lake(self.db) else None, workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """How many processes read spans."""

    workers: int | None = option(
        None,
        "Processes that read spans.",
        metavar="N",
        least=1,
        shown_default="the number of CPUs, up to 4; 1 below 20,000 spans",
        setting=OWN,
        variable="SPANGRADE_WORKERS",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Graders:
    """How many processes read recordings and grade."""

    workers: int | None = option(
        None,
        "Processes that read recordings and grade sessions.",
        metavar="N",
        least=1,
        shown_default="the number of CPUs, up to 4; 1 below 20,000 spans, 10,000 sessions",
        setting=OWN,
        variable="SPANGRADE_WORKERS",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """How much is printed of a run or a comparison."""

    all: bool = option(False, "Print all that is known, not ten lines.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelling:
    """Whether others may write what people say."""

    allow_labels: bool = option(False, "Let others write labels, scores and golden questions.")
    as_: str | None = option(None, "With --allow-labels: the person who labels.", metavar="NAME")
    golden: Path | None = option(
        None, "With --allow-labels: the golden file to which questions are added.", metavar="FILE"
    )

    def person(self) -> str | None:
        """Return the person who labels, None if nobody does. Raises InputError if only a part is given."""
        if self.allow_labels != (self.as_ is not None and bool(self.as_.strip())):
            raise InputError("--allow-labels and --as NAME go together: a label has the name of its person")
        if self.golden is not None and not self.allow_labels:
            raise InputError("--golden is the file that a reviewer writes: expected --allow-labels, too")
        return None if self.as_ is None else self.as_.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """How a service logs."""

    log_format: LogFormat = option(LogFormat.TEXT, "How log lines are printed.", setting=OWN)
    log_level: LogLevel = option(LogLevel.INFO, "The least severe log lines that are printed.", setting=OWN)

    def begin(self) -> None:
        """Log in this form from now on."""
        log_of_service(self.log_format, self.log_level)


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """How a result is printed."""

    format: Format = option(
        Format.TABLE, "A table for people, or JSON, CSV or Markdown alone on standard output."
    )

    @property
    def as_table(self) -> bool:
        """Whether it is printed for people, as each command does it."""
        return self.format is Format.TABLE

    def write(self, result: Any, rows: str | None = None) -> None:
        """Print a JSON value for programs; CSV and Markdown have its `rows`: those of a key, else all."""
        from spangrade.evaluator.reports.written import written

        sys.stdout.flush()
        for text in written(result, self.format, rows):
            sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()

    def write_rows(
        self,
        rows: Sequence[Mapping[str, Any]],
        columns: Sequence[str],
        shown: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        """Print rows: for people as a table with these columns, each row as `shown` returns it."""
        if self.as_table:
            from spangrade.evaluator.cli.output import print_table

            print_table(rows if shown is None else map(shown, rows), columns)
        else:
            self.write(rows)
