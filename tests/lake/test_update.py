"""An update of a lake gives the same rows as the single machine, whatever stops it in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import killed_driver
import pytest
from same_tables import differences
from spans_of_many import deliveries, land, single_machine

import spangrade
from spangrade import GradeSpec, InputError, StoreError
from spangrade.evaluator.apps.lake import job
from spangrade.evaluator.apps.lake.catalog import Lake, attached, lake_at
from spangrade.evaluator.apps.lake.grading import grading_by
from spangrade.evaluator.apps.lake.job import Sizes, Updated, update_lake
from spangrade.evaluator.derive.sync.workers import workers_in_order

SMALL = Sizes(part=200, slice=100)  # several tasks of each kind


class Folders:
    """Landing files and the database file of a single machine with the same records."""

    def __init__(self, tmp_path: Path, conversations: int) -> None:
        self.landed = deliveries(conversations)
        self.landing = str(tmp_path / "landing")
        self.db = single_machine(tmp_path / "one.duckdb", self.landed)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Some 270 spans."""
    return Folders(tmp_path_factory.mktemp("few"), 30)


def update(lake: Lake, landing: str, **options: object) -> Updated:
    return update_lake(lake, landing, map, sizes=SMALL, **options)  # type: ignore[arg-type]


def snapshots(lake: Lake) -> int:
    with attached(lake) as store:
        return int(store.query("SELECT count(*) FROM ducklake_snapshots('store')")[0][0])


@pytest.mark.exhaustive
def test_4000_spans_in_two_processes_come_to_the_single_machines_rows(lake: Lake, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 490)
    land(folders.landing, folders.landed[:3])
    with workers_in_order(2) as in_order:
        first = update_lake(lake, folders.landing, in_order, sizes=Sizes(1_000, 700))
        land(folders.landing, folders.landed[3:], first=3)
        second = update_lake(lake, folders.landing, in_order, sizes=Sizes(1_000, 700))
    rows, differing = differences(lake, folders.db)
    assert differing == {}
    assert rows["spans"] > 4_000
    assert first.spans + second.spans == rows["spans"]
    # Some of the conversations without an id; scores in logs; calls that two instrumentations recorded.
    assert min(rows["digests"], rows["scores"], rows["keyed_calls"]) > 100


@pytest.mark.exhaustive
def test_each_delivery_by_itself_comes_to_the_same_and_a_second_update_is_a_no_op(
    lake: Lake, few: Folders, tmp_path: Path
) -> None:
    landing = str(tmp_path / "landing")
    for number, records in enumerate(few.landed):
        land(landing, [records], first=number)
        update(lake, landing)
    assert differences(lake, few.db)[1] == {}
    before = snapshots(lake)
    assert update(lake, landing) == Updated(0)
    assert snapshots(lake) == before


@pytest.mark.exhaustive
def test_an_update_whose_process_is_killed_at_any_step_changes_nothing_and_can_be_run_again(
    lake: Lake, few: Folders, tmp_path: Path
) -> None:
    landing = str(tmp_path / "landing")
    land(landing, few.landed[:4])
    update(lake, landing)
    land(landing, few.landed[4:], first=4)
    before = snapshots(lake)
    for step in killed_driver.STEPS:
        assert snapshots(lake) == before
        script = [sys.executable, killed_driver.__file__, step, lake.catalog, landing, str(lake.data)]
        assert subprocess.run(script).returncode == -signal.SIGKILL
    assert update(lake, landing) == Updated(0)  # the last one was committed
    assert differences(lake, few.db)[1] == {}


def test_of_two_updates_at_once_the_second_is_refused_and_changes_nothing(
    lake: Lake, few: Folders, tmp_path: Path
) -> None:
    landing = str(tmp_path / "landing")
    land(landing, few.landed[:3])
    update(lake, landing)
    land(landing, few.landed[3:], first=3)

    def other_update(step: str) -> None:
        if step == "commit":
            update(lake, landing)

    with pytest.raises(
        StoreError, match=r": the lake was changed while this update worked: nothing of it is kept"
    ):
        update(lake, landing, on_step=other_update)
    assert differences(lake, few.db)[1] == {}


def test_a_reader_sees_all_of_an_update_or_nothing(lake: Lake, few: Folders, tmp_path: Path) -> None:
    landing = str(tmp_path / "landing")
    land(landing, few.landed[:3])
    update(lake, landing)
    count = "SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM derived.sessions)"
    with attached(lake) as store:
        before = store.query(count)
        with store.transaction():
            assert store.query(count) == before
            land(landing, few.landed[3:], first=3)
            update(lake, landing)
            assert store.query(count) == before
        assert store.query(count) != before


