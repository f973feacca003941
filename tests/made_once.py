"""Databases that several tests need: made once in a run, whatever the number of workers, and copied."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from paths import SAMPLE

import spangrade


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
    return made


def copy_of_sample(db: Path) -> Path:
    """Copy to a path a database of the sample's four sessions, which are not graded."""

    def make(path: Path) -> None:
        spangrade.open(path).import_files(SAMPLE / "spans.otlp.jsonl")

    shutil.copyfile(made_once("sample", make), db)
    return db
