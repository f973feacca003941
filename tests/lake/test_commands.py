"""The commands on a lake: what works on a file works on a lake; what does not says so in one line."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from command_line import Spangrade
from servers import Postgres
from sinks import http_sink
from spans_of_many import deliveries, land, single_machine

LANDED = deliveries(12)


@pytest.fixture(scope="module")
def filled(catalogs: Postgres, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A lake's catalog, and a database file of the same spans."""
    from spangrade import GradeSpec
    from spangrade import open as open_database
    from spangrade.evaluator.apps.lake import api

    folder = tmp_path_factory.mktemp("filled")
    catalog = catalogs.new_database()
    land(str(folder / "landing"), LANDED)
    golden = folder / "golden.json"
    question = {
        "id": "q1",
        "user_inputs": ["hello, I am customer 1", "question 1 of 1?", "question 2 of 1?"],
        "agents_evaluated": ["shop"],
        "reference_data": {"reference_trajectory": ["shop"]},
    }
    golden.write_text(json.dumps({"golden_questions": [question]}))
    api.update(catalog, str(folder / "landing"), str(folder / "lake"), spec=GradeSpec(golden, name="first"))
    db = single_machine(folder / "one.duckdb", LANDED)
    open_database(db, settings=None).grade(golden, name="first")
    return catalog, db


def test_a_lake_is_updated_and_says_how_large_it_is(
    spangrade: Spangrade, catalogs: Postgres, tmp_path: Path
) -> None:
    catalog, landing = catalogs.new_database(), str(tmp_path / "landing")
    land(landing, LANDED)
    options = ("--lake", catalog, "--landing", landing)
    refused = spangrade("lake", "update", *options)
    assert (refused.code, refused.out, len(refused.err)) == (2, [], 1)
    assert refused.err[0].endswith(": no lake yet: `spangrade lake update` creates it where --data says")
    data = str(tmp_path / "lake")
    assert spangrade("lake", "update", *options, "--data", data).out == [
        "8 files: 99 new spans, 6 new logs, 12 sessions derived"
    ]
    assert spangrade("lake", "update", *options).out == ["nothing new has landed"]
    status = json.loads("\n".join(spangrade("lake", "status", "--lake", catalog, "--format", "json").out))
    assert {key: status[key] for key in ("data", "sessions", "spans", "logs", "landed")} == {
        "data": data,
        "sessions": 12,
        "spans": 99,
        "logs": 6,
        "landed": 8,
    }


@pytest.mark.parametrize(
    "command",
    [
        ("sessions", "--format", "json"),
        ("sql", "SELECT * FROM turns ORDER BY session_id, turn", "--format", "json"),
        ("sql", "SELECT trace_id, attributes FROM spans ORDER BY trace_id, span_id", "--format", "json"),
        ("sql", "SELECT * FROM state_variables ORDER BY ALL", "--format", "json"),
    ],
)
def test_what_a_file_shows_a_lake_shows(
    command: tuple[str, ...], spangrade: Spangrade, filled: tuple[str, Path]
) -> None:
    catalog, db = filled
    of_lake, of_file = spangrade(*command, "--db", catalog), spangrade(*command, "--db", db)
    assert (of_lake.code, of_lake.err, len(of_lake.out) > 1) == (0, [], True)
    shown = [json.loads("\n".join(done.out)) for done in (of_lake, of_file)]
    assert shown[0] == shown[1]


def test_landing_files_become_a_database_file(spangrade: Spangrade, tmp_path: Path) -> None:
    land(str(tmp_path / "landing"), LANDED)
    files = sorted((tmp_path / "landing").rglob("*.parquet"))
    one, other = tmp_path / "imported.duckdb", single_machine(tmp_path / "one.duckdb", LANDED)
    assert spangrade("import", *files, "--db", one).code == 0
    listed = [spangrade("sessions", "--db", db, "--format", "json").out for db in (one, other)]
    assert listed[0] == listed[1]


def test_a_session_of_a_lake_is_shown_with_its_grade(spangrade: Spangrade, filled: tuple[str, Path]) -> None:
    catalog, _ = filled
    listed = json.loads("\n".join(spangrade("sessions", "--db", catalog, "--format", "json").out))
    (graded,) = [row["session_id"] for row in listed if row["verdict"] != "unmatched"]
    shown = json.loads("\n".join(spangrade("show", graded, "--db", catalog, "--format", "json").out))
    assert (shown["session_id"], shown["grade"]["question_id"]) == (graded, "q1")
    runs = json.loads("\n".join(spangrade("runs", "--db", catalog, "--format", "json").out))
    assert [(run["name"], run["sessions"], run["unmatched"]) for run in runs] == [("first", 12, 11)]


