"""Settings whose value is a secret: it comes from a file or a variable."""

from __future__ import annotations

from pathlib import Path

from spangrade.tracer.base.errors import InputError


def secret(value: str | None, file: Path | None, name: str) -> str | None:
    """Return the secret that a setting or its file gives.

    Raises InputError if the file has not one line of text, or if both are given.
    """
    if file is None:
        return value or None
    if value:
        raise InputError(f"{name} and {name}_file: give one of them")
    try:
        lines = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(lines) != 1:
        raise InputError(f"{file}: expected one line with the value of {name}")
    return lines[0]
