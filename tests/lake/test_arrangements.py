"""A lake has the rows of a database file, in whatever order and split the records land, in real sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from arrangements import Arrangement, arranged, conversations
from same_tables import differences
from spans_of_many import land, single_machine

from spangrade.evaluator.apps.lake.catalog import Lake
from spangrade.evaluator.apps.lake.job import update_lake
from spangrade.evaluator.derive.sync.workers import workers_in_order
from spangrade.tracer.span import LogRecord


@pytest.mark.exhaustive
def test_a_lake_has_the_rows_of_a_database_whatever_the_order_and_the_split(
    lake: Lake, tmp_path: Path
) -> None:
    records = [
        # Of logs that came in several updates with different scopes, a lake keeps the first.
        record
        for record in conversations(33_000)
        if not (isinstance(record, LogRecord) and record.scope_name == "another")
    ]
    db = single_machine(tmp_path / "one.duckdb", [records])
    landing = str(tmp_path / "landing")
    for number, landed in enumerate(arranged(records, Arrangement(8, is_sorted=False, imports=2, workers=2))):
        land(landing, [landed[first::3] for first in range(3)], first=3 * number)
        with workers_in_order(2) as in_order:
            update_lake(lake, landing, in_order)
    rows, differing = differences(lake, db)
    assert rows["sessions"] > 3_000
    assert differing == {}
