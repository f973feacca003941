"""A lake that the version of 2026-11-23 wrote is derived again and updated."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from paths import FIXTURES
from same_tables import differences
from servers import Postgres
from spans_of_many import conversation, land, single_machine

from spangrade.evaluator.lake.catalog import lake_at
from spangrade.evaluator.lake.derive_again import derive_again
from spangrade.evaluator.lake.job import update_lake
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.span import Span

EARLIER = FIXTURES / "databases" / "2026-11-23" / "lake.tar.gz"


@pytest.mark.exhaustive
def test_a_lake_of_an_earlier_version_is_derived_again_and_updated(
    catalogs: Postgres, tmp_path: Path
) -> None:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(EARLIER.read_bytes()))) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "lake"
    dump = folder / "catalog.sql"
    landing = str(folder / "landing")
    dump.write_text(dump.read_text().replace("@DATA@", str(folder / "data")).replace("@LANDING@", landing))
    catalog = catalogs.new_database()
    catalogs.load(catalog, dump)
    lake = lake_at(catalog)
    with pytest.raises(StoreError, match="derived by another version of spangrade"):
        update_lake(lake, landing, map)
    assert derive_again(lake, map).sessions == 20
    landed = [
        [record for number in numbers for record in conversation(number)]
        for numbers in (range(20), range(20, 25))
    ]
    land(landing, landed[1:], first=1)
    new = sum(isinstance(record, Span) for record in landed[1])
    assert update_lake(lake, landing, map).spans == new
    rows, differing = differences(lake, single_machine(tmp_path / "one.duckdb", landed))
    assert rows["sessions"] == 25
    assert differing == {}
