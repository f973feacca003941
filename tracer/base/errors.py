"""The exceptions of spangrade, and the exit codes of its command line."""

from __future__ import annotations

from collections.abc import Iterable
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


_NAME = type.__dict__["__name__"]
MAX_LINE = 1_000  # characters of a line of a message: what one quotes may be a whole file


def one_line(text: str) -> str:
    """Return a text as one line of a message: line ends in it as `\\n`, a long one without its middle."""
    if len(text) > MAX_LINE:
        left_out = len(text) - MAX_LINE
        text = f"{text[: MAX_LINE // 2]} … ({left_out} characters) … {text[-(MAX_LINE // 2) :]}"
    return text.replace("\n", "\\n")


def type_name(value: object) -> str:
    """Return the name of a value's class, whatever its metaclass says."""
    return _NAME.__get__(type(value))  # type: ignore[no-any-return]


def text_of(error: BaseException) -> str:
    """Return an exception's type and text: `ValueError: no refunds`; the text of some cannot be read."""
    try:
        text = str(error)
    except BaseException as broken:  # noqa: BLE001 (third-party code: the exception's own)
        text = f"its text cannot be read ({type_name(broken)})"
    return f"{type_name(error)}: {text}"


def hint(name: str, known: Iterable[str], otherwise: str = "expected one of") -> str:
    """Return `did you mean "x"?` if a known name is like this one, else all of the known names."""
    from difflib import get_close_matches  # for an error alone

    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f'did you mean "{near[0]}"?' if near else f"{otherwise} {', '.join(names)}"


class SpangradeError(Exception):
    """The base of all errors; the message says what was wrong, where, and what was expected.

    Each argument is a line of the message: what a line quotes neither begins another nor fills the screen.
    """

    exit_code = ExitCode.BAD_INPUT

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message."""
        return tuple(one_line(str(line)) for line in self.args)

    def __str__(self) -> str:
        return "\n".join(self.lines)


class InputError(SpangradeError):
    """A file, a record or an option that cannot be used."""


class StoreError(SpangradeError):
    """A database that cannot be opened, read or written."""


class OldSchemaError(StoreError):
    """A database of an earlier version, which opening it for writing upgrades."""


class StoreLockedError(StoreError):
    """A database that another process has open."""
