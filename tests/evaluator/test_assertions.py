"""Assertions of a golden question, each answered by a judge, graded by the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from gemini_standin import GeminiStandIn, Request, gemini_standin
from otlp_sessions import Call, Said, write_golden, write_sessions

from spangrade.evaluator.judge.prompts import read_answer
from spangrade.evaluator.judge.protocol import JudgeError, holds

ONCE, POLITE = "offers a voucher only once", "is polite"
YES = {"reason": "It thanks.", "answer": "yes", "turns": [1, 2]}
NO = {"reason": "It offers it again.", "answer": "no", "turns": [2, 1, 2]}
UNKNOWN = {"reason": "The reply is cut.", "answer": "unknown", "turns": []}
TURNS = [Said("Hi", "Have a voucher.", [Call("offer", {"voucher": 1})]), Said("And?", "Have a voucher.")]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[GeminiStandIn]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMINI_API_KEY", "the-key")
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "judge.sqlite"))
    with gemini_standin() as standin:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        yield standin


def grade(spangrade: Spangrade, *options: str) -> tuple[int, str, Any]:
    """Return the exit code, the reason, and the judge's answers."""
    write_golden(
        Path("golden.json"), {"id": "q1", "user_inputs": ["Hi", "And?"], "assertions": [ONCE, POLITE]}
    )
    write_sessions(Path("spans.jsonl"), [("s1", TURNS)])
    command = ("grade", "golden.json", "--spans", "spans.jsonl", "--out", "out", "--reports", "json")
    code = spangrade(*command, *options).code
    (line,) = map(json.loads, Path("out/sessions.jsonl").read_text().splitlines())
    outcome = line["metrics"].get("assertions", {})
    return code, line["reason"], outcome.get("details", {}).get("assertions")


def assertion_of(request: Request) -> str:
    return re.search(r"\nAssertion:\n(.*)\n\nBEGIN", request.prompt)[1]  # type: ignore[index]


@pytest.mark.parametrize(
    ("once", "polite", "expected"),
    [
        (YES, YES, (0, "")),
        (NO, YES, (1, f"does not hold: '{ONCE}' (turn 1, 2: It offers it again.)")),
        (YES, UNKNOWN, (4, f"not answered: '{POLITE}' (The reply is cut.)")),
        (
            NO,
            UNKNOWN,
            (
                1,
                (
                    f"at best 1: does not hold: '{ONCE}' (turn 1, 2: It offers it again.); "
                    f"not answered: '{POLITE}' (The reply is cut.)"
                ),
            ),
        ),
    ],
)
@pytest.mark.short_form("once", 2)
def test_each_assertion_is_answered_and_none_is_averaged_away(
    spangrade: Spangrade, judge: GeminiStandIn, once: Any, polite: Any, expected: tuple[int, str]
) -> None:
    judge.answer = lambda request: json.dumps({ONCE: once, POLITE: polite}[assertion_of(request)])
    code, reason, answers = grade(spangrade)
    assert (code, reason.removeprefix("assertions: ")) == expected
    if UNKNOWN not in (once, polite):
        shown = {"yes": "turn 1, 2: It thanks.", "no": "turn 1, 2: It offers it again."}
        assert answers == [
            {"assertion": text, "holds": one["answer"] == "yes", "reason": shown[one["answer"]]}
            for text, one in ((ONCE, once), (POLITE, polite))
        ]
    conversation = re.search(
        r"BEGIN conversation \w+\n(.*)\nEND conversation", judge.requests[0].prompt, re.S
    )
    assert conversation[1].splitlines() == [  # type: ignore[index]
        "Turn 1",
        "User: Hi",
        "[agent] shop",
        '[tool] offer {"voucher":1}',
        "shop: Have a voucher.",
        "Turn 2",
        "User: And?",
        "shop: Have a voucher.",
    ]


def test_without_a_judge_an_assertion_is_inconclusive_and_lint_says_how(
    spangrade: Spangrade, judge: GeminiStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    code, reason, _ = grade(spangrade)
    assert (code, judge.requests) == (4, [])
    assert reason.startswith(f"assertions: not answered: '{ONCE}' (")
    assert grade(spangrade, "--no-reference", "assertions")[0] == 4  # there is nothing else to compare
    done = spangrade("lint", "--dataset", "golden.json", "--format", "json")
    found = {one["code"]: one["what"] for one in json.loads("\n".join(done.out))}
    assert found["needs_judge"] == "assertions: a judge has to answer it"


def test_votes_on_an_assertion_that_do_not_agree_leave_it_unanswered(
    spangrade: Spangrade, judge: GeminiStandIn
) -> None:
    votes = {text: iter([YES, NO, UNKNOWN]) for text in (ONCE, POLITE)}
    judge.answer = lambda request: json.dumps(next(votes[assertion_of(request)]))
    assert grade(spangrade, "--judge-votes", "3")[0] == 4


def test_a_turn_that_the_conversation_does_not_have_is_no_answer() -> None:
    question = holds({"conversation": "Turn 1"}, ONCE, turns=1)
    with pytest.raises(JudgeError, match="there is no turn 2, the conversation has 1"):
        read_answer(question, json.dumps(NO), "j")
