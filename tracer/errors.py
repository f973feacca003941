"""The one error tree, and the exit codes that the command line makes of it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What `spangrade` exits with."""

    PASSED = 0
    FAILED = 1
    BAD_INPUT = 2
    BROKEN = 3
    INCONCLUSIVE = 4


class SpangradeError(Exception):
    """Anything that spangrade refuses; its text says what was wrong, where, and what would be right."""

    exit_code = ExitCode.BAD_INPUT


class InputError(SpangradeError):
    """A file, a record or an option that cannot be used."""


class StoreError(SpangradeError):
    """A database that cannot be opened, read or written."""


class StoreLockedError(StoreError):
    """A database that another process has open."""
