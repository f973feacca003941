"""How a command ends: whatever is raised becomes one line on standard error and an exit code.

An exception that nobody expected is a defect of spangrade: its traceback goes to a file, without messages and
values, which may hold what was recorded.
"""

from __future__ import annotations

import io
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from spangrade.tracer.base.errors import ExitCode, SpangradeError, type_name
from spangrade.tracer.base.terminal import warn

if TYPE_CHECKING:
    from typing_extensions import Buffer

_QUERY_INTERRUPTED = "Query interrupted"  # what DuckDB raises for Ctrl-C, as a RuntimeError


def leave(error: BaseException) -> NoReturn:
    """Print why a command ends, as a rule in one line, and raise SystemExit with its exit code."""
    lines, code = _lines_and_code(error)
    warn(*lines)
    raise SystemExit(code) from error


def open_outputs() -> None:
    """Let the process finish although nobody reads its output, as after `| head`.

    An output that is closed from the beginning becomes the null device: the next file that is opened would
    take its number.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            _redirect_to_null_device(number)
        output = io.TextIOWrapper(
            io.BufferedWriter(_Output(number, "wb", closefd=False)),
            encoding=getattr(stream, "encoding", "utf-8"),
            errors=getattr(stream, "errors", "backslashreplace"),
            line_buffering=getattr(stream, "line_buffering", False),
            write_through=getattr(stream, "write_through", False),
        )
        setattr(sys, name, output)


class _Output(io.FileIO):
    """Standard output or error. Once its reader has closed it, further text is dropped."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            _redirect_to_null_device(self.fileno())
            if isinstance(error, BrokenPipeError) or self.fileno() != 1:
                return memoryview(data).nbytes
            raise OSError(error.errno, error.strerror, "standard output") from None


def _redirect_to_null_device(number: int) -> None:
    device = os.open(os.devnull, os.O_WRONLY)
    if device != number:
        os.dup2(device, number)
        os.close(device)


def _lines_and_code(error: BaseException) -> tuple[Sequence[str], ExitCode]:
    """Return the lines about an error, and the exit code."""
    if any(isinstance(one, KeyboardInterrupt) or str(one) == _QUERY_INTERRUPTED for one in _chain(error)):
        return ["interrupted"], ExitCode.INTERRUPTED
    if isinstance(error, SpangradeError):
        return error.lines, error.exit_code
    if isinstance(error, MemoryError):
        return ["there is not enough memory for this"], ExitCode.BAD_INPUT
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return [f"{where}{error.strerror}"], ExitCode.BAD_INPUT
    kind = type_name(error)
    try:
        place = f"its traceback, without what was recorded, is in {_save_traceback(error)}"
    except OSError as unsaved:
        place = f"its traceback cannot be written: {unsaved.strerror}"
    return [f"a defect of spangrade ({kind}); please report it: {place}"], ExitCode.DEFECT


def _save_traceback(error: BaseException) -> str:
    """Write the traceback of an error to a new file that only its owner can read; return its path."""
    from importlib.metadata import version

    number, path = tempfile.mkstemp(prefix="spangrade-defect-", suffix=".txt")
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(
            f"spangrade {version('spangrade')}, Python {platform.python_version()}, {platform.platform()}\n"
        )
        file.writelines(_traceback_lines(error))
    return path


def _traceback_lines(error: BaseException) -> list[str]:
    """Return the traceback of an error and of its causes: types and lines of code, no messages and values."""
    lines = []
    for one in _chain(error):
        lines.append(f"\n{type(one).__module__}.{type(one).__qualname__}\n")
        lines += traceback.format_list(traceback.extract_tb(one.__traceback__))
        if isinstance(one, BaseExceptionGroup):
            lines += [line for inner in one.exceptions for line in _traceback_lines(inner)]
    return lines


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error, its cause, the cause of that, and so on."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return chain
