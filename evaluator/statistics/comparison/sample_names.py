"""What the sides of a comparison name: runs of a database, files of `grade --out`, conditions on sessions."""

from __future__ import annotations

from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.evaluator.grading.run_list import find_run_id, newest_of_name, refuse_itself
from spangrade.evaluator.statistics.comparison.sample import Sample
from spangrade.evaluator.statistics.comparison.sample_files import folder_of_run, sample_of_files
from spangrade.evaluator.statistics.comparison.stored_sample import (
    Expectations,
    is_condition,
    sample_of_condition,
    sample_of_run,
)
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store


def is_file_of_run(name: str) -> bool:
    """Return whether a text is the path of what `grade --out` wrote."""
    return folder_of_run(name) is not None


def selects_sessions(name: str) -> bool:
    """Return whether a text is a condition on sessions, for which a database must be open with `confined`."""
    return not is_file_of_run(name) and is_condition(name)


def samples_of(store: Store | None, first: str | Sample, second: str) -> tuple[Sample, Sample]:
    """Return the samples that two texts name; without a store both must be files of `grade --out`.

    Raises InputError if there is no such run or session, if both are one run, and for two conditions that
    some, but not all, sessions meet both: a session cannot be compared with itself and with others at once.
    """
    expected = Expectations()
    with few_collections():
        samples = (
            first if isinstance(first, Sample) else _sample_of(store, first, expected),
            _sample_of(store, second, expected),
        )
    names = (first.label if isinstance(first, Sample) else first), second
    refuse_itself(samples[0].stored_as, samples[1].stored_as, names)
    if isinstance(first, str) and selects_sessions(first) and selects_sessions(second):
        _check_overlap(*samples)
    return samples


def sample_named(store: Store | None, name: str) -> Sample:
    """Return the sample that a text names, as it is now. Raises InputError as `samples_of` does."""
    with few_collections():
        return _sample_of(store, name, Expectations())


def _sample_of(store: Store | None, name: str, expected: Expectations) -> Sample:
    folder = folder_of_run(name)
    if store is not None and folder is None:
        if is_condition(name):
            return sample_of_condition(store, name, expected)
        return sample_of_run(store, find_run_id(store, name), expected)
    if store is not None and (run_id := newest_of_name(store, name)):
        return sample_of_run(store, run_id, expected)
    if folder is None:
        raise InputError(f"{name}: expected a folder of `grade --out`, or a run of a database")
    return sample_of_files(name, folder)


def _check_overlap(first: Sample, second: Sample) -> None:
    shared = first.session_ids & second.session_ids
    if shared and first.session_ids != second.session_ids:
        raise InputError(
            f"compare: {len(shared)} sessions meet both {first.label!r} and {second.label!r}, among them "
            f"{min(shared)}: expected conditions that no session, or every one, meets both"
        )
