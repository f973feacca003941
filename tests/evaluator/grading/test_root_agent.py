"""The name of an app means the root agent of its sessions, as datasets converted from ADK have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import question, session
from command_line import Spangrade
from grading import grade

import spangrade as package
from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.grading.interpretation import RootAgentName
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.session import Session

SHOP = session(agents=("shop_agent", "payment"), steps=("shop_agent", "payment"), app_name="shop")


def graded(one: Session, asked: GoldenQuestion, **options: RootAgentName) -> Grade:
    (found,) = grade([one], GoldenDataset(golden_questions=(asked,)), **options)
    return found


def test_the_name_of_the_app_means_the_agent_that_started_first() -> None:
    found = graded(SHOP, question("hi", agents=("shop", "payment"), trajectory=["shop", "payment"]))
    assert (found.verdict, found.notes) == ("passed", ("shop means the root agent shop_agent",))


def test_steps_in_any_order_may_have_the_name_of_the_app() -> None:
    assert graded(SHOP, question("hi", trajectory=[["payment", "shop"]])).verdict == "passed"


def test_the_name_of_an_agent_in_the_session_means_this_agent() -> None:
    one = session(agents=("root", "shop"), steps=("root", "shop"), app_name="shop")
    asked = question("hi", agents=("shop",), trajectory=["root", "shop"])
    assert (graded(one, asked).verdict, graded(one, asked).notes) == ("passed", ())


def test_a_question_with_the_name_of_another_agent_fails_as_before() -> None:
    found = graded(SHOP, question("hi", agents=("payment",), trajectory=["payment", "shop"]))
    assert (found.verdict, found.outcomes["trajectory_accuracy"].value) == ("failed", 0.5)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("app", "service", "rule", "verdict"),
    [
        ("shop", None, "app", "passed"),
        ("shop", None, "service", "passed"),
        ("shop", None, "none", "failed"),
        (None, "shop", "app", "failed"),
        (None, "shop", "service", "passed"),
        (None, "shop", "none", "failed"),
        (None, None, "service", "failed"),
    ],
)
def test_the_rule_says_what_else_names_the_root_agent(
    app: str | None, service: str | None, rule: str, verdict: str
) -> None:
    one = session(agents=("a",), app_name=app, service_name=service)
    asked = question("hi", trajectory=["shop"])
    assert graded(one, asked, root_agent_name=RootAgentName(rule)).verdict == verdict


def test_another_rule_is_refused_in_the_words_of_the_door(spangrade: Spangrade, tmp_path: Path) -> None:
    with pytest.raises(package.InputError) as refused:
        package.Gates(root_agent_name="ap")  # type: ignore[arg-type]
    expected = "gates.root_agent_name: expected one of app, service, none, found 'ap'"
    assert str(refused.value) == expected


def test_a_record_of_the_session_has_the_name_and_report_and_lint_say_what_it_means(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    event = {"id": "e", "invocationId": "i", "author": "user", "timestamp": 1.0, "content": text("hi")}
    reply = {**event, "author": "shop_agent", "timestamp": 2.0, "content": text("hello")}
    record = {"id": "s", "appName": "shop", "userId": "u", "state": {}, "events": [event, reply]}
    row = {
        "question_id": "q",
        "user_inputs": ["hi"],
        "session_id": "s",
        "session_trace": [],
        "session_state": record,
        "agents_evaluated": ["shop"],
        "reference_data": {"reference_trajectory": ["shop"]},
    }
    rows, db = tmp_path / "rows.jsonl", tmp_path / "s.duckdb"
    rows.write_text(json.dumps(row))
    done = spangrade("grade", rows, "--db", db)
    assert (done.code, done.err) == (0, [])
    assert "also: in 1 session, shop means the root agent shop_agent" in done.out
    found = json.loads("\n".join(spangrade("lint", "--dataset", rows, "--db", db, "--format", "json").out))
    assert [one["what"] for one in found if one["code"] == "root_agent"] == [
        "shop means the root agent shop_agent"
    ]
    assert spangrade("grade", rows, "--db", db, "--root-agent-name", "none").code == 1


def text(words: str) -> dict[str, object]:
    return {"role": "user", "parts": [{"text": words}]}
