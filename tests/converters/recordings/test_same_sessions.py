"""A recording that went through another program makes the session that it makes as OTLP."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow.parquet
import pytest
from paths import FIXTURES
from recordings import recorded_sessions, records, sessions

from spangrade.evaluator.session import Session
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem, Span

RECORDINGS = FIXTURES / "recordings"
LANGFUSE_TEXTS = (
    *("id", "trace_id", "type", "name", "parent_observation_id", "level", "status_message"),
    *("session_id", "user_id", "input", "output", "provided_model_name"),
)


def facts(session: Session) -> dict[str, Any]:
    """Return what a session shows of the agent, without ids of traces and without times."""
    return {
        "id": session.session_id,
        "turns": [(turn.user_input, turn.final_response) for turn in session.turns],
        "agents": session.agents,
        "steps": [(step.kind, step.name) for step in session.trajectory],
        "tools": [
            (call.agent, call.tool_name, call.input_arguments, call.output, call.ok, call.handoff)
            for call in session.tool_interactions
        ],
        "state": session.state_variables,
        "calls": [(call.model, call.input_tokens, call.output_tokens) for call in session.llm_calls],
        "usage": session.usage,
    }


def read_whole(path: Path) -> list[Span | LogRecord]:
    found = list(read(path))
    assert [each for each in found if isinstance(each, Problem)] == []
    return [each for each in found if not isinstance(each, Problem)]


@pytest.mark.parametrize(
    ("file", "original"),
    [
        ("zipkin.json.gz", "pydantic_ai"),
        ("phoenix_dataframe.jsonl.gz", "langgraph_openinference"),
        ("phoenix_dataframe.parquet", "openai_agents_openinference"),
        ("phoenix_api.json.gz", "langgraph_openinference"),
        ("langfuse_observations.json.gz", "langfuse_js"),
    ],
)
@pytest.mark.short_form("file", 3)
def test_an_export_makes_the_session_of_its_original(file: str, original: str, tmp_path: Path) -> None:
    (expected,) = recorded_sessions(original)
    (session,) = sessions(read_whole(RECORDINGS / file), tmp_path / "export.duckdb")
    assert facts(session) == facts(expected)


@pytest.mark.parametrize("is_parquet", [True, False])
def test_phoenix_s_frame_as_csv_makes_the_session_of_its_original(is_parquet: bool, tmp_path: Path) -> None:
    import pandas

    file = "phoenix_dataframe.parquet" if is_parquet else "phoenix_dataframe.jsonl.gz"
    path = RECORDINGS / file
    frame = pandas.read_parquet(path) if is_parquet else pandas.read_json(path, lines=True)
    frame.to_csv(tmp_path / "frame.csv")
    (expected,) = recorded_sessions(
        "openai_agents_openinference" if is_parquet else "langgraph_openinference"
    )
    (session,) = sessions(read_whole(tmp_path / "frame.csv"), tmp_path / "export.duckdb")
    assert facts(session) == facts(expected)


def jaeger(spans: Iterable[Span]) -> Any:
    """Return spans as Jaeger's query API does, by OpenTelemetry's mapping."""
    traces: dict[str, list[dict[str, Any]]] = {}
    for span in spans:
        tags = span.attributes | {"span.kind": span.kind.lower(), "otel.scope.name": span.scope_name}
        if span.status != "UNSET":
            tags |= {"otel.status_code": span.status, "otel.status_description": span.status_message or ""}
        if span.status == "ERROR":
            tags["error"] = True
        traces.setdefault(span.trace_id, []).append(
            {
                "traceID": span.trace_id,
                "spanID": span.span_id,
                "flags": 1,
                "operationName": span.name,
                "references": [
                    {"refType": "CHILD_OF", "traceID": span.trace_id, "spanID": span.parent_span_id}
                ]
                if span.parent_span_id
                else [],
                "startTime": span.start_ns // 1000,
                "duration": (span.end_ns - span.start_ns) // 1000,
                "tags": [pair(key, value) for key, value in tags.items()],
                "logs": [
                    {
                        "timestamp": event["time_ns"] // 1000,
                        "fields": [
                            pair("event", event["name"]),
                            *(pair(key, value) for key, value in event["attributes"].items()),
                        ],
                    }
                    for event in span.events
                ],
                "processID": "p1",
                "warnings": None,
            }
        )
    processes = {"p1": {"serviceName": "customer-service", "tags": []}}
    found = [{"traceID": key, "spans": trace, "processes": processes} for key, trace in traces.items()]
    return {"data": found, "total": 0, "limit": 0, "offset": 0, "errors": None}


def pair(key: str, value: Any) -> dict[str, Any]:
    """Return a tag; lists and objects are JSON texts."""
    match value:
        case bool():
            return {"key": key, "type": "bool", "value": value}
        case int():
            return {"key": key, "type": "int64", "value": value}
        case float():
            return {"key": key, "type": "float64", "value": value}
        case str():
            return {"key": key, "type": "string", "value": value}
    return {"key": key, "type": "string", "value": orjson.dumps(value).decode()}


@pytest.mark.parametrize(
    "original", ["pydantic_ai", "pydantic_ai_tool_raises", "agno", "langgraph_traceloop"]
)
@pytest.mark.short_form("original", 2)
def test_jaeger_s_query_json_makes_the_session_of_its_original(original: str, tmp_path: Path) -> None:
    spans = [record for record in records(original) if isinstance(record, Span)]
    (expected,) = sessions(spans, tmp_path / "original.duckdb")
    path = tmp_path / "traces.json"
    path.write_bytes(orjson.dumps(jaeger(spans)))
    (session,) = sessions(read_whole(path), tmp_path / "export.duckdb")
    assert facts(session) == facts(expected)


def snake_case(row: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key): value for key, value in row.items()}


def blob_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return an observation as a line of Langfuse's export to blob storage."""
    times = {key: re.sub("T|Z", " ", row[key]).strip() for key in ("startTime", "endTime")}
    parent = {"parentObservationId": row["parentObservationId"] or ""}
    return snake_case({**row, **times, **parent})


