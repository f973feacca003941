"""The same records give the same tables and verdicts in any order and split, in steps of their real size."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from arrangements import (
    SHUFFLED,
    SPOOLED,
    arranged,
    conversations,
    differences,
    golden,
    import_each,
    lines_of,
)
from spans_of_many import Record

import spangrade
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import write

pytestmark = pytest.mark.exhaustive

REQUEST = 500  # records that an exporter sends at once


class Grouped(NamedTuple):
    """Records, and the database of one import in which one conversation follows the other."""

    records: list[Record]
    lines: dict[int, str]
    db: Path
    dataset: Path


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Grouped:
    folder = tmp_path_factory.mktemp("grouped")
    records = conversations(33_000)
    lines = lines_of(records)
    dataset = golden(folder)
    database = import_each(folder / "grouped.duckdb", [records], lines)
    run = database.grade(dataset)
    assert run.verdicts["passed"] > 200
    assert run.verdicts["failed"] > 100
    return Grouped(records, lines, database.path, dataset)


def test_sessions_and_verdicts_are_the_same_in_any_order_and_split(grouped: Grouped, tmp_path: Path) -> None:
    imports = arranged(grouped.records, SHUFFLED)
    database = import_each(tmp_path / "s.duckdb", imports, grouped.lines, SHUFFLED.workers)
    database.grade(grouped.dataset)
    assert differences(grouped.db, database.path) == {}


def test_what_a_receiver_spools_gives_the_same(grouped: Grouped, tmp_path: Path) -> None:
    database = spangrade.open(tmp_path / "s.duckdb")
    Store.open(database.path).close()
    for arrived in arranged(grouped.records, SPOOLED):
        for first in range(0, len(arrived), REQUEST):
            write(database.path, rows_of(arrived[first : first + REQUEST]))
        database.derive()
    database.grade(grouped.dataset)
    assert differences(grouped.db, database.path) == {}