@pytest.mark.parametrize(
    "query",
    ["FROM read_csv('/etc/hostname')", "DELETE FROM spans", "SELECT 1; SELECT 2", "FROM glob('/etc/*')"],
)
def test_a_query_of_a_lake_can_read_no_other_file_and_write_nothing(
    query: str, spangrade: Spangrade, filled: tuple[str, Path]
) -> None:
    refused = spangrade("sql", query, "--db", filled[0])
    assert (refused.code, refused.out, len(refused.err)) == (2, [], 1)
    assert refused.err[0].startswith("spangrade: SQL: ")


def test_plain_duckdb_reads_a_lake(filled: tuple[str, Path]) -> None:
    from spangrade.tracer.store.object_storage import connect_to_storage

    catalog, db = filled
    with connect_to_storage() as plain:
        plain.execute(f"ATTACH 'ducklake:{catalog}' AS lake (READ_ONLY)")
        mine = plain.execute("SELECT session_id, input_tokens FROM lake.sessions ORDER BY ALL").fetchall()
    with duckdb.connect(str(db), read_only=True) as single:
        assert mine == single.execute("SELECT session_id, input_tokens FROM sessions ORDER BY ALL").fetchall()


def test_a_catalog_that_cannot_be_reached_is_one_line_without_a_secret(
    spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hush")
    refused = spangrade("sessions", "--db", f"postgres:host={tmp_path} dbname=none")
    assert (refused.code, refused.out, len(refused.err)) == (2, [], 1)
    assert "hush" not in refused.err[0]


@pytest.mark.exhaustive
def test_the_scores_of_a_lake_are_sent_once(spangrade: Spangrade, catalogs: Postgres, tmp_path: Path) -> None:
    catalog, landing = catalogs.new_database(), str(tmp_path / "landing")
    land(landing, LANDED)
    spangrade("lake", "update", "--lake", catalog, "--landing", landing, "--data", str(tmp_path / "lake"))
    asked = ("grade", "--db", catalog, "--metric", "latency_metrics<=1000000")
    with http_sink() as sink:
        sink.accepting = False
        assert "12 scores not sent" in spangrade(*asked, "--send", sink.endpoint).err[-1]
        sink.accepting = True
        assert spangrade(*asked, "--send", sink.endpoint).out[-1] == f"12 scores sent to {sink.endpoint}"
        again = spangrade(*asked, "--send", sink.endpoint)
        assert again.out[-1] == f"0 scores sent to {sink.endpoint}; 12 sent before"
        number = len(sink.events())
        name = str(sink.events()[0]["gen_ai.conversation.id"])
    assert number == 12
    count = "SELECT count(*) AS n, count(sent_ns) AS accepted FROM sent_scores"
    asked = ("sql", "--db", catalog, "--format", "json", count)
    assert json.loads("\n".join(spangrade(*asked).out)) == [{"n": 12, "accepted": 12}]
    assert spangrade("lake", "delete", "--lake", catalog, "--landing", landing, "--session", name).code == 0
    assert json.loads("\n".join(spangrade(*asked).out)) == [{"n": 11, "accepted": 11}]


def test_failures_in_a_lake_are_explained_and_become_questions_as_those_in_a_file(
    spangrade: Spangrade, filled: tuple[str, Path], tmp_path: Path
) -> None:
    catalog, db = filled
    golden = tmp_path / "golden.json"
    reference = {"reference_tool_interactions": [{"tool_name": "look_up", "input_arguments": {"id": 1}}]}
    asked = {"id": "q1", "user_inputs": ["hello, I am customer 1", "question 1 of 1?", "question 2 of 1?"]}
    golden.write_text(json.dumps({"golden_questions": [{**asked, "reference_data": reference}]}))
    explained = []
    for place in (("--db", catalog), ("--db", db)):
        graded = spangrade("grade", golden, "--name", "explained", *place)
        assert graded.code == 1, graded
        done = spangrade("show", "explained", "--format", "json", *place)
        assert (done.code, done.err) == (0, [])
        explained.append(json.loads("\n".join(done.out))["failures"])
    assert explained[0] == explained[1]
    assert len(explained[0]) == 1
    (failed,) = [
        row["session_id"]
        for row in json.loads("\n".join(spangrade("sessions", "--db", db, "--format", "json").out))
        if row["verdict"] == "failed"
    ]
    made = []
    for name, place in (("lake", ("--db", catalog)), ("file", ("--db", db))):
        corrected = tmp_path / f"{name}.json"
        expect = ("--expect", 'look_up {"id": 1}')
        done = spangrade("convert", failed, "--failed", *expect, "--output", corrected, *place)
        assert done.code == 0, done
        made.append((json.loads(corrected.read_text()), done.out[-1].partition("not reviewed")[2]))
    assert made[0] == made[1]
    assert made[0][0]["golden_questions"][0]["reviewed"] is False