def test_a_reader_sees_nothing_of_a_commit_that_is_not_complete(
    lake: Lake, few: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing, golden = str(tmp_path / "landing"), tmp_path / "golden.json"
    question = {
        "id": "q",
        "user_inputs": ["hello, I am customer 1"],
        "agents_evaluated": ["shop"],
        "reference_data": {"reference_trajectory": ["shop"]},
    }
    golden.write_text(json.dumps({"golden_questions": [question]}))
    land(landing, few.landed[:3])
    update(lake, landing, grading=grading_by(GradeSpec(golden)))
    land(landing, few.landed[3:], first=3)
    seen = []
    advance = job.advance

    def advance_and_read(*arguments: Any) -> None:
        advance(*arguments)  # only COMMIT is left
        seen.append(_numbers(lake))

    monkeypatch.setattr(job, "advance", advance_and_read)
    before = _numbers(lake)
    update(lake, landing, grading=grading_by(GradeSpec(golden)))
    assert seen == [before]
    assert all(old < new for old, new in zip(before, _numbers(lake), strict=True))


def _numbers(lake: Lake) -> tuple[int, ...]:
    tables = ("spans", "logs", "runs", "verdicts", "landed")
    with attached(lake) as store:
        return store.query(f"SELECT {', '.join(f'(SELECT count(*) FROM {table})' for table in tables)}")[0]


@pytest.mark.exhaustive
def test_a_huge_session_is_a_slice_of_its_own_and_ranges_of_sessions_are_disjoint(
    lake: Lake, few: Folders, tmp_path: Path
) -> None:
    landing = str(tmp_path / "landing")
    land(landing, few.landed)
    update_lake(lake, landing, map, sizes=Sizes(part=200, slice=10))
    assert differences(lake, few.db)[1] == {}
    with attached(lake) as store:
        ranges = store.query("SELECT min(session_id), max(session_id) FROM spans GROUP BY seq ORDER BY 1")
        sizes = store.query("SELECT max(n), count(*) FROM (SELECT count(*) AS n FROM spans GROUP BY seq)")
    assert all(last < first for (_, last), (first, _) in pairwise(ranges))
    ((most, files),) = sizes
    assert (most < 40, files > 20) == (True, True)


def test_grades_are_those_of_the_single_machine(lake: Lake, few: Folders, tmp_path: Path) -> None:
    questions = [
        {
            "id": f"q{number}",
            "agents_evaluated": ["shop"],
            "user_inputs": [
                f"hello, I am customer {number}",
                f"question 1 of {number}?",
                f"question 2 of {number}?",
            ],
            "reference_data": {
                "reference_tool_interactions": [
                    {"tool_name": "look_up", "input_arguments": {"customer": number + (number == 7)}}
                ]
                * 3
            },
        }
        for number in [*range(1, 9), 999]
    ]
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps({"golden_questions": questions}))
    db = single_machine(tmp_path / "one.duckdb", few.landed)
    run = spangrade.open(db).grade(golden, gates=["tools:recall>=0.5"])
    landing = str(tmp_path / "landing")
    land(landing, few.landed)
    graded = update(lake, landing, grading=grading_by(GradeSpec.of(golden, "tools:recall>=0.5"))).graded
    rows, differing = differences(lake, db)
    assert differing == {}
    assert rows["verdicts"] == 31
    assert graded is not None
    assert graded.verdicts == {verdict: count for verdict, count in run.verdicts.items() if count}
    assert (graded.unanswered, graded.exit_code) == (("q999",), run.exit_code)


@pytest.mark.parametrize(
    ("catalog", "why"),
    [
        ("file.duckdb", "catalog: expected postgres:dbname=NAME host=HOST user=USER"),
        ("postgres:dbname=x password=secret", "catalog: expected no password in it: set PGPASSWORD"),
        ("postgres:postgresql://me:secret@db/x", "catalog: expected no password in it: set PGPASSWORD"),
    ],
)
def test_a_catalog_without_postgres_or_with_a_password_is_refused(catalog: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        lake_at(catalog)
    assert str(refused.value).startswith(why)
    assert "secret" not in str(refused.value)


def test_landing_files_among_the_lakes_own_are_refused(lake: Lake) -> None:
    assert lake.data is not None
    with pytest.raises(InputError, match=r"^landing .*: expected a folder apart from the lake's files in "):
        update(lake, f"{lake.data}/landing")
