"""One update of a lake: new landing files become sessions, in one commit.

Workers read landing files and write new files of the lake, which nothing refers to until the commit. If an
update stops before its commit, the lake is unchanged.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from spangrade.evaluator.apps.lake.assign import Parts, assign, gather_jobs, plan, read_gathered, read_scanned
from spangrade.evaluator.apps.lake.catalog import (
    DERIVE_AGAIN,
    NAME,
    Lake,
    State,
    attach,
    attached,
    check_landing,
    data_path,
    new_scratch,
    state_of,
    writable,
)
from spangrade.evaluator.apps.lake.commit import (
    add_files,
    add_runs,
    advance,
    check_one_row,
    commit,
    remove_outranked,
    replace_sessions,
)
from spangrade.evaluator.apps.lake.derive_slice import LAKE_FOLDERS, Derived, DeriveJob, derive
from spangrade.evaluator.apps.lake.grading import Grading, SliceGrade, finish_run
from spangrade.evaluator.apps.lake.tasks import (
    ScanJob,
    Split,
    SplitJob,
    Update,
    scan,
    split,
)
from spangrade.evaluator.derive.settings import (
    NOT_CONFIGURED,
    Configured,
    Settings,
    apply,
    differs,
    set_session_from,
    settings_of,
)
from spangrade.evaluator.derive.sync.fingerprint import fingerprint
from spangrade.evaluator.derive.sync.parts import grouped
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.object_storage import (
    LOGS,
    SPANS,
    files_in,
    list_literal,
    make_folder,
    remove_empty_folders,
    remove_files,
    storage_connection,
)


class Sizes(NamedTuple):
    """How much a task does: the records of landing files that it looks at, and those of a slice."""

    part: int = 65_536
    slice: int = 16_384


class Updated(NamedTuple):
    """The result of an update: landing files that were read, sessions, new spans and logs, and the grades."""

    files: int
    sessions: int = 0
    spans: int = 0
    logs: int = 0
    graded: SliceGrade | None = None


class PreparedUpdate(NamedTuple):
    """The input of an update: the lake as it is, the new files by part; `landed` are those to remember."""

    update: Update
    state: State
    data: str
    parts: Parts
    sizes: Sizes
    landed: Sequence[str] = ()

    @property
    def files(self) -> int:
        """How many files there are."""
        return sum(map(len, (*self.parts.spans, *self.parts.logs)))


def update_lake(
    lake: Lake,
    landing: str,
    in_order: InOrder,
    *,
    grading: Grading | None = None,
    configured: Configured = NOT_CONFIGURED,
    session_from: Sequence[str] | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008 (a frozen value)
    on_step: Callable[[str], None] = lambda step: None,  # noqa: ARG005
) -> Updated:
    """Derive, and grade if `grading` is given, the sessions that new landing files belong to.

    The lake is created if there is none. `on_step` is called with the name of each step before it begins.
    Raises StoreError if another process changes the lake in the meantime, or derived it in another way.
    """
    on_step("prepare")
    prepared = _prepare(lake, landing, configured, session_from, sizes)
    return run_update(lake, prepared, in_order, grading=grading, on_step=on_step)


def run_update(
    lake: Lake,
    prepared: PreparedUpdate,
    in_order: InOrder,
    *,
    grading: Grading | None = None,
    on_step: Callable[[str], None] = lambda step: None,  # noqa: ARG005
    also: Callable[[Store], None] = lambda store: None,  # noqa: ARG005
) -> Updated:
    """Do what was prepared; see `update_lake`. `also` is called within the commit."""
    if not prepared.files:
        return Updated(0)
    update, sizes = prepared.update, prepared.sizes
    make_stage(update)
    with job_scratch(lake, update) as scratch:
        on_step("scan")
        read_scanned(scratch, in_order(scan, _scan_jobs(prepared)))
        gathering = list(gather_jobs(scratch, update, prepared.parts, sizes.part))
        on_step("gather")
        read_gathered(scratch, gathering, list(in_order(scan, gathering)))
        on_step("assign")
        assign(scratch)
        slices = max(plan(scratch, update, sizes.slice), 1)
        on_step("split")
        cut = list(in_order(split, _split_jobs(prepared)))
        on_step("derive")
        derived = list(in_order(derive, derive_jobs(prepared, cut, slices, grading)))
    on_step("commit")
    graded = _commit(lake, prepared, derived, grading, also)
    on_step("clean")
    remove_stage(update.stage)
    return Updated(
        prepared.files,
        sum(one.sessions for one in derived),
        sum(one.spans for one in derived),
        sum(one.logs for one in derived),
        graded,
    )


def _prepare(
    lake: Lake,
    landing: str,
    configured: Configured,
    session_from: Sequence[str] | None,
    sizes: Sizes,
) -> PreparedUpdate:
    """Find the new files."""
    with writable(lake) as store:
        data = data_path(store)
        check_landing(landing, data)
        state = state_of(store)
        if state.batch == 0:
            configure(store, configured, session_from)
            state = state_of(store)
        state.check_version(lake)
        if differs(store, configured) or _differ(session_from, settings_of(store)):
            raise StoreError(f"{lake}: derived with other settings: use these, or {DERIVE_AGAIN}")
        new = unread(store, landing)
        parts = parts_of(store, new, sizes.part)
        settings = settings_of(store)
    update = Update(lake, state.snapshot, new_stage(data), settings)
    return PreparedUpdate(update, state, data, parts, sizes, new)


def new_stage(data: str) -> str:
    """Return a new folder for the intermediate files of an update, in the folder of a lake's files."""
    return f"{data}/stage/{time.time_ns():020d}-{uuid.uuid4().hex}"


