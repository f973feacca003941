"""JSON and text files: read whole, and replaced at once, so that a file is either the old or the new one."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import orjson

from spangrade.tracer.errors import InputError

# A number of twenty digits or more, which may be beyond 64 bits: orjson reads such integers as floats. Within
# a text it only costs the slower reader.
_LONG_NUMBER = re.compile(rb"[:\[,\s]-?\d{20}")


def parse_json(text: bytes | str) -> Any:
    """Return the JSON value of a text, integers of any size exactly. Raises json.JSONDecodeError."""
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    value = orjson.loads(encoded)
    if not _LONG_NUMBER.search(b" " + encoded):
        return value
    try:
        return json.loads(encoded)
    except RecursionError as error:
        raise json.JSONDecodeError("nested too deeply", "", 0) from error
    except ValueError as error:  # an integer of thousands of digits
        raise json.JSONDecodeError(str(error), "", 0) from error


def load_json(path: Path) -> Any:
    """Return the JSON value in a file. Raises InputError if the file cannot be read or is not JSON."""
    try:
        return parse_json(path.read_bytes())
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
