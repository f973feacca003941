"""Dialects without Python, in the settings of a project, and the one that CONTRIBUTING.md walks through."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import observed_fields
from command_line import Spangrade
from paths import ROOT

import spangrade as package
from spangrade.converters.spans.registry import setting
from spangrade.evaluator.reports.html.session_source import state_changes
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store


def otlp(*spans: tuple[str, str | None, dict[str, object]]) -> str:
    """Return spans of the scope `acme.sdk` as OTLP, each given by its name, its parent and its attributes."""
    recorded = [
        {
            "traceId": "a" * 32,
            "spanId": f"{number:016x}",
            **({} if parent is None else {"parentSpanId": f"{1:016x}"}),
            "name": name,
            "startTimeUnixNano": str(number * 10),
            "endTimeUnixNano": str(1_000 if parent is None else number * 10 + 5),
            "attributes": [
                {
                    "key": key,
                    "value": {"intValue": value} if isinstance(value, int) else {"stringValue": value},
                }
                for key, value in attributes.items()
            ],
        }
        for number, (name, parent, attributes) in enumerate(spans, 1)
    ]
    return json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "acme.sdk"}, "spans": recorded}]}]}
    )


RUN = otlp(
    ("shop", None, {"acme.step": "run", "acme.chat": "c7", "acme.in": "Any soil?", "acme.out": "Yes, 3."}),
    (
        "think",
        "1",
        {"acme.step": "ask", "acme.model": "gpt-4o", "acme.in": "Any soil?", "acme.tokens_in": 20}
        | {"acme.tokens_out": 5, "acme.out": "Yes, 3."},
    ),
    ("find", "1", {"acme.step": "use", "acme.args": '{"q": "soil"}', "acme.result": '{"found": 3}'}),
    ("rank", "1", {"acme.step": "shuffle"}),
)


def example(page: str, heading: str, language: str) -> str:
    """Return the first block of code after a heading of a page."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_a_vendor_in_the_settings_is_read_and_the_database_remembers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spangrade: Spangrade
) -> None:
    (tmp_path / "spans.jsonl").write_text(RUN)
    db = tmp_path / "s.duckdb"
    monkeypatch.chdir(tmp_path)
    spangrade("import", "spans.jsonl", "--db", db)
    (unknown,) = package.open(db).sessions()
    assert (unknown.agents, unknown.tool_interactions) == (None, ())
    vendor = example("docs/reading.md", "## A vendor of your own, without Python", "toml")
    (tmp_path / "spangrade.toml").write_text(vendor)
    opened = package.open(db)
    for _ in range(2):
        (session,) = opened.sessions()
        assert (session.session_id, session.agents) == ("c7", ("shop",))
        assert [(t.user_input, t.final_response) for t in session.turns] == [("Any soil?", "Yes, 3.")]
        assert [(c.tool_name, c.input_arguments, c.output) for c in session.tool_interactions] == [
            ("find", {"q": "soil"}, {"found": 3})
        ]
        assert (session.models, session.usage.input_tokens, session.usage.output_tokens) == (
            ("gpt-4o",),
            20,
            5,
        )
        (tmp_path / "spangrade.toml").unlink(missing_ok=True)
        opened = package.open(db)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ('[[dialects]]\nscopes = ["acme"]', "dialects[0].name: missing"),
        ('[[dialects]]\nname = "a"\nscope = "acme"', "dialects[0].scope"),
        ('[[dialects]]\nname = "a"\nkinds = { x = "elephant" }', "dialects[0].kinds"),
    ],
)
def test_a_vendor_that_cannot_be_read_is_refused_by_its_place(
    settings: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spangrade: Spangrade
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spangrade.toml").write_text(settings)
    (tmp_path / "spans.jsonl").write_text(RUN)
    done = spangrade("import", "spans.jsonl")
    assert (done.code, problem in " ".join(done.err)) == (2, True)


def test_the_dialect_that_contributing_walks_through_reads_its_spans(
    install_dialect: Callable[[str, str], None],
) -> None:
    source = example("CONTRIBUTING.md", "### A dialect", "python")
    install_dialect("nimbus = acme_dialect", source)
    job = {"nimbus.type": "job", "nimbus.in": '{"q":"soil"}', "nimbus.out": '{"found":3}'}
    call = {"nimbus.type": "model", "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
    call["openinference.span.kind"] = "CHAIN"
    spans = [
        Span("t", str(number), None, "find", "INTERNAL", 1, 2, attributes=attributes)
        for number, attributes in enumerate((job, call))
    ]
    tool, model = observed_fields(spans)
    assert (tool.kind, tool.name, tool.arguments, tool.result) == (
        "tool",
        "find",
        '{"q":"soil"}',
        '{"found":3}',
    )
    assert (model.kind, model.model) == ("llm", "gpt-4o")
    assert setting(spans[0], "content") == "Nimbus: set NIMBUS_RECORD=all"


def test_the_changes_of_state_on_a_page_are_those_that_the_dialects_of_the_settings_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spangrade: Spangrade
) -> None:
    graph = {
        "openinference.span.kind": "CHAIN",
        "metadata": '{"ls_integration": "langgraph"}',
        "output.value": '{"messages": [], "cart": 3}',
        "acme.chat": "c7",
        "acme.step": "run",
    }
    (tmp_path / "spans.jsonl").write_text(otlp(("shop", None, graph)))
    monkeypatch.chdir(tmp_path)
    for db, settings, state in (
        ("known", "", {"cart": 3}),
        ("own", '[[dialects]]\nname = "acme"\nattributes = ["acme.step"]\nsession_id = "acme.chat"\n', {}),
    ):
        (tmp_path / "spangrade.toml").write_text(settings)
        spangrade("import", "spans.jsonl", "--db", f"{db}.duckdb", "--session-from", "acme.chat")
        with Store.open(tmp_path / f"{db}.duckdb", read_only=True) as store:
            variables = [change.variables for change in state_changes(store, "c7")]
        assert {name: value for one in variables for name, value in one.items() if name == "cart"} == state
