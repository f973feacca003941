"""Upkeep of a lake: files are merged and removed, sessions deleted; all other rows stay as they are."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from same_tables import differences
from servers import Postgres
from spans_of_many import SECOND_NS, START_NS, conversation, deliveries, land, single_machine

from spangrade import InputError, StoreError
from spangrade import open as open_database
from spangrade.evaluator.apps.lake import delete as delete_module
from spangrade.evaluator.apps.lake import job
from spangrade.evaluator.apps.lake.catalog import Lake, attached, lake_at
from spangrade.evaluator.apps.lake.compact import Compacted, compact
from spangrade.evaluator.apps.lake.delete import delete_from_lake
from spangrade.evaluator.apps.lake.job import Sizes, update_lake
from spangrade.evaluator.maintenance.delete import delete

SMALL = Sizes(part=200, slice=60)
LANDED = deliveries(20)
USER = "hello, I am customer 10"


class Filled:
    """A lake of three updates and the database file of a single machine with the same records."""

    def __init__(self, catalogs: Postgres, folder: Path) -> None:
        self.data, self.landing = folder / "lake", folder / "landing"
        self.lake = lake_at(catalogs.new_database(), str(self.data))
        self.db = single_machine(folder / "one.duckdb", LANDED)
        for first, end in ((0, 2), (2, 4), (4, None)):
            land(str(self.landing), LANDED[first:end], first=first)
            update_lake(self.lake, str(self.landing), map, sizes=SMALL)


@pytest.fixture(scope="module")
def filled(catalogs: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A lake that the tests change one after another."""
    return Filled(catalogs, tmp_path_factory.mktemp("filled"))


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def written_before_yesterday(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left behind")
    os.utime(path, (0, 0))
    return path


def ranges(lake: Lake, table: str) -> list[tuple[str, str]]:
    with attached(lake) as store:
        query = f"SELECT min(session_id), max(session_id) FROM {table} GROUP BY filename ORDER BY 1"
        return [(first, last) for first, last in store.query(query)]


@pytest.mark.exhaustive
def test_compaction_changes_no_row_and_leaves_few_sorted_files(filled: Filled) -> None:
    lake = filled.lake
    for name in ("spans/000001-left.parquet", "stage/00000-left/spans/slice=0/1.parquet"):
        written_before_yesterday(filled.data, name)
    young = filled.data / "spans" / "000001-young.parquet"
    young.write_bytes(b"of a running update")
    before = len(ranges(lake, "spans"))
    compacted = compact(lake, map, keep_s=0, rows=130)
    assert differences(lake, filled.db)[1] == {}
    for table in ("spans", "derived.sessions", "derived.llm_calls", "derived.traces"):
        found = ranges(lake, table)
        assert all(last < first for (_, last), (first, _) in pairwise(found))
    assert before > len(ranges(lake, "spans")) > 1
    assert compacted.files_after < compacted.files_before / 2
    assert compacted.removed > compacted.files_before - compacted.files_after
    assert compacted.bytes_removed > 0
    assert young.exists()
    assert not list(filled.data.rglob("*-left*"))
    again = compact(lake, map, keep_s=0, rows=130)
    assert (again.removed, again.files_after) == (0, compacted.files_after)
    young.unlink()


@pytest.mark.exhaustive
def test_a_compacted_lake_is_updated_as_before(filled: Filled) -> None:
    land(str(filled.landing), LANDED[:1], first=100)  # delivered again, among them spans of old traces
    update_lake(filled.lake, str(filled.landing), map, sizes=SMALL)
    assert differences(filled.lake, filled.db)[1] == {}


@pytest.mark.exhaustive
def test_a_commit_that_meets_a_compaction_is_done_again(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, landing = filled.lake, str(filled.landing)
    span = next(conversation(7))
    late = [[span._replace(span_id="f" * 16)]]  # of a trace that the lake has
    land(landing, late, first=150)
    compacted: list[Compacted | None] = []
    advance = job.advance

    def advance_and_compact(*arguments: Any) -> None:
        advance(*arguments)  # only COMMIT is left
        compacted.append(compact(lake, map, rows=1_000_000) if not compacted else None)

    monkeypatch.setattr(job, "advance", advance_and_compact)
    assert update_lake(lake, landing, map, sizes=SMALL).spans == 1
    assert [one is None for one in compacted] == [False, True]
    assert compacted[0] is not None
    assert compacted[0].files_after < compacted[0].files_before
    assert differences(lake, single_machine(filled.db, late))[1] == {}


def test_a_deleted_users_text_is_in_no_file_and_not_in_the_catalog(
    filled: Filled, catalogs: Postgres, spangrade: Spangrade
) -> None:
    lake, landing = filled.lake, str(filled.landing)
    with attached(lake) as store:
        ((session, text),) = store.query(
            "SELECT session_id, user_input FROM derived.turns WHERE turn = 1 ORDER BY session_id DESC LIMIT 1"
        )
    assert text == USER
    written_before_yesterday(filled.data, "spans/000001-left.parquet").write_text(USER)
    assert in_files(filled, USER)
    assert in_catalog(catalogs, lake, session)
    counted = spangrade(
        "lake", "delete", "--lake", lake.catalog, "--landing", landing, "--session", session, "--dry-run"
    )
    deleted = open_database(filled.db).delete(session)
    assert counted.out == [f"1 session: {deleted.spans} spans and {deleted.logs} logs would be deleted"]
    done = spangrade("lake", "delete", "--lake", lake.catalog, "--landing", landing, "--session", session)
    assert (done.code, done.err) == (0, [])
    assert done.out[0].startswith(f"1 session: {deleted.spans} spans and {deleted.logs} logs deleted; ")
    assert in_files(filled, USER) == []
    assert in_files(filled, session) == []
    assert in_catalog(catalogs, lake, session) == []
    assert update_lake(lake, landing, map).files == 0
    assert differences(lake, filled.db)[1] == {}
    refused = spangrade("lake", "delete", "--lake", lake.catalog, "--landing", landing, "--session", session)
    assert (refused.code, refused.out) == (2, [])


@pytest.mark.exhaustive
def test_a_deletion_that_is_interrupted_is_finished_by_the_same_command(
    filled: Filled, catalogs: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, landing = filled.lake, str(filled.landing)
    with attached(lake) as store:
        ((session, text),) = store.query(
            "SELECT session_id, user_input FROM derived.turns WHERE turn = 1 ORDER BY session_id LIMIT 1"
        )
    assert delete(filled.db, sessions=[session]).sessions == 1

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(delete_module, "finish_deletion", interrupt)
        with pytest.raises(KeyboardInterrupt):
            delete_from_lake(lake, map, landing, sessions=[session])
    assert differences(lake, filled.db)[1] == {}  # nobody reads it any more, but files have it
    assert in_files(filled, text)
    again = delete_from_lake(lake, map, landing, sessions=[session])
    assert (again.sessions, again.spans, again.logs) == (0, 0, 0)
    assert again.bytes_removed > 0
    assert in_files(filled, text) == []
    assert in_files(filled, session) == []
    assert in_catalog(catalogs, lake, session) == []
    assert differences(lake, filled.db)[1] == {}
    with pytest.raises(InputError, match=session):
        delete_from_lake(lake, map, landing, sessions=[session])


@pytest.mark.exhaustive
def test_retention_and_a_users_deletion_come_to_the_single_machines_rows(filled: Filled) -> None:
    lake, landing = filled.lake, str(filled.landing)
    with pytest.raises(InputError, match=r"^landing: expected the folder whose files the lake has read"):
        delete_from_lake(lake, map, user="user-12")
    of_user = delete(filled.db, user="user-12")
    before_ns = START_NS + 5 * 60 * SECOND_NS
    old = delete(filled.db, before_ns=before_ns)
    assert min(of_user.sessions, of_user.logs, old.sessions, old.logs) > 0

    def delete_both(step: str) -> None:
        if step == "commit":
            found = delete_from_lake(lake, map, landing, user="user-12")
            assert (found[:3], found.unread) == (of_user[:3], 1)
            arrived = delete_from_lake(lake, map, landing, before_ns=before_ns, by_arrival=True, dry_run=True)
            assert arrived[:3] == (0, 0, 0)
            assert delete_from_lake(lake, map, landing, before_ns=before_ns)[:3] == old[:3]

    late = [list(conversation(12))[:2]]
    land(landing, late, first=200)
    with pytest.raises(StoreError, match=r": the lake was changed while this update worked"):
        update_lake(lake, landing, map, on_step=delete_both)
    assert differences(lake, filled.db)[1] == {}
    # What was not read yet is new, as what arrives later is.
    update_lake(lake, landing, map)
    assert differences(lake, single_machine(filled.db, late))[1] == {}


def in_files(filled: Filled, text: str) -> list[str]:
    """Return the files of the lake and the landing files that have a text, in their bytes or their rows."""
    found = []
    with attached(filled.lake) as store:
        for folder in (filled.data, filled.landing):
            for path, content in files_below(folder).items():
                shown = content.decode(errors="replace")
                if content[:4] == b"PAR1":
                    shown += str(store.query(f"FROM read_parquet('{path}', hive_partitioning = false)"))
                if text in shown:
                    found.append(str(path))
    return found


def in_catalog(catalogs: Postgres, lake: Lake, text: str) -> list[str]:
    """Return the tables of the catalog in Postgres in which a text is."""
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    tables = catalogs.execute(lake.catalog, query).split()
    return [table for table in tables if text in catalogs.execute(lake.catalog, f"SELECT * FROM {table}")]
