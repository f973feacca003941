"""Databases that several tests need: made once in a run, whatever the number of workers, and copied."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from paths import SAMPLE

import spangrade
from spangrade.evaluator.derive import update
from spangrade.tracer.store import Store
from spangrade.tracer.store.untrusted import remember_checked


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return the database that `make` leaves at the path that it is given. It is not to be changed.

    The name stands for what it makes. Two workers may make it at the same time: the later one counts.
    """
    folder = Path(os.environ["MADE_ONCE_DIR"])
    made = folder / f"{name}.duckdb"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            path = Path(own) / made.name
            make(path)
            path.replace(made)
    remember_checked(made, ["main"])  # it is ours
    return made


def copy_of(made: Path, db: Path) -> Path:
    """Copy a database to a path."""
    shutil.copyfile(made, db)
    remember_checked(db, ["main"])
    return db


def new_database(db: Path) -> Path:
    """Copy an empty database to a path: to make one takes four times as long."""

    def make(path: Path) -> None:
        with Store.open(path) as store:
            update(store)

    return copy_of(made_once("empty", make), db)


def new_store(db: Path) -> Store:
    """Return a new database, open."""
    return Store.open(new_database(db))


def copy_of_sample(db: Path) -> Path:
    """Copy to a path a database of the sample's four sessions, which are not graded."""

    def make(path: Path) -> None:
        spangrade.open(path).import_files(SAMPLE / "spans.otlp.jsonl")

    return copy_of(made_once("sample", make), db)
