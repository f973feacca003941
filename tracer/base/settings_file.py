"""The file with a project's settings: where it is, and its values. An agent without one loads no pydantic."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from spangrade.tracer.base.errors import InputError

FILE_VARIABLE = "SPANGRADE_CONFIG"
FILE_NAMES = ("spangrade.toml", "spangrade.json", "pyproject.toml")


def find_settings(file: Path | None = None) -> tuple[Path | None, dict[str, Any]]:
    """Return the file with settings and its values; None and no values if there is none.

    It is the given one, else that of $SPANGRADE_CONFIG, else the nearest from the current folder upwards.
    Raises InputError if it cannot be read or is not TOML or JSON.
    """
    if file is None and (named := os.environ.get(FILE_VARIABLE)):
        file = Path(named)
    if file is None:
        return _nearest()
    values = _read(file)
    if values is None:
        raise InputError(f"{file}: it has no table [tool.spangrade]")
    return file, values


def _nearest() -> tuple[Path | None, dict[str, Any]]:
    """Return the nearest file with settings from the current folder upwards, and its values."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # the folder was deleted
        return None, {}
    for parent in (folder, *folder.parents):
        for name in FILE_NAMES:
            file = parent / name
            # Path.is_file raises in a folder that may not be searched.
            if os.path.isfile(file) and (values := _read(file)) is not None:  # noqa: PTH113
                _check_owner(file)
                return file, values
    return None, {}


def _check_owner(file: Path) -> None:
    """Raise InputError for the file of another user: it names modules with metrics, which are run."""
    if hasattr(os, "getuid") and file.stat().st_uid not in (os.getuid(), 0):
        raise InputError(f"{file}: it belongs to another user: it is used only if it is named")


def _read(file: Path) -> dict[str, Any] | None:
    """Return the values in a file; None for a pyproject.toml that has none."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        if file.name == "pyproject.toml":
            if "tool.spangrade" not in text:
                return None
            values = tomllib.loads(text).get("tool", {}).get("spangrade")
        else:
            values = _json(file, text) if file.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except RecursionError:
        raise InputError(f"{file}: nested too deep") from None
    except ValueError as error:
        raise InputError(f"{file}: not valid TOML: {str(error).splitlines()[0]}") from error
    if values is not None and not isinstance(values, dict):
        raise InputError(f"{file}: expected an object with settings")
    return values


def _json(file: Path, text: str) -> Any:
    from json import JSONDecodeError

    from spangrade.tracer.base.json_text import parse_written, refusal

    try:
        return parse_written(text)
    except JSONDecodeError as error:
        raise InputError(f"{file}: {refusal(error)}") from error
