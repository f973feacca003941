"""Deriving all sessions of a lake again: by another version of spangrade, or with other settings.

The lake's own spans take the place of landing files. They stay as they are, except those of traces that
belong to another session then; everything derived from them is replaced in one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spangrade.evaluator.apps.lake.assign import Parts, assign, plan, read_scanned
from spangrade.evaluator.apps.lake.catalog import (
    NAME,
    Lake,
    add_columns,
    attached,
    create_views,
    data_path,
    new_scratch,
    state_of,
)
from spangrade.evaluator.apps.lake.commit import (
    OF_TRACES,
    add_files,
    advance,
    check_one_row,
    commit,
    remove_moved,
)
from spangrade.evaluator.apps.lake.derive_slice import Derived, derive
from spangrade.evaluator.apps.lake.job import (
    PreparedUpdate,
    Sizes,
    Updated,
    derive_jobs,
    job_scratch,
    make_stage,
    new_stage,
    remove_stage,
)
from spangrade.evaluator.apps.lake.tasks import ScanJob, Update, lake_sql, scan
from spangrade.evaluator.derive.evaluations import delete_scores
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.settings import (
    NOT_CONFIGURED,
    Configured,
    apply,
    set_session_from,
    settings_of,
)
from spangrade.evaluator.derive.sync.fingerprint import fingerprint
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.evaluator.results.views import place_verdicts
from spangrade.tracer.store import Store


def derive_again(
    lake: Lake,
    in_order: InOrder,
    *,
    configured: Configured = NOT_CONFIGURED,
    session_from: Sequence[str] | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008 (a frozen value)
) -> Updated:
    """Derive all sessions of a lake from its spans and logs; runs and their scores stay.

    What is `configured`, and `session_from` if it is given, are settings of the lake from then on. Raises
    StoreError if another process changes the lake in the meantime.
    """
    with attached(lake, read_only=False) as store:
        _set(store, configured, session_from)
        state, data = state_of(store), data_path(store)
        update = Update(lake, state.snapshot, new_stage(data), settings_of(store))
    prepared = PreparedUpdate(update, state, data, Parts((), ()), sizes)
    make_stage(update)
    with job_scratch(lake, update, empty=True) as scratch:
        scratch.query(lake_sql("located"))
        read_scanned(scratch, in_order(scan, list(_scan_jobs(scratch, update, sizes.part))))
        assign(scratch)
        scratch.query(lake_sql("whole_again"))
        slices = max(plan(scratch, update, sizes.slice), 1)
        derived = list(in_order(derive, derive_jobs(prepared, (), slices, None)))
    _commit(lake, prepared, derived)
    remove_stage(update.stage)
    return Updated(0, sum(one.sessions for one in derived))


def _set(store: Store, configured: Configured, session_from: Sequence[str] | None) -> None:
    """Change the settings of a lake. If they change, nothing but another derivation can update it."""
    batch = state_of(store).batch
    apply(store, configured)
    if session_from is not None:
        set_session_from(store, session_from)
    if not store.query("FROM derived.progress"):
        store.query("INSERT INTO derived.progress VALUES ('', $batch)", {"batch": batch})


def _scan_jobs(scratch: Store, update: Update, most: int) -> Iterator[ScanJob]:
    """Yield jobs that look at about that number of records each, those of some sessions in their order."""
    rows = scratch.query(lake_sql("scan_ranges"), {"most": most})
    begins = [None, *(str(session_id) for (session_id,) in rows[1:])]
    for number, (first, end) in enumerate(zip(begins, [*begins[1:], None], strict=True)):
        yield ScanJob(update, number, (), (), sessions=(first, end))


def _commit(lake: Lake, prepared: PreparedUpdate, derived: Sequence[Derived]) -> None:
    """Replace all derived rows of the lake."""
    with attached(lake, read_only=False) as store:
        new_scratch(store.connection, "empty")
        store.query(f"USE {NAME}")

        def change() -> None:
            add_columns(store, "empty")
            remove_moved(store, prepared.update)
            delete_scores(store)
            for name in (*TABLES, *OF_TRACES):
                store.query(f"DROP TABLE IF EXISTS derived.{name}")
                store.query(f"CREATE TABLE derived.{name} AS FROM empty.derived.{name} LIMIT 0")
            create_views(store)
            for one in derived:
                add_files(store, one.files)
            check_one_row(lake, store, prepared.update)
            place_verdicts(store, [str(run_id) for (run_id,) in store.query("SELECT run_id FROM runs")])
            store.query("UPDATE derived.progress SET fingerprint = $made_by", {"made_by": fingerprint()})
            advance(store, prepared.state, len(derived))

        commit(lake, store, prepared.state, change)
