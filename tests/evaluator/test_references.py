"""What the references of a golden question mean, graded by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from made_once import new_database
from otlp_sessions import Call, Said, write_golden, write_sessions


@pytest.fixture
def graded(spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Grade one session against a question of its own user inputs with the references given."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "SPANGRADE_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def grade(*turns: Said, options: tuple[str, ...] = (), **references: Any) -> Done:
        new_database(Path("spangrade.duckdb"))
        asked = {"id": "q1", "user_inputs": [turn.user for turn in turns]}
        write_golden(Path("golden.json"), {**asked, **references})
        write_sessions(Path("spans.jsonl"), [("s1", turns)])
        return spangrade("grade", "golden.json", "--spans", "spans.jsonl", *options)

    return grade


@pytest.mark.parametrize("matcher", ["exact", "subset"])
@pytest.mark.parametrize("arguments", [{"id": 10**24 + 1}, {"ids": [{"id": -(10**24) - 1}]}])
def test_integers_of_any_length_are_compared_exactly(
    graded: Any, matcher: str, arguments: dict[str, Any]
) -> None:
    gate = (f"--metric=tool_exact_match:{matcher}>=1",)
    call = {"tool_name": "find", "input_arguments": arguments}
    assert (
        graded(
            Said("Hi", calls=[Call("find", arguments)]), options=gate, reference_tool_interactions=[call]
        ).code
        == 0
    )
    other = {"id": 10**24 + 2} if "id" in arguments else {"ids": [{"id": -(10**24) - 2}]}
    assert (
        graded(Said("Hi", calls=[Call("find", other)]), options=gate, reference_tool_interactions=[call]).code
        == 1
    )
