"""A database file is taken along into a lake: its spans, logs, sessions, runs and scores."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import Spangrade
from same_tables import differences
from spans_of_many import deliveries, land, single_machine

from spangrade import InputError
from spangrade import open as open_database
from spangrade.evaluator.apps.lake.catalog import Lake, attached
from spangrade.evaluator.apps.lake.import_file import ImportedFile, import_file
from spangrade.evaluator.apps.lake.job import Sizes, update_lake
from spangrade.evaluator.derive.settings import set_session_from
from spangrade.tracer.store import Store

SMALL = Sizes(part=200, slice=60)
NUMBERED = ("batch", "seq", "first_seq", "last_seq")


def graded(db: Path, folder: Path) -> None:
    """Grade the sessions of a file, and let a person score one of them."""
    question = {
        "id": "q1",
        "user_inputs": ["hello, I am customer 1", "question 1 of 1?", "question 2 of 1?"],
        "agents_evaluated": ["shop"],
        "reference_data": {"reference_trajectory": ["shop"]},
    }
    golden = folder / "golden.json"
    golden.write_text(json.dumps({"golden_questions": [question]}))
    opened = open_database(db)
    opened.grade(golden)
    score(db, 0.5)


def score(db: Path, value: float) -> None:
    """Let a person score a session of a file."""
    opened = open_database(db)
    session = next(iter(opened.sessions()))
    opened.score(
        session.session_id, {"tone": value}, by="me", note="fair", at=datetime(2026, 1, 2, tzinfo=UTC)
    )


def test_a_file_is_imported_once_with_its_runs_and_scores(lake: Lake, tmp_path: Path) -> None:
    landed = deliveries(20)
    landing, db = str(tmp_path / "landing"), single_machine(tmp_path / "one.duckdb", landed)
    land(landing, landed[:2])
    update_lake(lake, landing, map, sizes=SMALL)
    graded(db, tmp_path)
    imported = import_file(lake, db, map, sizes=SMALL)
    rows, differing = differences(lake, db, without=NUMBERED)
    assert differing == {}
    assert (imported.runs, imported.scores, rows["runs"], rows["verdicts"]) == (1, 1, 1, 20)
    assert 0 < imported.spans < rows["spans"]
    with attached(lake) as store:
        before = store.query("FROM ducklake_current_snapshot('store')")
    assert import_file(lake, db, map, sizes=SMALL) == ImportedFile()
    with attached(lake) as store:
        assert store.query("FROM ducklake_current_snapshot('store')") == before
    score(db, 1.0)
    assert import_file(lake, db, map, sizes=SMALL) == ImportedFile(scores=1)
    assert differences(lake, db, without=NUMBERED)[1] == {}


@pytest.mark.exhaustive
def test_a_new_lake_gets_the_settings_of_the_file(lake: Lake, tmp_path: Path, spangrade: Spangrade) -> None:
    db = single_machine(tmp_path / "one.duckdb", deliveries(5))
    with Store.open(db) as store:
        set_session_from(store, ["service.name"])
    open_database(db).derive()
    import_file(lake, db, map)
    rows, differing = differences(lake, db)
    assert (rows["sessions"], differing) == (1, {})
    other = single_machine(tmp_path / "other.duckdb", deliveries(5))
    with pytest.raises(InputError, match=r"other\.duckdb: its sessions are derived with other settings than"):
        import_file(lake, other, map)
    imported = spangrade("lake", "import", db, "--lake", lake.catalog)
    assert (imported.code, imported.out) == (0, [f"nothing in {db} that the lake has not"])
