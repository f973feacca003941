"""The earlier run of the same questions that a run is compared with, and its questions that did not pass."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.run_details import base_branch, revision
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

_NEWEST = 200  # runs that are looked at


class Earlier(NamedTuple):
    """An earlier run of a dataset, the branch that was checked out, and whether each question passed."""

    run_id: str
    name: str
    branch: str | None
    passed: Mapping[str, bool]


class FlippedSince(NamedTuple):
    """The flips of the questions that an earlier run has, too.

    `regressed` passed then and does not now: by question, the id of a session that passed, None if it
    answered in none. `questions` is how many both runs have; of those that are `not_known` any more it is
    inconclusive whether they pass, by question as `regressed`.
    """

    earlier: Earlier
    regressed: Mapping[str, str | None]
    fixed: tuple[str, ...]
    questions: int
    not_known: Mapping[str, str | None] = MappingProxyType({})


def flips_since(store: Store, run: Run, folder: Path) -> FlippedSince | None:
    """Return the flips since the earlier run of the same questions; None if there is none."""
    now = _passed(run)
    if not now or not run.dataset:
        return None
    earlier = earlier_run(store, Path(run.dataset), now, folder, without=run.run_id)
    if earlier is None:
        return None
    both = [question for question in now if question in earlier.passed]
    lost = [question for question in both if earlier.passed[question] and not now[question]]
    failed = {one.question_id for one in run.sessions if one.verdict is Verdict.FAILED}
    regressed = [question for question in lost if question in failed]
    fixed = tuple(question for question in both if now[question] and not earlier.passed[question])
    sessions = dict(
        store.query(
            with_views(
                "SELECT question_id, min(session_id) FROM {run_cells} "
                "WHERE run_id = $run_id AND question_id IS NOT NULL GROUP BY question_id"
            ),
            {"run_id": earlier.run_id},
        )
    )
    return FlippedSince(
        earlier,
        {one: sessions.get(one) for one in regressed},
        fixed,
        len(both),
        {one: sessions.get(one) for one in lost if one not in failed},
    )


def earlier_run(
    store: Store, dataset: Path, questions: Collection[str], folder: Path, *, without: str = ""
) -> Earlier | None:
    """Return the run to compare with: the last of this branch, else of its base, that has the questions.

    A run that has all of them comes before a later one that has some. The base is the branch into which a
    pull request is to go, else the default branch of the remote, else `main` or `master`. Where no branch is
    checked out, every run is of this one.
    """
    runs = [one for one in _runs(store, dataset) if one.run_id != without]
    branch = revision(folder).branch
    for wanted in dict.fromkeys((branch, None if branch is None else base_branch(folder))):
        of_branch = [one for one in runs if branch is None or one.branch == wanted]
        whole = (one for one in of_branch if one.passed.keys() >= set(questions))
        some = (one for one in of_branch if not one.passed.keys().isdisjoint(questions))
        if (found := next(whole, None) or next(some, None)) is not None:
            return found
    return None


def not_passed(store: Store, dataset: Path, folder: Path) -> list[str]:
    """Return the questions that did not pass when they were asked last on this branch."""
    branch = revision(folder).branch
    last: dict[str, bool] = {}
    for run in _runs(store, dataset):
        if branch is None or run.branch == branch:
            for question, passed in run.passed.items():
                last.setdefault(question, passed)
    return [question for question, passed in last.items() if not passed]


def _passed(run: Run) -> dict[str, bool]:
    """Return whether each question of a run passed, in all its sessions."""
    found: dict[str, bool] = {}
    for one in run.sessions:
        if one.question_id is not None:
            passes = one.verdict is Verdict.PASSED
            found[one.question_id] = found.get(one.question_id, True) and passes
    return found


def _runs(store: Store, dataset: Path) -> Iterator[Earlier]:
    """Yield the newest runs of a dataset, the newest first, without those of `watch`."""
    rows = store.query(with_views(statement("earlier_runs", "spangrade.evaluator.agents")), {"most": _NEWEST})
    for found, name, branch, stored, questions, passed in rows:
        if stored and Path(stored).resolve() == dataset.resolve():
            yield Earlier(
                str(found), name or str(found)[:8], branch, dict(zip(questions, passed, strict=True))
            )
