"""Sessions that are built where they are read: the same as those that are built from what is stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from arrangements import Arrangement, arranged, changed, conversations, differences, import_each, lines_of
from spans_of_many import Record

from spangrade.evaluator.derive.sync import intake, parts
from spangrade.evaluator.derive.sync import update as sync
from spangrade.tracer.span import Span

RECORDS = conversations(400)
LINES = lines_of(RECORDS)


@pytest.fixture
def observed_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Read and write little at once; return the numbers of stored rows that are observed, as they are."""
    monkeypatch.setattr(parts, "PART", 150_000)
    monkeypatch.setattr(intake, "WRITE", 300)
    rows: list[int] = []
    observe = sync.observe_rows

    def observe_rows(job: sync.RowsJob) -> list[sync.Observed]:
        found = job[0]._replace(spans=list(job[0].spans))
        rows.append(sum(map(len, found.spans)))
        return observe((found, job[1]))

    monkeypatch.setattr(sync, "observe_rows", observe_rows)
    return rows


def once(records: list[Record]) -> list[Record]:
    """Return records without those that are there twice, with different contents."""
    kept = {(r.trace_id, r.span_id): r for r in reversed(records)}
    return list(reversed(kept.values()))


def test_sessions_that_follow_one_another_are_observed_where_they_are_read(
    observed_again: list[int], tmp_path: Path
) -> None:
    records = once(RECORDS)
    spans = sum(isinstance(record, Span) for record in records)
    database = import_each(tmp_path / "s.duckdb", [records], LINES)
    assert sum(observed_again) < spans / 2  # some sessions end in another part
    observed_again.clear()
    database.derive(all=True)
    assert sum(observed_again) == spans


@pytest.mark.usefixtures("observed_again")
@pytest.mark.parametrize("arrangement", [None, Arrangement(9, True, 3, 1), Arrangement(10, False, 1, 1)])
def test_what_an_import_writes_is_what_is_derived_again(
    arrangement: Arrangement | None, tmp_path: Path
) -> None:
    """Half of the records come again, with other contents."""
    records = [*RECORDS, *map(changed, RECORDS[::2])]
    imports = [records, RECORDS[100:300]] if arrangement is None else arranged(records, arrangement)
    database = import_each(tmp_path / "s.duckdb", imports, lines_of(records))
    (tmp_path / "imported.duckdb").write_bytes(database.path.read_bytes())
    database.derive(all=True)
    assert differences(tmp_path / "imported.duckdb", database.path) == {}
