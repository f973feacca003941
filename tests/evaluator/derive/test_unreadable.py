"""Spans that a dialect cannot read, and sessions that cannot be assembled, are listed and never pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import command_line
import pytest
from builders import question, session
from grading import grade
from recordings import sessions

from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.derive.sync.fingerprint import fingerprint
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.session import UnreadableSpan
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

DECLARED = """
from spangrade.converters.spans.dialect import Dialect
DIALECT = Dialect("acme", read, only_if=claims)
"""
BREAKS_READING = """
def claims(span):
    return span.name == "broken"

def read(span, logs):
    raise KeyError("x")
"""
# What passes for the scores of a span, and fails where a session is assembled.
BREAKS_ASSEMBLING = """
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import changed

def claims(span):
    return span.name == "broken"

def read(span, logs):
    return changed(genai.read_attributes(span, span.attributes), evaluations=(1,))
"""
ERROR = "AttributeError: 'int' object has no attribute 'scope'"
ASKED = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "shop",
    "gen_ai.input.messages": '[{"role": "user", "content": "hi"}]',
    "gen_ai.output.messages": '[{"role": "assistant", "content": "ok"}]',
}


def trace(conversation: str, *names: str) -> list[Span]:
    """An agent's span of a conversation, and spans beneath it."""
    about = ASKED | {"gen_ai.conversation.id": conversation}
    ids = [f"{number:016x}" for number in range(1, len(names) + 2)]
    trace_id = conversation * 32
    return [
        Span(trace_id, ids[0], None, "agent", "INTERNAL", 1, 9, attributes=about),
        *(Span(trace_id, one, ids[0], name, "INTERNAL", 2, 3, attributes=ASKED)
          for one, name in zip(ids[1:], names, strict=True)),
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def current() -> None:
    fingerprint.cache_clear()


def test_an_unreadable_span_is_recorded_and_the_rest_of_the_session_is_read(
    install_dialect: Callable[[str, str], None], tmp_path: Path
) -> None:
    install_dialect("acme = acme_dialect", BREAKS_READING + DECLARED)
    whole, alone = sessions([*trace("a", "broken", "fine"), *trace("b", "broken")[1:]], tmp_path / "s.duckdb")
    assert whole.unreadable_spans == (UnreadableSpan("acme", "KeyError: 'x'", "a" * 32, f"{2:016x}"),)
    assert [turn.user_input for turn in whole.turns] == ["hi"]
    assert (len(alone.turns), len(alone.unreadable_spans)) == (0, 1)


def test_a_session_that_cannot_be_assembled_leaves_the_others_as_they_are(
    install_dialect: Callable[[str, str], None], tmp_path: Path
) -> None:
    install_dialect("acme = acme_dialect", BREAKS_ASSEMBLING + DECLARED)
    broken, whole = sorted(
        sessions([*trace("a", "broken"), *trace("b", "fine")], tmp_path / "s.duckdb"),
        key=lambda one: one.session_id,
    )
    assert (broken.session_id, broken.assembly_error) == ("a", ERROR)
    assert (broken.start_ns, broken.turns) == (1, ())
    assert (whole.assembly_error, len(whole.turns)) == (None, 1)


def test_every_command_lists_them(
    install_dialect: Callable[[str, str], None], tmp_path: Path, spangrade: command_line.Spangrade
) -> None:
    db = tmp_path / "s.duckdb"
    install_dialect("acme = acme_dialect", BREAKS_ASSEMBLING + DECLARED)
    with Store.open(db) as store:
        store.add(trace("a", "broken"))
    listed = spangrade("sessions", "--db", db)
    assert listed.code == 0
    assert "AttributeError" in "".join(listed.out)
    shown = [line.strip() for line in spangrade("show", "a", "--db", db).out]
    assert f"could not be assembled: {ERROR}" in shown
    assert json.loads("".join(spangrade("show", "a", "--db", db, "--format", "json").out))["turns"] == []
    linted = spangrade("lint", "--db", db, "--format", "json")
    (finding, *_) = json.loads("".join(linted.out))
    assert (linted.code, finding["code"]) == (4, "not_assembled")
    assert finding["what"] == f"the session could not be assembled: {ERROR}"
    assert "trajectory_accuracy" in finding["metrics"]


def test_lint_reports_the_dialect_the_exception_and_the_span(
    install_dialect: Callable[[str, str], None], tmp_path: Path, spangrade: command_line.Spangrade
) -> None:
    install_dialect("acme = acme_dialect", BREAKS_READING + DECLARED)
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(trace("a", "broken", "broken"))
    linted = spangrade("lint", "--db", tmp_path / "s.duckdb", "--format", "json")
    (finding,) = [one for one in json.loads("".join(linted.out)) if one["code"] == "unreadable_spans"]
    assert finding["what"] == "spans that the dialect acme could not read: KeyError: 'x'"
    assert finding["example"] == f"span {2:016x} of trace {'a' * 32}"
    assert finding["count"] == 2
    assert "cost" in finding["metrics"]


def test_neither_passes() -> None:
    unreadable = session(
        [("hi", ())], unreadable_spans=(UnreadableSpan("acme", "KeyError: 'x'", "t1", "s"),), session_id="a"
    )
    broken = session([], session_id="b", assembly_error="KeyError: 'x'")
    dataset = GoldenDataset(golden_questions=(question("hi"),))
    by_id = {one.session_id: one for one in grade([unreadable, broken], dataset)}
    assert (by_id["a"].verdict, by_id["b"].verdict) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
    assert "1 span could not be read" in by_id["a"].reason
    assert by_id["b"].reason == "it could not be assembled: KeyError: 'x'"
