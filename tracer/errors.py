"""The exceptions of spangrade, and the exit codes of its command line."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """An exit code of the command `spangrade`."""

    PASSED = 0
    FAILED = 1
    BAD_INPUT = 2
    BROKEN = 3
    INCONCLUSIVE = 4
    DEFECT = 70
    INTERRUPTED = 130


class SpangradeError(Exception):
    """The base of all errors; the message says what was wrong, where, and what was expected."""

    exit_code = ExitCode.BAD_INPUT


class InputError(SpangradeError):
    """A file, a record or an option that cannot be used."""


class StoreError(SpangradeError):
    """A database that cannot be opened, read or written."""


class OldSchemaError(StoreError):
    """A database of an earlier version, which opening it for writing upgrades."""


class StoreLockedError(StoreError):
    """A database that another process has open."""
