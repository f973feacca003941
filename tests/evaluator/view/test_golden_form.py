"""The form of a golden question: what failed is struck out, and the question is that of the command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from command_line import Spangrade
from made_once import copy_of, made_once
from otlp_sessions import Call, Said, write_golden, write_sessions
from pages import dangers, parsed_part
from serving import Answer, Served, serving

import spangrade as package
from spangrade import InputError
from spangrade.evaluator.apps.server.pages.golden_form import CallRow, form_fields, golden_form, tried
from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.evaluator.reports.html.session_source import stored_session
from spangrade.tracer.store import Store

ATTACK = "</textarea><script>window.hit=1</script>\"'>"


def look_up() -> Call:
    return Call("look_up", {"order": "A1"})


def refund(amount: int, error: str | None = None) -> Call:
    return Call("refund", {"amount": amount}, error=error)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """One session that passes, one whose refund fails, and one whose every text is markup."""
    return copy_of(made_once("refunds", _refunds), tmp_path / "s.duckdb")


def _refunds(path: Path) -> None:
    sessions = [
        ("good", [Said("Refund A1", "5 EUR are refunded.", [look_up(), refund(5)])]),
        ("bad", [Said("Refund A1", "I cannot.", [look_up(), refund(6, "ValueError: too much")])]),
        ("hostile", [Said(ATTACK, ATTACK, [Call(ATTACK, {ATTACK: ATTACK}, error=ATTACK)])]),
    ]
    database = package.open(path)
    database.import_files(write_sessions(path.with_suffix(".jsonl"), sessions))
    database.grade(gates=["tool_success_rate>=1"])


@pytest.fixture
def reviewer(db: Path) -> Reviewer:
    return Reviewer("ann", db.parent / "golden.json")


@pytest.fixture
def served(db: Path, reviewer: Reviewer) -> Iterator[Served]:
    with serving(db, reviewer) as one:
        yield one


def fields_of(db: Path, session_id: str) -> dict[str, str]:
    with Store.open(db, read_only=True) as store:
        return form_fields(golden_form(store, stored_session(store, session_id)))


def send(served: Served, reviewer: Reviewer, path: str, fields: dict[str, str]) -> Answer:
    body = urlencode({"token": reviewer.token, "back": "/session/bad", **fields})
    form = "application/x-www-form-urlencoded"
    return served.get(f"/session/bad/golden-question{path}", method="POST", body=body, Content_Type=form)


def written(reviewer: Reviewer) -> list[dict[str, Any]]:
    file = reviewer.golden
    assert file is not None
    found: list[dict[str, Any]] = json.loads(file.read_text())["golden_questions"] if file.exists() else []
    return found


def test_what_failed_is_struck_out_and_what_passed_is_expected(db: Path) -> None:
    with Store.open(db, read_only=True) as store:
        bad, good = (golden_form(store, stored_session(store, one)) for one in ("bad", "good"))
    assert (bad.is_failed, bad.reply, bad.calls) == (
        True,
        "I cannot.",
        (
            CallRow(0, 'look_up {"order": "A1"}', "", "look_up"),
            CallRow(1, 'refund {"amount": 6}', "it failed", "refund"),
        ),
    )
    assert set(form_fields(bad)) == {"id", "call-0", "keep-0", "call-1", "reply"}
    assert set(form_fields(good)) == {"id", "call-0", "keep-0", "call-1", "keep-1", "reply", "keep-reply"}


def test_calls_that_the_failed_question_expects_are_due_as_far_as_the_session_went(tmp_path: Path) -> None:
    def asked(*inputs: str) -> dict[str, Any]:
        return {"id": "q", "user_inputs": list(inputs), "reference_tool_interactions": reference}

    reference = [
        {"tool_name": "look_up", "input_arguments": {"order": "A1"}},
        {"tool_name": "refund", "input_arguments": {"amount": 5}},
        {"tool_name": "close"},
    ]
    forms = []
    for number, (inputs, calls) in enumerate(
        [
            (("Refund A1",), [look_up()]),
            (("Refund A1",), [look_up(), refund(6), Call("close", {"order": "A1"})]),
            (("Refund A1", "Close it"), [look_up(), refund(6)]),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        database = package.open(folder / "s.duckdb", settings=None)
        database.import_files(
            write_sessions(folder / "s.jsonl", [("s", [Said("Refund A1", "Done.", calls)])])
        )
        database.grade(write_golden(folder / "golden.json", asked(*inputs)))
        with Store.open(folder / "s.duckdb", read_only=True) as store:
            session = stored_session(store, "s")
            form = golden_form(store, session)
            forms.append((form.due, tried(store, session, form_fields(form)).problem))
    assert forms == [
        (('refund {"amount": 5}', "close"), ""),
        (('refund {"amount": 5}',), ""),
        ((), "it is passed on the session, not failed: say what should have happened"),
    ]


def test_the_form_and_the_command_make_one_question(
    db: Path, served: Served, reviewer: Reviewer, spangrade: Spangrade
) -> None:
    expected = ("--expect", 'refund {"amount": 5}', "--expect", 'required_texts=["5 EUR"]')
    file = db.parent / "by_command.json"
    done = spangrade("convert", "bad", "--failed", *expected, "-o", file, "--db", db)
    assert done.code == 0
    fields = {**fields_of(db, "bad"), "keep-1": "1", "call-1": 'refund {"amount": 5}', "texts": "5 EUR"}
    shown = send(served, reviewer, "/proof", fields)
    assert done.out[-1].partition("not reviewed: ")[2] in shown.text
    assert (
        "passes if: look_up was called with order &#34;A1&#34; and refund was called with amount 5"
        in shown.text
    )
    assert written(reviewer) == []
    assert send(served, reviewer, "", fields).status == 303
    assert written(reviewer) == json.loads(file.read_text())["golden_questions"]
    assert written(reviewer)[0]["reviewed"] is False
    send(served, reviewer, "", {**fields, "reviewed": "1"})
    assert [(one["reviewed"], one["metadata"]["reviewed_by"]) for one in written(reviewer)] == [(True, "ann")]


def test_a_call_that_is_kept_must_succeed_and_one_struck_out_is_not_expected(db: Path) -> None:
    fields = fields_of(db, "bad")
    with Store.open(db, read_only=True) as store:
        bad, good = (stored_session(store, one) for one in ("bad", "good"))
        kept = tried(store, bad, {**fields, "keep-1": "1"})
        without = tried(
            store, bad, {name: text for name, text in fields.items() if name != "keep-0"} | {"keep-1": "1"}
        )
        passing = tried(store, good, fields_of(db, "good"))
    calls = (
        {"tool_name": "look_up", "input_arguments": {"order": "A1"}},
        {
            "tool_name": "refund",
            "input_arguments": {"amount": 6},
        },
    )
    assert kept.question["reference_data"]["reference_tool_interactions"] == list(calls)
    assert kept.problem == "it fails good, which passes"
    assert without.question["reference_data"]["reference_tool_interactions"] == [calls[1]]
    assert (passing.problem, passing.question["reference_data"]["reference_response"]) == (
        "",
        "5 EUR are refunded.",
    )


def test_a_question_that_is_not_proved_is_not_written(db: Path, served: Served, reviewer: Reviewer) -> None:
    fields = fields_of(db, "bad")
    why = "it is passed on the session, not failed: say what should have happened"
    assert why in send(served, reviewer, "/proof", fields).text
    refused = send(served, reviewer, "", fields)
    assert (refused.status, why in refused.text, written(reviewer)) == (400, True, [])
    assert send(served, reviewer, "", {**fields, "draft": "1"}).status == 303
    assert [(one["id"], one["reviewed"]) for one in written(reviewer)] == [("bad", False)]


def test_what_a_question_does_not_hold_is_named_beside_the_button(
    db: Path, served: Served, reviewer: Reviewer
) -> None:
    fields = {**fields_of(db, "bad"), "keep-1": "1", "call-1": "refund {}"}
    part = served.get("/session/bad/correct").text
    assert part.index('id="proof"') > part.index('name="id"')
    shown = send(served, reviewer, "/proof", fields).text
    assert re.search(r"catches \d of \d mutants of the failure; not held: .*amount", shown), shown
    assert send(served, reviewer, "", fields).status == 400


def test_a_call_that_was_not_due_can_be_forbidden(db: Path, served: Served, reviewer: Reviewer) -> None:
    assert "forbid-1" in served.get("/session/bad/correct").text
    assert send(served, reviewer, "", {**fields_of(db, "bad"), "forbid-1": "1", "draft": "1"}).status == 303
    assert written(reviewer)[0]["reference_data"]["forbidden_tools"] == ["refund"]


@pytest.mark.parametrize(
    ("field", "text", "error"),
    [
        ("calls", "refund {amount: 5}", "the call 'refund {amount: 5}': not JSON: line 1, column 2"),
        ("state", "{", "the state '{': not JSON"),
        ("reply-match", "nearly", "what should have happened: reference_data.reference_response"),
    ],
)
def test_a_mistake_in_a_field_is_one_line(db: Path, field: str, text: str, error: str) -> None:
    fields = {**fields_of(db, "bad"), field: text, "keep-reply": "1", "keep-state": "1"}
    if field != "state":
        fields["state"] = "{}"
    with Store.open(db, read_only=True) as store, pytest.raises(InputError) as raised:
        tried(store, stored_session(store, "bad"), fields)
    assert str(raised.value).startswith(error)


def test_the_form_of_a_session_of_markup_runs_nothing(served: Served, db: Path) -> None:
    page = served.get("/session/hostile/correct")
    assert (page.status, dangers(parsed_part(page.text))) == (200, [])
    assert "&lt;script&gt;" in page.text


def test_only_who_may_write_to_a_golden_file_has_the_form(db: Path) -> None:
    for one in (None, Reviewer("ann")):
        with serving(db, one) as served:
            assert served.get("/session/bad/correct").status == 404
