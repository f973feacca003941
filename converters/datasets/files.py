"""Files that a user names, and files in a folder that a user names; problems of their records.

A file is read whole, and replaced at once, so that it is either the old or the new one; so are the files of a
report in a folder, all together. In a folder no link is followed: who puts one there does not decide what is
overwritten.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import parse_written, refusal
from spangrade.tracer.span import Problem

_NEW = ".spangrade-new-"  # begins the name of a folder in which files wait for the last of them
T = TypeVar("T")


def load_json(path: Path) -> Any:
    """Return the JSON value in a file that people write.

    Raises InputError if the file cannot be read, is not JSON, or has a key twice in one object.
    """
    refuse_device(path)
    try:
        return parse_written(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: {refusal(error)}") from error


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8. Raises InputError if it cannot be read."""
    refuse_device(path)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}") from error


@contextmanager
def csv_rows(path: Path) -> Iterator[csv.DictReader[str]]:
    """Give the rows of a CSV in UTF-8. Raises InputError where it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield csv.DictReader(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}") from error
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV: {error}") from error


def refuse_device(path: Path) -> None:
    """Raise InputError for a device, or a link to one: reading it may never end."""
    if path.is_char_device() or path.is_block_device():
        raise InputError(f"{path}: a device; expected a file")


def write_new_json(path: Path, document: Any) -> None:
    """Write a JSON document to a new file. Raises InputError if the file exists or cannot be written."""
    if os.path.lexists(path):
        raise InputError(f"{path}: exists already, so it is left unchanged; name another --output")
    write_json(path, document)


def write_json(path: Path, document: Any) -> None:
    """Replace a file by a JSON document. Raises InputError if it cannot be written."""
    write_text(path, json.dumps(document, indent=4, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text. Raises InputError if it cannot be written."""
    target = path.resolve()  # a link stays a link
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    with writing(path):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with create(fresh) as file:
                if target.exists():
                    shutil.copymode(target, fresh)
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an OSError of the block, such as a full disk's, as an InputError that names the path.

    Of what waits in a folder of `replacing`, it names the folder that is written.
    """
    try:
        yield
    except OSError as error:
        new = next((one for one in (path, *path.parents) if one.name.startswith(_NEW)), None)
        named = path if new is None else new.parent
        raise InputError(f"{named}: cannot be written: {error.strerror or error}") from error


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a new folder, whose files replace those of the same names in `folder` once the block is done.

    If it raises, such as on a full disk, `folder` has the files that it had. Raises InputError if it cannot
    be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=_NEW, dir=folder)  # absolute from Python 3.12 on
    new = folder / Path(made).name
    try:
        yield new
        with writing(folder):
            for file in sorted(new.iterdir()):
                file.replace(folder / file.name)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def create(file: Path) -> BinaryIO:
    """Return a new file, opened for writing, in place of one of that name; a link is replaced, not followed.

    Raises OSError.
    """
    file.unlink(missing_ok=True)
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")


def create_text(file: Path, text: str) -> None:
    """Write a text to a new file as `create` makes one. Raises OSError."""
    with create(file) as out:
        out.write(text.encode())


def condensed(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems, in which equal messages of problems that drop nothing are counted as one."""
    kept: list[Problem] = []
    places: dict[str, int] = {}
    more: Counter[int] = Counter()
    for problem in problems:
        place = len(kept) if problem.dropped else places.setdefault(problem.message, len(kept))
        if place == len(kept):
            kept.append(problem)
        else:
            more[place] += 1
    for place, number in more.items():
        kept[place] = kept[place]._replace(message=f"{kept[place].message} (and {number} more)")
    return kept


def separate(records: Iterable[T | Problem]) -> tuple[list[T], list[Problem]]:
    """Return the records of a file that can be used, and the problems of the others."""
    usable: list[T] = []
    problems: list[Problem] = []
    for record in records:
        if isinstance(record, Problem):
            problems.append(record)
        else:
            usable.append(record)
    return usable, problems
