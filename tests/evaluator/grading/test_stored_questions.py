"""The golden questions of a run, as the database keeps them."""

from __future__ import annotations

from pathlib import Path

import orjson
from builders import question

from spangrade.evaluator.grading.stored_run import save_questions, stored_questions_of
from spangrade.tracer.store import Store

REFUND = question("refund please", id="refund", tools=[("find", {"id": 1, "note": None})], policy=["a", None])


def test_a_question_is_returned_as_the_run_had_it(tmp_path: Path) -> None:
    changed = question("refund please", id="refund", tools=["find"])
    with Store.open(tmp_path / "s.duckdb") as store:
        save_questions(store, "r1", [REFUND, question(id="other")])
        save_questions(store, "r2", [changed])
        assert stored_questions_of(store, "r1", ["refund"]).get("refund") == REFUND
        assert stored_questions_of(store, "r2", ["refund"]).get("refund") == changed
        assert stored_questions_of(store, "r2", ["other"]).get("other") is None


def test_a_question_that_did_not_change_is_stored_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        save_questions(store, "r1", [REFUND])
        save_questions(store, "r2", [REFUND])
        assert store.query("SELECT count(*) FROM golden_questions") == [(1,)]
        assert stored_questions_of(store, "r2", ["refund"]).get("refund") == REFUND


def test_a_question_that_is_not_one_any_more_is_unknown(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        save_questions(store, "r1", [REFUND])
        store.query("UPDATE golden_questions SET question = $it", {"it": orjson.dumps({"id": ""}).decode()})
        assert stored_questions_of(store, "r1", ["refund"]).get("refund") is None
