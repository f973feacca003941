"""Golden datasets as grading reads them: the models, and the folder of a dataset with its recordings."""

from __future__ import annotations

from pathlib import Path

from spangrade.converters.datasets.golden import (
    GoldenDataset,
    GoldenQuestion,
    ReferenceData,
    ReferenceToolInteraction,
    load_golden,
)
from spangrade.tracer.errors import InputError

__all__ = [
    "GoldenDataset",
    "GoldenQuestion",
    "ReferenceData",
    "ReferenceToolInteraction",
    "find_dataset",
    "load_golden",
]

RECORDING_SUFFIXES = (".json", ".jsonl", ".ndjson", ".pb", ".gz")


def find_dataset(folder: Path) -> tuple[Path, list[Path]]:
    """The golden dataset of a folder and its recordings, sorted.

    The dataset is the one file named `golden.json` or `*_golden.json`; the recordings are all other JSON,
    JSON Lines, protobuf and gzip files in and below the folder. Raises `InputError` unless there is exactly
    one dataset and at least one recording.
    """
    if not folder.is_dir():
        raise InputError(
            f"{folder}: not a folder; a dataset is a folder with a *_golden.json and recorded spans"
        )
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix in RECORDING_SUFFIXES and file.is_file() and not file.name.startswith(".")
    )
    golden = [file for file in files if file.name == "golden.json" or file.name.endswith("_golden.json")]
    if not golden:
        raise InputError(f"{folder}: no golden dataset; expected one file named golden.json or *_golden.json")
    if len(golden) > 1:
        names = ", ".join(str(file.relative_to(folder)) for file in golden)
        raise InputError(f"{folder}: {len(golden)} golden datasets ({names}); expected one")
    recordings = [file for file in files if file != golden[0]]
    if not recordings:
        raise InputError(
            f"{folder}: no recorded spans beside {golden[0].name}; expected .json, .jsonl or .pb files"
        )
    return golden[0], recordings