def as_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"\n".join(orjson.dumps(blob_row(row)) for row in rows)


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    blob_rows = [blob_row(row) for row in rows]
    writer = csv.DictWriter(out, fieldnames=list(blob_rows[0]))
    writer.writeheader()
    for row in blob_rows:
        objects = {key: orjson.dumps(value).decode() for key, value in row.items() if isinstance(value, dict)}
        writer.writerow({**row, **objects})
    return out.getvalue().encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    """Return observations in Parquet, with times as timestamps and counts as a map."""
    table = pyarrow.Table.from_pylist(
        [
            {
                **blob_row(row),
                "start_time": datetime.fromisoformat(row["startTime"]),
                "end_time": datetime.fromisoformat(row["endTime"]),
                "usage_details": list((row["usageDetails"] or {}).items()),
            }
            for row in rows
        ],
        schema=pyarrow.schema(
            [
                *((name, pyarrow.string()) for name in LANGFUSE_TEXTS),
                ("start_time", pyarrow.timestamp("ms", "UTC")),
                ("end_time", pyarrow.timestamp("us")),
                ("usage_details", pyarrow.map_(pyarrow.string(), pyarrow.int64())),
            ]
        ),
    )
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out)
    return out.getvalue()


def as_list(rows: list[dict[str, Any]]) -> bytes:
    return orjson.dumps([blob_row(row) for row in rows])


def as_traces(rows: list[dict[str, Any]]) -> bytes:
    """Return observations as traces, which have the session and the user, as `/api/public/traces/ID` does."""
    traces: dict[str, dict[str, Any]] = {}
    for row in rows:
        shared = {"sessionId": row["sessionId"], "userId": row["userId"]}
        trace = traces.setdefault(row["traceId"], {"id": row["traceId"], **shared, "observations": []})
        trace["observations"].append({**row, "sessionId": None, "userId": None})
    return orjson.dumps(list(traces.values()))


def as_download(rows: list[dict[str, Any]]) -> bytes:
    """Return traces as the page downloads them: with observations beside each, and some within it again."""
    traces = orjson.loads(as_traces(rows))
    observed = [
        {
            "trace": {**trace, "observations": trace["observations"][:1]},
            "observations": trace["observations"],
            "scores": [],
        }
        for trace in traces
    ]
    return b"\n".join(orjson.dumps(each, option=orjson.OPT_INDENT_2) for each in observed)


@pytest.mark.parametrize("form", [as_lines, as_list, as_traces, as_download, as_csv, as_parquet])
def test_langfuse_s_other_exports_make_the_same_session(
    form: Callable[[list[dict[str, Any]]], bytes], tmp_path: Path
) -> None:
    observations = orjson.loads(gzip.decompress((RECORDINGS / "langfuse_observations.json.gz").read_bytes()))
    path = tmp_path / "export"
    path.write_bytes(form(observations["data"]))
    (expected,) = recorded_sessions("langfuse_js")
    (session,) = sessions(read_whole(path), tmp_path / "export.duckdb")
    assert facts(session) == facts(expected)


def test_spans_in_parquet_and_in_another_database_make_the_same_session(tmp_path: Path) -> None:
    original = records("adk")
    db = tmp_path / "original.duckdb"
    (expected,) = sessions(original, db)
    spans, logs = tmp_path / "spans.parquet", tmp_path / "logs.parquet"
    with duckdb.connect(str(db)) as connection:
        connection.execute(f"COPY spans TO '{spans}'; COPY logs TO '{logs}'")
    for number, paths in enumerate(([db], [spans, logs])):
        found = [record for path in paths for record in read_whole(path)]
        assert sorted(found, key=repr) == sorted(original, key=repr)
        (session,) = sessions(found, tmp_path / f"{number}.duckdb")
        assert facts(session) == facts(expected)
