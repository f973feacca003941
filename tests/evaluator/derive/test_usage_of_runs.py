"""Tokens that only runs record: of writers whose runs have their own alone in each, else of the topmost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import Fields, built_session, reading
from recordings import observed, sessions

from spangrade.evaluator.session import Usage
from spangrade.tracer.span import Span

OPENINFERENCE: dict[str, Any] = {
    "session.id": "s1",
    "llm.model_name": "claude-sonnet-4-5",
    "llm.token_count.prompt": 211,
    "llm.token_count.completion": 21,
    "llm.token_count.prompt_details.cache_read": 16,
}


@pytest.mark.parametrize("kind", ["AGENT", "CHAIN"])
def test_runs_without_model_calls_give_usage_and_models_and_no_number_of_calls(
    kind: str, tmp_path: Path
) -> None:
    given = {"openinference.span.kind": kind, **OPENINFERENCE}
    runs = [
        Span(f"{n:032x}", f"{n:016x}", None, "run", "INTERNAL", n * 100, n * 100 + 50, attributes=given)
        for n in (1, 2)
    ]
    inner = runs[0]._replace(span_id="f" * 16, parent_span_id=runs[0].span_id)  # it repeats the tokens
    (session,) = sessions([*runs, inner], tmp_path / "s.duckdb")
    assert session.usage == Usage(input_tokens=422, output_tokens=42, cached_input_tokens=32)
    assert (session.models, session.usage.llm_calls) == (("claude-sonnet-4-5",), None)


def usage(*runs: tuple[Fields, int], below: bool = False) -> tuple[int | None, int | None]:
    """The usage of runs with a model call of 100 and 10 tokens in each."""
    given: list[Fields] = []
    for n, (run, start) in enumerate(runs):
        parent = given[0].span_id if below and given else None
        at = (start, start + (50 if below and not n else 9))
        run = run._replace(span_id=f"run{n}", parent_span_id=parent)
        call = reading("llm", f"call{n}", f"run{n}", (start + 1, start + 2), model="m", input_tokens=100)
        given += [run._replace(start_ns=at[0] * 10**9, end_ns=at[1] * 10**9), call._replace(output_tokens=10)]
    session = built_session("s1", "conversation", given)
    return session.usage.input_tokens, session.usage.output_tokens


def run(own_run: bool, **tokens: int) -> Fields:
    return reading("agent", "run", None, (0, 9), name="shop", own_run=own_run, **tokens)


@pytest.mark.parametrize(
    ("own_run", "below", "expected"),
    [
        (True, False, (320, 32)),  # each is 60 and 6 above its call
        (True, True, (320, 32)),
        (False, False, (260, 26)),  # the later total may be that of the agent's life
        (False, True, (200, 20)),  # the outer run's total is that of all calls in it, which is less
    ],
)
def test_every_run_counts_only_of_those_who_record_their_own_run_alone(
    own_run: bool, below: bool, expected: tuple[int, int]
) -> None:
    each = run(own_run, input_tokens=160, output_tokens=16)
    assert usage((each, 0), (each, 20), below=below) == expected


def test_only_known_writers_record_their_own_runs_alone() -> None:
    given = {"entity.type": "agent", "input": "Hi", "output": "Hello.", "usage.prompt_tokens": 5}
    assert observed(given, "shop", scope_name="@voltagent/core").own_run
    assert not observed(given, "shop", scope_name="acme").own_run
