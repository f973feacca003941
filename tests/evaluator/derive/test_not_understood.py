"""Spans that look like an agent's and that no dialect understood are counted, and leave facts open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade

from spangrade.converters.spans.agents import looks_like_an_agents
from spangrade.evaluator.database import Database
from spangrade.evaluator.grading.policy import why_incomplete
from spangrade.evaluator.session import Latency, Usage
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop", "gen_ai.conversation.id": "c"}
CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
CALL |= {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
NEW = {"llm.newthing.model": "m", "llm.newthing.prompt": "Hi"}


def span(number: int, parent: int | None, attributes: dict[str, Any], scope: str = "lib") -> Span:
    return Span(
        "a" * 32,
        f"{number:016x}",
        None if parent is None else f"{parent:016x}",
        "a span",
        "INTERNAL",
        number,
        100 - number,
        attributes=attributes,
        scope_name=scope,
    )


def database(tmp_path: Path, *spans: Span) -> Database:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.add(spans)
    return Database(path)


@pytest.mark.parametrize(
    ("attributes", "scope", "expected"),
    [
        (NEW, "lib", True),
        ({"anything.input": "x"}, "genkit-tracer", True),
        ({"genkit:input": "x"}, None, True),
        ({"http.url": "/", "gen_ai.conversation.id": "c"}, "opentelemetry.instrumentation.httpx", False),
        ({"langfuse.trace.input": "x", "db.statement": "SELECT 1"}, "lib", False),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"}, "lib", False),
        ({"mcp.method.name": "tools/list", "gen_ai.input": "x"}, "lib", False),
        ({}, "ai", False),
    ],
)
def test_a_span_with_content_of_an_agents_instrumentation_looks_like_an_agents(
    attributes: dict[str, Any], scope: str | None, expected: bool
) -> None:
    assert looks_like_an_agents(span(1, None, attributes)._replace(scope_name=scope)) is expected


def test_a_session_with_spans_that_were_not_understood_is_marked_and_its_totals_are_unknown(
    tmp_path: Path,
) -> None:
    db = database(tmp_path, span(1, None, AGENT), span(2, 1, CALL), span(3, 1, NEW, "newlib"))
    (session,) = db.sessions()
    assert (session.not_understood, session.agents, session.handoffs) == (1, ("shop",), None)
    assert (session.usage, session.models, session.cost_usd) == (Usage(), None, None)
    assert session.latency == Latency(total_s=session.latency.total_s)
    assert why_incomplete(session) == "1 span was not understood by any dialect"
    assert db.not_understood() == {"newlib": 1}
    (finding,) = (one for one in db.lint() if one.code == "not_understood")
    assert (finding.session_id, finding.count) == ("c", 1)
    names = "llm.newthing.model, llm.newthing.prompt"
    assert finding.what == f"spans of scope `newlib` that no dialect understood (attributes: {names})"
    assert "--ignore-scope newlib" in (finding.advice or "")


@pytest.mark.parametrize("parent_of_call", [3, 1])
@pytest.mark.short_form("parent_of_call", 2)
def test_a_span_that_holds_understood_ones_together_or_is_inside_a_call_leaves_nothing_open(
    parent_of_call: int, tmp_path: Path
) -> None:
    new_parent = 1 if parent_of_call == 3 else 4
    spans = span(1, None, AGENT), span(4, parent_of_call, CALL), span(3, new_parent, NEW)
    (session,) = database(tmp_path, *spans).sessions()
    assert (session.not_understood, session.usage.input_tokens) == (0, 10)


@pytest.mark.exhaustive
def test_import_sessions_and_lint_report_a_recording_of_which_nothing_was_understood(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    line = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "scope": {"name": "newlib"},
                        "spans": [
                            {
                                "traceId": "a" * 32,
                                "spanId": f"{number:016x}",
                                "name": "step",
                                "startTimeUnixNano": "1",
                                "endTimeUnixNano": "2",
                                "attributes": [{"key": "llm.new.model", "value": {"stringValue": "m"}}],
                            }
                            for number in (1, 2)
                        ],
                    }
                ]
            }
        ]
    }
    path, db = tmp_path / "spans.otlp.jsonl", str(tmp_path / "s.duckdb")
    path.write_text(json.dumps(line))
    warning = [
        "spangrade: not understood: 2 spans of scope `newlib`; examples, and what helps: spangrade lint"
    ]
    assert spangrade("import", path, "--db", db).err == warning
    assert spangrade("sessions", "--db", db).err == [
        "spangrade: 2 spans of scope `newlib` were not understood; what helps: spangrade lint"
    ]
    listed = spangrade("lint", "--db", db, "--format", "json")
    (finding,) = json.loads("\n".join(listed.out))
    assert (listed.code, finding["code"]) == (4, "not_understood")
    assert finding["example"] == f"span {1:016x} of trace {'a' * 32}"
    assert spangrade("import", path, "--db", db, "--ignore-scope", "newlib").err == []
    assert spangrade("lint", "--db", db).out == ["nothing is lacking"]
    assert spangrade("import", path, "--db", db, "--ignore-scope", "").err == warning
