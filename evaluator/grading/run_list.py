"""The stored runs: their list, and a run by its name, its id or the beginning of it."""

from __future__ import annotations

from pathlib import Path

from spangrade.evaluator.results.views import with_views
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.query import Rows
from spangrade.tracer.store.sql import statement

LATEST = "latest"
BRANCH = "branch:"
_NEWEST = "ORDER BY graded_at DESC, run_id LIMIT 1"
_RUNS = with_views(statement("runs", "spangrade.evaluator.grading"))


def list_runs(
    store: Store, *, limit: int | None = None, offset: int = 0, watched: bool | None = False
) -> Rows:
    """Return a row per run, the newest first, with the number of its sessions of each verdict.

    They are the runs of people, with `watched` the rolling ones of `watch`; None is all.
    """
    query = _RUNS.format(chosen="true" if watched is None else f"(day IS NOT NULL) = {watched}")
    part = "" if limit is None else f" LIMIT {limit:d} OFFSET {offset:d}"
    return Rows.of(store.connection.sql(query + part))


def newest_of_name(store: Store, name: str) -> str | None:
    """Return the id of the newest run with a name, None if there is none."""
    rows = store.query(
        f"SELECT run_id FROM runs WHERE name = $name {_NEWEST}",  # noqa: S608 (our own text)
        {"name": name},
    )
    return str(rows[0][0]) if rows else None


def refuse_itself(first: str | None, second: str | None, names: tuple[str, str]) -> None:
    """Raise InputError if two ids, those of two names, are of one run: it differs from itself in nothing."""
    if first is not None and first == second:
        what = " and ".join(dict.fromkeys(names))
        one = "are one run" if names[0] != names[1] else "is one run"
        raise InputError(f"{what} {one} ({first[:12]}), compared with itself: expected another run")


def no_run(text: str, path: Path) -> InputError:
    """Return the error that a database has no run of a name, with the command that helps."""
    command = "`spangrade run AGENT DATASET`"
    if text == LATEST:
        help_ = f"{command} makes the first"
    elif text.startswith(BRANCH):
        help_ = f"{command} with the branch {text.removeprefix(BRANCH)} checked out makes the first"
    else:
        help_ = "`spangrade runs` lists them"
    return InputError(f'no run "{text}" in {path}: {help_}')


def is_name_of_run(store: Store, text: str) -> bool:
    """Return whether a text is `latest`, a branch (`branch:NAME`), or the name of a run."""
    return text == LATEST or text.startswith(BRANCH) or newest_of_name(store, text) is not None


def find_run_id(store: Store, text: str) -> str:
    """Return the id of the run that a name, an id or an unambiguous beginning of an id names.

    If several runs have the name, it is the newest; `latest` is the newest of all, `branch:NAME` that of a
    git branch, both without the rolling runs of `watch`. Raises InputError if there is none, or more than
    one.
    """
    branch = text.removeprefix(BRANCH)
    if text == LATEST:
        newest = store.query(f"SELECT run_id FROM runs WHERE day IS NULL {_NEWEST}")  # noqa: S608 (our own text)
    elif branch != text:
        newest = store.query(
            f"SELECT run_id FROM runs WHERE git_branch = $branch AND day IS NULL {_NEWEST}",  # noqa: S608 (our own text)
            {"branch": branch},
        )
    else:
        if named := newest_of_name(store, text):
            return named
        newest = store.query(
            "SELECT run_id FROM runs WHERE starts_with(run_id, $id) ORDER BY run_id <> $id, run_id LIMIT 2",
            {"id": text},
        )
    ids = [str(run_id) for (run_id,) in newest]
    if not ids:
        raise no_run(text, store.path)
    if len(ids) > 1 and ids[0] != text:
        raise InputError(f'"{text}" may be {ids[0]}, {ids[1]} or others: give more of the id')
    return ids[0]
