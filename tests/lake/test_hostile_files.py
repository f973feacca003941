"""Landing files that another program wrote or damaged: `lake update` takes or refuses them in one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from command_line import Spangrade
from servers import Postgres
from spans_of_many import deliveries, land

LANDED = deliveries(6)


def rewritten(replaced: str) -> Callable[[Path], object]:
    """Return what writes a file of Parquet again with a clause after `SELECT *`."""

    def write(file: Path) -> None:
        other = file.with_suffix(".other")
        duckdb.sql(f"COPY (SELECT * {replaced} FROM read_parquet('{file}')) TO '{other}' (FORMAT parquet)")
        other.replace(file)

    return write


FILES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "no Parquet": lambda file: file.write_bytes(b"\xff" * 5_000),
    "JSON": lambda file: file.write_bytes(b'{"a": 1}'),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:500]),
    "damaged": lambda file: file.write_bytes(
        file.read_bytes()[:-100] + b"\xff" * 92 + file.read_bytes()[-8:]
    ),
    "a footer longer than the file": lambda file: file.write_bytes(b"PAR1" + b"\xff\xff\xff\x7fPAR1"),
    "a link to another file": lambda file: (file.unlink(), file.symlink_to(__file__)),
    "other columns": rewritten("EXCLUDE (trace_id)"),
    "columns of other types": rewritten("REPLACE ('the secret' AS start_ns, [1] AS name)"),
    "ids that are NULL": rewritten("REPLACE (NULL AS trace_id)"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.short_form("name", 3)
def test_a_landing_file_of_another_is_one_line(
    name: str, spangrade: Spangrade, catalogs: Postgres, tmp_path: Path
) -> None:
    landing = tmp_path / "landing"
    land(str(landing), LANDED)
    first = min(file for file in landing.rglob("*.spans.parquet"))
    FILES[name](first)
    done = spangrade(
        *("lake", "update", "--lake", catalogs.new_database()),
        *("--landing", str(landing), "--data", str(tmp_path / "lake")),
    )
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert str(first) in done.err[0] or name == "damaged"
    assert "the secret" not in done.err[0]


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE ducklake_snapshot CASCADE",
        "DELETE FROM ducklake_metadata",
        "DELETE FROM ducklake_column",
        "DELETE FROM ducklake_data_file",
        "UPDATE ducklake_data_file SET path = '/etc/hostname', path_is_relative = false",
        "UPDATE ducklake_data_file SET record_count = 999999999, file_size_bytes = 1",
        "UPDATE ducklake_table SET table_name = table_name || 'x'",
        "UPDATE ducklake_metadata SET value = '/' WHERE key = 'data_path'",
        "UPDATE ducklake_snapshot SET schema_version = -1",
    ],
)
@pytest.mark.short_form("statement", 4)
def test_a_catalog_of_another_is_one_line(
    statement: str, spangrade: Spangrade, catalogs: Postgres, tmp_path: Path
) -> None:
    landing, catalog = tmp_path / "landing", catalogs.new_database()
    land(str(landing), LANDED)
    update = (
        "lake",
        "update",
        "--lake",
        catalog,
        "--landing",
        str(landing),
        "--data",
        str(tmp_path / "lake"),
    )
    assert spangrade(*update).code == 0
    catalogs.execute(catalog, statement)
    for command in (("sessions",), ("lake", "status"), ("sql", "SELECT count(*) FROM spans")):
        done = spangrade(*command, "--lake", catalog)
        assert done.code in {0, 2}, (command, done.err)
        assert len(done.err) <= 1, (command, done.err)


PLANTED = (
    "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (99999, '{}', {}, now() - interval '10 days')"
)


@pytest.mark.parametrize(
    "statement",
    [
        PLANTED.format("{folder}/mine/old.parquet", "false"),
        PLANTED.format("../mine/old.parquet", "true"),
        PLANTED.format("{folder}/lake/../mine/old.parquet", "false"),
        "UPDATE ducklake_metadata SET value = '{folder}/' WHERE key = 'data_path'",
        "UPDATE ducklake_metadata SET value = '{folder}/mine/' WHERE key = 'data_path'",
    ],
)
@pytest.mark.short_form("statement", 5)
def test_upkeep_by_a_catalog_of_another_removes_no_file_that_is_not_of_the_lake(
    statement: str, spangrade: Spangrade, catalogs: Postgres, tmp_path: Path
) -> None:
    landing, catalog, mine = tmp_path / "landing", catalogs.new_database(), tmp_path / "mine"
    land(str(landing), LANDED[:2])
    update = ("lake", "update", "--lake", catalog, "--landing", landing, "--data", tmp_path / "lake")
    assert spangrade(*map(str, update)).code == 0
    mine.mkdir()
    (mine / "old.parquet").write_bytes(b"mine")
    files = [*landing.rglob("*.parquet"), mine / "old.parquet"]
    for file in files:
        os.utime(file, (1_000_000_000, 1_000_000_000))
    catalogs.execute(catalog, statement.replace("{folder}", str(tmp_path)))
    done = spangrade("lake", "compact", "--lake", catalog)
    assert (done.code, len(done.err)) in {(0, 0), (2, 1)}
    assert [file for file in files if not file.exists()] == []
