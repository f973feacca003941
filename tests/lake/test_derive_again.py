"""All sessions of a lake are derived again from its own spans: for another version, or other settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Spangrade
from same_tables import differences
from spans_of_many import deliveries, land, single_machine

from spangrade import StoreError
from spangrade import open as open_database
from spangrade.evaluator.apps.lake.catalog import Lake, attached
from spangrade.evaluator.apps.lake.derive_again import derive_again
from spangrade.evaluator.apps.lake.job import Sizes, update_lake
from spangrade.evaluator.derive.settings import set_session_from
from spangrade.tracer.store import Store

SMALL = Sizes(part=100, slice=60)


@pytest.mark.exhaustive
def test_another_version_or_other_settings_derive_all_again(
    lake: Lake, tmp_path: Path, spangrade: Spangrade
) -> None:
    landed = deliveries(12)
    landing, db = str(tmp_path / "landing"), single_machine(tmp_path / "one.duckdb", landed)
    land(landing, landed[:3])
    update_lake(lake, landing, map, sizes=SMALL)
    with attached(lake, read_only=False) as store:  # as an earlier version left it
        store.query("UPDATE derived.progress SET fingerprint = 'earlier'")
        store.query("ALTER TABLE derived.sessions DROP COLUMN tools")
        store.query("ALTER TABLE runs DROP COLUMN judge_votes")
        store.query("UPDATE derived.traces SET session_id = 'wrong'")
    land(landing, landed[3:], first=3)
    again = r": derived by another version of spangrade: `spangrade lake derive` derives all of it again$"
    with pytest.raises(StoreError, match=again):
        update_lake(lake, landing, map)
    derived = spangrade("lake", "derive", "--lake", lake.catalog)
    assert (derived.code, derived.err, len(derived.out)) == (0, [], 1)
    update_lake(lake, landing, map, sizes=SMALL)
    assert differences(lake, db)[1] == {}
    with attached(lake) as store:
        before = store.query("SELECT count(*), min(judge_votes) FROM runs")
    assert before == [(0, None)]

    named = ["gen_ai.response.id"]
    with pytest.raises(
        StoreError, match=r": derived with other settings: use these, or `spangrade lake derive`"
    ):
        update_lake(lake, landing, map, session_from=named)
    derive_again(lake, map, session_from=named, sizes=SMALL)
    with Store.open(db) as store:
        set_session_from(store, named)
    open_database(db).derive()
    rows, differing = differences(lake, db)
    assert (rows["sessions"] > 30, differing) == (True, {})
