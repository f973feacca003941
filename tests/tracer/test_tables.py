"""Rows of tables in files are read in as many as fit in memory; nothing in them is computed by the file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from spangrade import InputError
from spangrade.tracer.files import read
from spangrade.tracer.span import Span

SPANS = """
SELECT
    printf('%032x', i + 1) AS trace_id,
    printf('%016x', i + 1) AS span_id,
    'chat' AS name,
    1 AS start_ns,
    2 AS end_ns,
    '{{"gen_ai.operation.name": "chat", "text": "' || repeat(md5(i::VARCHAR), {times}) || '"}}' AS attributes
FROM range({rows}) AS t(i)
"""


def spans(path: Path) -> list[Span]:
    return [record for record in read(path) if isinstance(record, Span)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("ending", ["duckdb", "parquet"])
@pytest.mark.short_form("ending", 2)
def test_rows_that_do_not_fit_in_memory_together_are_read_in_parts(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"long.{ending}"
    with duckdb.connect() as connection:
        query = SPANS.format(times=2_000, rows=1_500)  # 64 kB each, 96 MB together
        if ending == "parquet":
            connection.execute(f"COPY ({query}) TO '{path}'")
        else:
            connection.execute(f"ATTACH '{path}' AS long")
            connection.execute(f"CREATE TABLE long.spans AS {query}")
            connection.execute("DELETE FROM long.spans WHERE span_id = printf('%016x', 700)")
            connection.execute("DETACH long")
    monkeypatch.setenv("SPANGRADE_MEMORY_LIMIT", "50MB")
    expected = [f"{number:016x}" for number in range(1, 1501) if ending == "parquet" or number != 700]
    assert [span.span_id for span in spans(path)] == expected


def test_a_row_that_does_not_fit_in_memory_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET force_compression = 'uncompressed'")
        connection.execute(f"CREATE TABLE spans AS {SPANS.format(times=3_000_000, rows=1)}")  # 96 MB
    monkeypatch.setenv("SPANGRADE_MEMORY_LIMIT", "50MB")
    with pytest.raises(InputError) as refused:
        spans(path)
    assert str(refused.value) == (
        f"{path}: after row 0, rows that do not fit in memory: "
        "expected rows and row groups of which 500MB hold some"
    )


def test_a_column_that_the_file_computes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "computed.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE spans (trace_id VARCHAR, span_id VARCHAR, name VARCHAR, start_ns BIGINT, "
            "end_ns BIGINT, attributes VARCHAR, "
            "status_message VARCHAR GENERATED ALWAYS AS (repeat('x', start_ns::INTEGER)))"
        )
        connection.execute(f"INSERT INTO spans VALUES ('{1:032x}', '{1:016x}', 'chat', 10, 20, '{{}}')")
    (span,) = spans(path)
    assert (span.name, span.status_message) == ("chat", None)