def _differ(session_from: Sequence[str] | None, settings: Settings) -> bool:
    return session_from is not None and tuple(dict.fromkeys(session_from)) != settings.session_from


def configure(store: Store, configured: Configured, session_from: Sequence[str] | None) -> None:
    """Give an empty lake its settings."""
    apply(store, configured)
    if session_from is not None:
        set_session_from(store, session_from)
    if not store.query("FROM derived.progress"):
        store.query("INSERT INTO derived.progress VALUES ($fingerprint, 0)", {"fingerprint": fingerprint()})


def unread(store: Store, landing: str) -> list[str]:
    """Return the landing files that were not read yet."""
    urls = files_in(store.connection, landing)
    new = store.query(
        "SELECT file FROM urls ANTI JOIN landed USING (file) ORDER BY file", urls=arrow_column("file", urls)
    )
    return [str(file) for (file,) in new]


def parts_of(store: Store, urls: Sequence[str], most: int) -> Parts:
    """Return landing files in parts of about `most` records."""
    if not urls:
        return Parts((), ())
    sizes = store.query(
        f"SELECT file_name, num_rows FROM parquet_file_metadata({list_literal(urls)}) "  # noqa: S608 (a list of texts)
        "ORDER BY file_name"
    )
    parts = [[url for url, _ in part] for part in grouped(sizes, lambda row: int(row[1]), most)]
    spans = [[url for url in part if url.endswith(SPANS)] for part in parts]
    logs = [[url for url in part if url.endswith(LOGS)] for part in parts]
    return Parts(spans, logs)


def make_stage(update: Update) -> None:
    """Create the folders of the intermediate files of an update."""
    for folder in ("traces", "calls", "sessions", "spans", "logs"):
        make_folder(f"{update.stage}/{folder}")


@contextmanager
def job_scratch(lake: Lake, update: Update, *, empty: bool = False) -> Iterator[Store]:
    """Give an empty database of the job's own, in a file, beside which the lake is attached as it was.

    If all is to be derived again, an `empty` database takes the lake's name, and the lake is `lake`.
    """
    with tempfile.TemporaryDirectory(prefix="spangrade-") as folder, storage_connection() as connection:
        attach(connection, lake, "lake" if empty else NAME, snapshot=update.snapshot)
        if empty:
            new_scratch(connection, NAME)
        yield new_scratch(connection, "job", Path(folder) / "job.duckdb")


def _scan_jobs(prepared: PreparedUpdate) -> Iterator[ScanJob]:
    parts = prepared.parts
    for number, (spans, logs) in enumerate(zip(parts.spans, parts.logs, strict=True)):
        yield ScanJob(prepared.update, number, spans, logs)


def _split_jobs(prepared: PreparedUpdate) -> Iterator[SplitJob]:
    parts, first = prepared.parts, 0
    for number, (spans, logs) in enumerate(zip(parts.spans, parts.logs, strict=True)):
        yield SplitJob(prepared.update, number, first, spans, logs)
        first += len(spans) + len(logs)


def derive_jobs(
    prepared: PreparedUpdate, cut: Sequence[Split], slices: int, grading: Grading | None
) -> Iterator[DeriveJob]:
    """Yield a job for each slice."""
    for folder in LAKE_FOLDERS:
        make_folder(f"{prepared.data}/{folder}")
    for number in range(slices):
        yield DeriveJob(
            prepared.update,
            number,
            prepared.state.batch + 1 + number,
            [url for one in cut for url in one.spans.get(number, ())],
            [url for one in cut for url in one.logs.get(number, ())],
            prepared.data,
            grading,
        )


def _commit(
    lake: Lake,
    prepared: PreparedUpdate,
    derived: Sequence[Derived],
    grading: Grading | None,
    also: Callable[[Store], None],
) -> SliceGrade | None:
    """Make all that was derived part of the lake at once, in place of the sessions that it replaces.

    Raises StoreError if the lake is not as it was when the update began.
    """
    with attached(lake, read_only=False) as store:
        graded = None
        scratch = new_scratch(store.connection, "run")
        if grading is not None:
            answered = store.query(
                "SELECT DISTINCT question_id FROM store.verdicts "
                "WHERE session_id IS NOT NULL AND question_id IS NOT NULL"
            )
            graded = finish_run(
                scratch, grading, [one.graded for one in derived], [str(name) for (name,) in answered]
            )
        store.query(f"USE {NAME}")

        def change() -> None:
            replace_sessions(store, prepared.update)
            remove_outranked(store, [one.outranked for one in derived])
            for one in derived:
                add_files(store, one.files)
            check_one_row(lake, store, prepared.update)
            if grading is not None:
                add_runs(store, "run")
            also(store)
            advance(store, prepared.state, len(derived), prepared.landed)

        commit(lake, store, prepared.state, change)
    return graded


def remove_stage(stage: str) -> None:
    """Remove the intermediate files of an update."""
    with storage_connection(threads=1) as connection:
        remove_files(files_in(connection, stage))
    remove_empty_folders(stage)
