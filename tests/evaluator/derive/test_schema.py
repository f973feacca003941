"""Tables, views, JSON and documentation follow from the columns of the record types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import builders
import pytest
from paths import RECORDED, SAMPLE

from spangrade.evaluator.derive import load, update
from spangrade.evaluator.derive.schema import RECORDS, TABLES, documented_views
from spangrade.evaluator.derive.session_rows import rows_of
from spangrade.evaluator.results.views import VIEWS
from spangrade.evaluator.session import Error, Session, StateVariable, UnreadableSpan
from spangrade.tracer.files import read
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "s.duckdb") as opened:
        yield opened


def stored(store: Store, *sessions: Session) -> list[Session]:
    """Sessions written to the derived tables and read back."""
    update(store)
    for table, rows in rows_of(sessions, 1).items():
        if rows:
            incoming = arrow_rows(rows, TABLES[table].arrow_types)
            store.query(f"INSERT INTO derived.{table} BY NAME FROM incoming", incoming=incoming)
    return list(load(store))


def view(store: Store, name: str) -> list[dict[str, Any]]:
    cursor = store.connection.execute(f"FROM {name}")
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


WHOLE = builders.session(
    [("hi", [builders.tool("look", {"a": [1, None]}, output=None, output_known=True)]), (None, ())],
    handoffs=(("shop", "returns"), (None, "shop")),
    state_variables={"x": {"y": [1]}, "none": None},
    llm_calls=(builders.llm(), builders.llm(None, (None, None))),
    models=("gpt-4o",),
    cost_unknown="a model without a name",
    errors=(Error("tool look", None, "t1", "look"),),
    missing_spans=1,
    sampled=True,
    sample_ratio=0.25,
    unreadable_spans=(UnreadableSpan("acme", "KeyError", "t1", "look"),),
    assembly_error="KeyError",
)
UNKNOWN = builders.session(
    [(None, [builders.tool("look", ok=None, agent=None, latency_s=None)])],
    agents=None,
    session_id="s2",
    session_id_source="trace",
    handoffs=None,
)
EMPTY = builders.session([], steps=(), session_id="s3", start_ns=None, state_variables={})


def test_a_session_is_read_back_as_it_was_written(store: Store) -> None:
    assert stored(store, WHOLE, UNKNOWN, EMPTY) == [WHOLE, UNKNOWN, EMPTY]


def test_a_result_of_json_null_is_not_an_unknown_one(store: Store) -> None:
    stored(store, WHOLE, UNKNOWN)
    assert [(row["input_arguments"], row["output"]) for row in view(store, "tool_interactions")] == [
        ('{"a":[1,null]}', "null"),
        (None, None),
    ]


def test_every_view_has_the_documented_columns_and_their_comments(store: Store) -> None:
    update(store)
    described = store.query(
        "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() "
        "WHERE schema_name = 'main' "
        "AND table_name IN (SELECT view_name FROM duckdb_views() WHERE NOT internal) "
        "ORDER BY table_name, column_index"
    )
    documented = [
        (one.name, c.name, c.type, f"{c.description} ({c.unit})" if c.unit else c.description)
        for one in sorted(documented_views())
        for c in one.columns
    ]
    assert described == documented


def test_every_field_is_described() -> None:
    assert [c for one in documented_views() for c in one.columns if not c.description] == []
    assert {one.name for one in documented_views()} == {
        *TABLES,
        *VIEWS,
        "state_variables",
        "question_metadata",
    }
    assert all(one.description for one in documented_views())


def test_json_has_every_field_and_views_have_the_same_values(store: Store) -> None:
    (session,) = stored(store, WHOLE)
    shown = json.loads(json.dumps(session.to_json()))
    for name in RECORDS:
        rows = [{k: plain(v) for k, v in row.items() if k != "session_id"} for row in view(store, name)]
        assert [{("turn" if k == "index" else k): v for k, v in one.items()} for one in shown[name]] == rows
    assert shown["started_at"] == "1970-01-01T00:00:00"
    assert shown["usage"] == {
        "llm_calls": None,
        "input_tokens": None,
        "output_tokens": None,
        "cached_input_tokens": None,
        "reasoning_tokens": None,
        "complete": False,
    }
    assert shown["latency"]["total_s"] == 3.0
    assert shown["handoffs"] == [["shop", "returns"], [None, "shop"]]
    assert view(store, "sessions")[0]["handoffs"] == [["shop", "returns"], [None, "shop"]]
    variables = {row["name"]: json.loads(row["value"]) for row in view(store, "state_variables")}
    assert variables == shown["state_variables"] == {"x": {"y": [1]}, "none": None}
    assert tuple(view(store, "state_variables")[0])[1:] == StateVariable._fields


def plain(cell: Any) -> Any:
    """A view's cell as JSON has it: DuckDB's JSON is text, its timestamps are datetimes."""
    if isinstance(cell, str) and cell[:1] in {"{", "[", "n"}:
        return json.loads(cell)
    return cell.isoformat() if hasattr(cell, "isoformat") else cell


def test_the_views_have_a_row_per_record(store: Store) -> None:
    for path in (SAMPLE / "spans.otlp.jsonl", RECORDED / "adk.otlp.jsonl"):
        store.add(record for record in read(path) if not isinstance(record, Problem))
    update(store)
    sessions = list(load(store))
    counts = {name: len(view(store, name)) for name in (*TABLES, "state_variables")}
    expected = {name: sum(len(getattr(s, name)) for s in sessions) for name in RECORDS}
    variables = sum(len(s.state_variables or ()) for s in sessions)
    assert counts == expected | {"sessions": len(sessions), "state_variables": variables}
    assert {name for name, count in counts.items() if not count} == {
        "unreadable_spans",
        "requested_calls",
        "recorded_scores",
        "simulated_messages",
    }
