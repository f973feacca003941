"""Of records with one id and different contents the same one is stored, in any order and split."""

from __future__ import annotations

from itertools import islice, permutations
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


def stored(path: Path, batches: list[list[Span | LogRecord]]) -> list[tuple[Any, ...]]:
    with Store.open(path) as store:
        added = [store.add(batch) for batch in batches]
        table = "logs" if isinstance(batches[0][0], LogRecord) else "spans"
        rows = store.query(f"SELECT * EXCLUDE seq FROM {table} ORDER BY trace_id")
    assert sum(one.spans + one.logs for one in added) == len(rows)
    assert sum(one.duplicates for one in added) == sum(map(len, batches)) - len(rows)
    return rows


@pytest.mark.parametrize("split", [[3], [1, 2], [1, 1, 1]], ids=str)
@pytest.mark.parametrize("records", [SPANS, LOGS], ids=["spans", "logs"])
def test_the_same_record_of_one_id_is_stored_in_any_order(
    records: list[Span | LogRecord], split: list[int], tmp_path: Path
) -> None:
    batches: list[list[Span | LogRecord]] = [[] for _ in split]
    greatest = []
    for number, order in enumerate(permutations(records, 3), 1):
        three = [record._replace(trace_id=f"{number:032x}") for record in order]
        greatest.append(three[order.index(max(order, key=records.index))])
        arriving = iter(three)
        for batch, size in zip(batches, split, strict=True):
            batch += islice(arriving, size)
    expected = stored(tmp_path / "greatest.duckdb", [greatest])
    assert stored(tmp_path / "s.duckdb", batches) == expected
