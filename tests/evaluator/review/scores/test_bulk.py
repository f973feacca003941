"""Labels and scores in bulk, of sessions and of their spans, and the verdict against people's labels."""

from __future__ import annotations

import json
from pathlib import Path

import command_line
import pytest
from command_line import Spangrade
from otlp_sessions import Call, Said, write_sessions

import spangrade as sg

HEADER = "session_id,name,value,by,note,span_id\n"
SESSIONS = [f"s{number:02}" for number in range(24)]


def session_of(opened: sg.Database, session_id: str) -> sg.Session:
    (found,) = (one for one in opened if one.session_id == session_id)
    return found


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database with 24 sessions, of which the first 12 say what is forbidden."""
    said = ["lost" if number < 12 else "found" for number in range(24)]
    sessions = [
        (name, [Said("Hi", text, [Call("look_up")])]) for name, text in zip(SESSIONS, said, strict=True)
    ]
    recording = write_sessions(tmp_path / "s.jsonl", sessions)
    assert command_line.run("import", recording, "--db", tmp_path / "s.duckdb").code == 0
    return tmp_path / "s.duckdb"


def test_labels_and_scores_of_a_csv_are_stored_at_once(
    spangrade: Spangrade, tmp_path: Path, db: Path
) -> None:
    with sg.open(db) as opened:
        (call,) = session_of(opened, "s00").tool_interactions
    rows = tmp_path / "labels.csv"
    rows.write_text(
        f"{HEADER}s00,,pass,ann,kind,\ns01,tone,fail,ann,,\ns01,helpful,0.5,,,\n"
        f"s00,step,pass,ben,,{call.span_id}\ns00,topic,orders,ann,,\n"
    )
    done = spangrade("label", "--from", rows, "--db", db)
    assert (done.code, done.out) == (0, ["5 scores of 2 sessions"])
    with sg.open(db) as opened:
        found = [
            (one.session_id, one.name, one.value, one.label, one.source, one.author, one.note, one.evidence)
            for name in ("s00", "s01")
            for one in opened.external_scores(name)
        ]
    assert sorted(found) == [
        ("s00", "label", 1.0, "pass", "person", "ann", "kind", ()),
        ("s00", "step", 1.0, "pass", "person", "ben", "", (call.span_id,)),
        ("s00", "topic", None, "orders", "person", "ann", "", ()),
        ("s01", "helpful", 0.5, None, "program", None, "", ()),
        ("s01", "tone", 0.0, "fail", "person", "ann", "", ()),
    ]


def test_nothing_is_stored_if_a_row_cannot_be(spangrade: Spangrade, tmp_path: Path, db: Path) -> None:
    rows = tmp_path / "labels.csv"
    rows.write_text(f"{HEADER}s00,,pass,ann,,\nx,,pass,ann,,\n")
    done = spangrade("label", "--from", rows, "--db", db)
    assert (done.code, len(done.err)) == (2, 1)
    assert done.err[0].startswith(f'spangrade: {rows}: row 2: no session "x" in ')
    rows.write_text(f"{HEADER}s00,,pass,,,\ns00,,1,,,\ns00,tone,pass,ann,,,x\n,tone,pass,ann,,\n")
    assert [line.strip() for line in spangrade("label", "--from", rows, "--db", db).err] == [
        f"spangrade: {rows}: row 1: by: missing: a label is the verdict of a person",
        f"{rows}: row 2: name: missing: only the labels pass and fail need none",
        f"{rows}: row 3: more cells than the header has columns",
        f"{rows}: row 4: session_id: missing",
    ]
    rows.write_text(f"{HEADER}s00,step,pass,ann,,0123\n")
    assert spangrade("label", "--from", rows, "--db", db).err == [
        f'spangrade: {rows}: row 1: session "s00" has no span "0123"'
    ]
    assert spangrade("label", "s00", "pass", "--by", "ann", "--span", "0123", "--db", db).err == [
        'spangrade: session "s00" has no span "0123"'
    ]
    rows.write_text("session_id,verdict\ns00,pass\n")
    expected = HEADER.strip()
    assert spangrade("label", "--from", rows, "--db", db).err == [
        f'spangrade: {rows}: unknown column "verdict"; expected {expected}'
    ]
    with sg.open(db) as opened:
        assert opened.external_scores("s00") == []


def test_the_verdict_is_compared_with_labels_of_sessions(
    spangrade: Spangrade, tmp_path: Path, db: Path
) -> None:
    pytest.importorskip("scipy")
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps([{"id": "q", "user_inputs": "Hi", "forbidden_texts": ["lost"]}]))
    assert spangrade("grade", golden, "--db", db).code == 1
    with sg.open(db) as opened:
        labels = [
            {"session_id": name, "value": "pass" if number >= 10 else "fail", "by": "ann"}
            for number, name in enumerate(SESSIONS)
        ]
        (call,) = session_of(opened, "s20").tool_interactions
        step = {"session_id": "s20", "value": "fail", "by": "ann", "span_id": call.span_id}
        assert len(opened.labels([*labels, step])) == 25
    done = spangrade("judge", "passed", "--db", db, "--format", "json")
    report = json.loads("\n".join(done.out))
    counts = {"pass_pass": 12, "pass_fail": 0, "fail_pass": 2, "fail_fail": 10}
    assert (done.code, report["confusion"]) == (0, counts)
    assert [one["session_id"] for one in report["differing"]] == ["s10", "s11"]
    assert spangrade("judge", "passed", "--threshold", "1", "--db", db).code == 2


def test_a_metric_of_rules_is_compared_with_the_labels_for_it(
    spangrade: Spangrade, tmp_path: Path, db: Path
) -> None:
    pytest.importorskip("scipy")
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps([{"id": "q", "user_inputs": "Hi", "forbidden_texts": ["lost"]}]))
    spangrade("grade", golden, "--db", db)
    with sg.open(db) as opened:
        opened.labels(
            {"session_id": name, "name": "forbidden_texts", "value": "pass", "by": "ann"} for name in SESSIONS
        )
    done = spangrade("judge", "forbidden_texts", "--db", db, "--format", "json")
    assert json.loads("\n".join(done.out))["confusion"]["fail_pass"] == 12
