"""JSON and text files: read whole, and replaced at once, so that a file is either the old or the new one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from spangrade.tracer.errors import InputError
from spangrade.tracer.json_text import parse_exact


def load_json(path: Path) -> Any:
    """Return the JSON value in a file. Raises InputError if the file cannot be read or is not JSON."""
    try:
        return parse_exact(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error


def write_new_json(path: Path, document: Any) -> None:
    """Write a JSON document to a new file. Raises InputError if the file exists or cannot be written."""
    if path.exists():
        raise InputError(f"{path}: exists already, so it is left unchanged; name another --output")
    write_json(path, document)


def write_json(path: Path, document: Any) -> None:
    """Replace a file by a JSON document. Raises InputError if it cannot be written."""
    write_text(path, json.dumps(document, indent=4, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text. Raises InputError if it cannot be written."""
    target = path.resolve()  # a link stays a link
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("w", encoding="utf-8", newline="") as file:
            if target.exists():
                shutil.copymode(target, fresh)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)
