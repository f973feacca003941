"""A question with its answer, on a span that no convention names, where an agent is at work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from recordings import sessions

from spangrade import open as opened
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

WORK: dict[str, dict[str, Any]] = {
    "a model call": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
    "a tool": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"},
}
ASKED, ANSWERED = "Where is it?", "Here."
PAIRS = [("question", "answer"), ("prompt", "completion"), ("input", "output"), ("llm_input", "llm_output")]
FORMS: list[tuple[Any, Any]] = [
    (ASKED, ANSWERED),
    ([{"role": "user", "content": ASKED}], [{"role": "assistant", "content": ANSWERED}]),
    (json.dumps([{"role": "user", "content": ASKED}]), json.dumps({"answer": ANSWERED})),
    ({"question": ASKED}, {"answer": ANSWERED}),
]


def made(*attributes: dict[str, Any]) -> list[Span]:
    """Return spans each inside the one before."""
    return [
        Span(
            "a" * 32,
            f"{n + 1:016x}",
            f"{n:016x}" if n else None,
            f"step {n}",
            "INTERNAL",
            n,
            90 - n,
            attributes=of,
            scope_name="my.app",
        )
        for n, of in enumerate(attributes)
    ]


def texts(db: Path, *attributes: dict[str, Any]) -> list[list[tuple[str | None, str | None]]]:
    """Return the texts of the turns of each session."""
    found = sessions(made(*attributes), db)
    return [[(turn.user_input, turn.final_response) for turn in one.turns] for one in found]


@pytest.mark.parametrize("names", PAIRS, ids=lambda names: names[0])
@pytest.mark.parametrize("prefix", ["", "app.", "App."])
@pytest.mark.parametrize("form", FORMS, ids=["text", "messages", "json", "kvlist"])
def test_a_pair_on_the_outermost_span_is_the_turns_text(
    names: tuple[str, str], prefix: str, form: tuple[Any, Any], tmp_path: Path
) -> None:
    pair = {f"{prefix}{name}": value for name, value in zip(names, form, strict=True)}
    assert texts(tmp_path / "s.duckdb", pair, WORK["a model call"]) == [[(ASKED, ANSWERED)]]


def test_show_why_marks_a_pair_as_inferred(tmp_path: Path, spangrade: Spangrade) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(made({"question": ASKED, "answer": ANSWERED}, WORK["a tool"]))
    (session,) = opened(tmp_path / "s.duckdb")
    shown = spangrade("show", session.session_id, "--db", tmp_path / "s.duckdb", "--why", "--format", "json")
    outer, inner = json.loads("\n".join(shown.out))
    assert outer["why"].startswith("inferred: no convention names its question and its answer")
    assert inner["why"] is None


@pytest.mark.parametrize("work", WORK)
def test_a_pair_counts_where_an_agent_is_at_work_alone(work: str, tmp_path: Path) -> None:
    pair = {"question": ASKED, "answer": ANSWERED}
    assert texts(tmp_path / "one.duckdb", pair, WORK[work]) == [[(ASKED, ANSWERED)]]
    assert texts(tmp_path / "two.duckdb", pair, {"http.request.method": "GET"}) == []


@pytest.mark.parametrize(
    "outermost",
    [
        {"question": ASKED},
        {"input": ASKED},
        {"message": ASKED},
        {"question": ASKED, "output": ANSWERED},
        {"a.question": ASKED, "b.answer": ANSWERED},
        {"question": ASKED, "answer": ""},
    ],
    ids=str,
)
def test_a_part_of_a_pair_is_no_text_of_a_turn(outermost: dict[str, Any], tmp_path: Path) -> None:
    (turns,) = texts(tmp_path / "s.duckdb", outermost, WORK["a model call"])
    assert [user for user, _ in turns] == [None]


def test_a_pair_on_an_inner_span_is_none(tmp_path: Path) -> None:
    pair = {"question": ASKED, "answer": ANSWERED}
    assert texts(tmp_path / "s.duckdb", {}, pair, WORK["a model call"]) == [[(None, None)]]
