"""The matrix of hidden calls in a lake: no cell is a pass, and its mirror."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hidden_calls import NONE, SPANS, not_passed, otlp, passes, verdicts
from servers import Postgres

import spangrade as package
from spangrade.evaluator.apps.lake import api
from spangrade.evaluator.database import open_lake


def found_by(way: str, catalogs: Postgres, folder: Path) -> dict[str, tuple[str, str]]:
    file = folder / "spans.jsonl"
    file.write_text(json.dumps(otlp(way)) + "\n")
    db, catalog = folder / "spangrade.duckdb", catalogs.new_database()
    package.open(db).import_files([file])
    api.import_file(catalog, db, str(folder / "lake"))
    return verdicts(open_lake(catalog), None)


@pytest.mark.parametrize("way", [way for way in SPANS if way != NONE])
@pytest.mark.short_form("way", 13)
def test_matrix_of_a_lake(way: str, catalogs: Postgres, tmp_path: Path) -> None:
    found = found_by(way, catalogs, tmp_path)
    assert passes(found) == [], found


def test_mirror_of_a_lake(catalogs: Postgres, tmp_path: Path) -> None:
    assert not_passed(found_by(NONE, catalogs, tmp_path)) == {}
