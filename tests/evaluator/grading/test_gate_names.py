"""A name that no session has is said once by grade and lint, where others called nearly the same."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import Spangrade
from made_once import new_database
from otlp_sessions import Call, Said, write_golden, write_sessions


def test_what_other_sessions_called_is_one_line_and_changes_no_verdict(spangrade: Spangrade, tmp_path: Path):
    sessions = [("s1", [Said("a")]), ("s2", [Said("b", "Done.", [Call("delete_account")])])]
    recorded = write_sessions(tmp_path / "spans.json", sessions)
    db = new_database(tmp_path / "x.duckdb")
    forbidden = {"forbidden_tools": ["delete_acount"]}
    golden = write_golden(
        tmp_path / "golden.json", *({"id": i, "user_inputs": [i], **forbidden} for i in ("a", "b"))
    )
    result = spangrade("grade", golden, "--db", db, "--spans", recorded, "--format", "json")
    line = (
        'forbidden_tools: no session has a tool delete_acount; did you mean "delete_account"? (2 questions)'
    )
    assert "\n".join(result.err).count(line) == 1
    verdicts = {one["question_id"]: one["verdict"] for one in json.loads("\n".join(result.out))["grades"]}
    assert verdicts == {"a": "passed", "b": "inconclusive"}
    found = spangrade("lint", "--dataset", golden, "--db", db, "--format", "json")
    assert [one["what"] for one in json.loads("\n".join(found.out))].count(line) == 1
