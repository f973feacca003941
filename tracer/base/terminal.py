"""Text for a terminal: the only way in which recorded text, or that of a file, is printed.

A terminal obeys control characters: text of an agent could move the cursor, change the colours, set a link or
the window's title, or show itself in another order than it was written.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import unicodedata
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import TextIO

from spangrade.tracer.base.errors import one_line

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_INDENT = "\n  "
# Besides those that JSON escapes itself: DEL, C1 controls, what is not seen or turns the direction, and code
# points that are not characters.
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff9-\ufffb"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
    + "\U000e0000-\U000e007f]"
)


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: `1 session`, `2 sessions`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: str, *, newline: str = "\n") -> str:
    """Return text that a terminal only shows.

    What is not printable becomes U+FFFD: controls, marks of direction and of no width. Tabs and spaces of any
    kind become a space, the end of a line `newline`.
    """
    if text.isprintable() or (newline == "\n" and text.replace("\n", "").isprintable()):
        return text
    shown = {ord(letter): _shown(letter, newline) for letter in set(text) if not letter.isprintable()}
    return text.translate(shown)


def _shown(letter: str, newline: str) -> str:
    if letter == "\n":
        return newline
    return " " if letter == "\t" or unicodedata.category(letter) == "Zs" else _REPLACEMENT


def printable_json(text: str) -> str:
    """Return JSON text that means the same and that a terminal only shows."""
    return _UNSAFE_IN_JSON.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def print_line(text: str) -> None:
    """Print text on standard output as one line, without its middle if it is long."""
    print(printable(one_line(text)), flush=True)


def warn(*lines: str) -> None:
    """Print a message on standard error, after `spangrade:`.

    Lines after the first are indented, and nothing in a line begins another: no text looks like two messages.
    Where the log is JSON, it is a line of that.
    """
    if isinstance(_handler().formatter, _JsonFormatter):
        record = logging.LogRecord("spangrade", logging.WARNING, "", 0, "\n".join(lines), None, None)
        _handler().handle(record)
        return
    text = _INDENT.join(map(one_line, lines))
    print(printable(f"spangrade: {text}"), file=sys.stderr, flush=True)


class LogFormat(StrEnum):
    """How log lines are printed."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severe log lines that are printed."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def log_to_terminal() -> None:
    """Print the messages of logged warnings on standard error, unless logging is configured already."""
    _log_to_terminal(_Formatter("%(message)s"))


def log_of_service(form: LogFormat, level: LogLevel) -> None:
    """Print a long-running command's log on standard error: with time and level, or as JSON.

    Libraries log no less than warnings. Logging that is configured already stays as it is.
    """
    json_lines = form is LogFormat.JSON
    _log_to_terminal(_JsonFormatter() if json_lines else _Formatter("%(asctime)s %(levelname)s %(message)s"))
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(max(number, logging.WARNING))
    logging.getLogger("spangrade").setLevel(number)


def _log_to_terminal(formatter: logging.Formatter) -> None:
    handler = _handler()
    handler.setStream(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


@cache
def _handler() -> logging.StreamHandler[TextIO]:
    return logging.StreamHandler()


class _Formatter(logging.Formatter):
    """Formats records as text that a terminal only shows, in a line each; a traceback stays on its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the library's name)
        """Return the line of a record."""
        return one_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), newline=_INDENT)


class _JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname, "logger": record.name}
        line["message"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
