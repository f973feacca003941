"""Databases that several tests need: made once in a run, whatever the number of workers, and copied."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from paths import SAMPLE

import spangrade
from spangrade.evaluator.derive import update
from spangrade.tracer.base.file_modes import restrict
from spangrade.tracer.store import Store
from spangrade.tracer.store.untrusted import Connected, connect, remember_checked


def made_once(name: str, make: Callable[[Path], object], schemas: Iterable[str] = ("main",)) -> Path:
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
    remember_checked(made, schemas)  # it is ours
    return made


def copy_of(made: Path, db: Path, schemas: Iterable[str] = ("main",)) -> Path:
    """Copy a database to a path."""
    shutil.copyfile(made, db)
    remember_checked(db, schemas)
    return db


def copy_folder(made: Path, folder: Path) -> None:
    """Copy what is in a folder, with its databases, to another folder."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    for db in folder.rglob("*.duckdb"):
        remember_checked(db, ["main"])


def new_database(db: Path) -> Path:
    """Copy an empty database to a path: to make one takes 65 ms of CPU."""
    return copy_of(_empty(), db)


def _empty() -> Path:
    def make(path: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("spangrade.tracer.store.store.connect", connect)  # it is made, not copied
            with Store.open(path) as store:
                update(store)

    return made_once("empty", make, ["main", "derived"])


def copying_connect(path: Path, **options: Any) -> Connected:
    """Connect as the store does, but to a copy of an empty database where there is none yet."""
    is_new = not path.exists() and not path.is_symlink() and os.access(path.parent, os.W_OK)
    if is_new and not any(map(options.get, ("read_only", "confined"))):
        copy_of(_empty(), path, ["main", "derived"])
        restrict(path)
        remember_checked(path, ["main", "derived"])
    return connect(path, **options)


def new_store(db: Path) -> Store:
    """Return a new database, open."""
    return Store.open(new_database(db))


def copy_of_sample(db: Path) -> Path:
    """Copy to a path a database of the sample's four sessions, which are not graded."""

    def make(path: Path) -> None:
        spangrade.open(path).import_files(SAMPLE / "spans.otlp.jsonl")

    return copy_of(made_once("sample", make), db)
