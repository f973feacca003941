"""Of records with one id and different contents the same one is stored, in any order and split."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store

SPAN = Span("1" * 32, "2" * 16, None, "chat", "CLIENT", 100, 200, attributes={"a": "é"}, resource={"r": 1})
LOG = LogRecord("1" * 32, None, 100, "e", body={"b": 1}, attributes={"a": 1})
# Each beats those before it.
SPANS = [
    SPAN,
    SPAN._replace(attributes={"a": "ö"}),
    SPAN._replace(name="chat x"),
    SPAN._replace(attributes={"a": "é", "b": None}),
    SPAN._replace(events=[{"name": "a longer text"}]),
    SPAN._replace(end_ns=201),
]
LOGS = [LOG, LOG._replace(resource={"r": 1}), LOG._replace(severity="INFO"), LOG._replace(severity="WARN")]


def stored(path: Path, batches: list[list[Span | LogRecord]]) -> tuple[Any, ...]:
    with Store.open(path) as store:
        added = [store.add(batch) for batch in batches]
        table = "logs" if isinstance(batches[0][0], LogRecord) else "spans"
        (row,) = store.query(f"SELECT * EXCLUDE seq FROM {table}")
    assert sum(one.spans + one.logs for one in added) == 1
    assert sum(one.duplicates for one in added) == sum(map(len, batches)) - 1
    return row


@pytest.mark.parametrize("records", [SPANS, LOGS], ids=["spans", "logs"])
def test_the_same_record_of_one_id_is_stored_in_any_order(
    records: list[Span | LogRecord], tmp_path: Path
) -> None:
    for number, three in enumerate(permutations(records, 3)):
        greatest = max(three, key=records.index)
        expected = stored(tmp_path / f"{number}.one.duckdb", [[greatest]])
        for split in ([[*three]], [[three[0]], [*three[1:]]], [[one] for one in three]):
            path = tmp_path / f"{number}.{len(split)}.duckdb"
            assert stored(path, split) == expected, (three, split)
