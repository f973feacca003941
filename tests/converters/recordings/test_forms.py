"""The forms that vendors write: each file tells the same of one conversation, but what it leaves out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_once import new_database
from paths import FIXTURES
from recordings import sessions_of_file

import spangrade
from spangrade import InputError, Session
from spangrade.tracer.span import Problem

FORMS = FIXTURES / "forms"
CASES: list[dict[str, Any]] = json.loads((FORMS / "cases.json").read_text())
TOLD = {
    "id": "s1",
    "user": "Where is A1?",
    "reply": "It is shipped.",
    "agent": "desk",
    "tool": "look_up",
    "arguments": {"order": "A1"},
    "output": {"status": "shipped"},
    "tokens": 71,
    "state": None,
}


def told(session: Session) -> dict[str, Any]:
    (turn,), (call,) = session.turns, session.tool_interactions
    counts = (session.usage.input_tokens, session.usage.output_tokens)
    return {
        "id": session.session_id if session.session_id_source == "conversation" else None,
        "user": turn.user_input,
        "reply": turn.final_response,
        "agent": session.agents[0] if session.agents else None,
        "tool": call.tool_name,
        "arguments": call.input_arguments,
        "output": call.output,
        "tokens": None if None in counts else sum(counts),
        "state": session.state_variables,
    }


def problems(file: Path) -> list[Problem]:
    """Return what an import of a file says of what it could not read."""
    found: list[Problem] = []
    with (
        spangrade.open(":memory:", settings=None, on_problem=found.append) as db,
        pytest.raises(InputError),
    ):
        db.import_files(file)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_each_form_is_read_and_what_it_leaves_out_is_unknown(case: dict[str, Any], tmp_path: Path) -> None:
    db = spangrade.open(new_database(tmp_path / "s.duckdb"), settings=None)
    imported = db.import_files(FORMS / case["file"], strict=True)
    (session,) = db
    assert imported.not_read.spans == imported.not_read.turns == {}
    found, expected = told(session), TOLD | case.get("differs", {})
    if expected["id"] is None:  # the id of a trace, or a digest
        found["id"] = None
    assert found == expected


LAYOUTS: dict[str, Callable[[list[Any]], str]] = {
    "jq .": lambda documents: "".join(json.dumps(one, indent=2) + "\n" for one in documents),
    "joined": lambda documents: "".join(map(json.dumps, documents)),
    "RFC 7464": lambda documents: "".join(f"\x1e{json.dumps(one)}\n" for one in documents),
    "an array": json.dumps,
    "CRLF": lambda documents: "\ufeff" + "\r\n\r\n".join(map(json.dumps, documents)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", [one for one in CASES if "json" in one["file"]], ids=lambda one: one["file"])
@pytest.mark.short_form("case", 12)
def test_documents_in_any_layout_are_the_same(case: dict[str, Any], layout: str, tmp_path: Path) -> None:
    text = (FORMS / case["file"]).read_text()
    is_lines = case["file"].endswith("l")
    documents = [json.loads(line) for line in text.splitlines()] if is_lines else [json.loads(text)]
    (tmp_path / "laid_out").write_text(LAYOUTS[layout](documents))
    (session,) = sessions_of_file(tmp_path / "laid_out", tmp_path / "s.duckdb")
    found, expected = told(session), TOLD | case.get("differs", {})
    assert found | {"id": 0} == expected | {"id": 0}


@pytest.mark.parametrize(
    "printed",
    [
        json.dumps({"name": "a", "context": {"trace_id": "0x1", "span_id": "0x2"}, "start_time": "now"}),
        json.dumps({"Name": "a", "SpanContext": {"TraceID": "1" * 32, "SpanID": "2" * 16}, "SpanKind": 1}),
        f"{{\n  resource: {{ attributes: {{}} }},\n  traceId: '{'1' * 32}',\n  name: 'a',\n}}\n",
        f"Activity.TraceId:            {'1' * 32}\nActivity.SpanId:             {'2' * 16}\n",
        f"Resource SchemaURL:\nResourceSpans #0\nSpan #0\n    Trace ID       : {'1' * 32}\n",
    ],
    ids=["Python", "Go", "Node", ".NET", "Collector"],
)
def test_what_a_console_exporter_printed_is_said_with_the_exporter_to_use(
    printed: str, tmp_path: Path
) -> None:
    file = tmp_path / "printed"
    file.write_text(printed)
    (problem,) = problems(file)
    assert "console exporter" in problem.message
    assert "OTEL_TRACES_EXPORTER=otlp" in problem.message


def test_each_file_is_a_case_and_each_format_has_three() -> None:
    assert {case["file"] for case in CASES} == {file.name for file in FORMS.iterdir()} - {"cases.json"}
    assert min(Counter(case["format"] for case in CASES).values()) >= 3


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Hi"}]}], "Pydantic AI"),
        ({"messages": [{"source": "user", "type": "TextMessage", "content": "Hi"}]}, "AutoGen"),
        ([{"id": "r1", "run_type": "llm", "trace_id": "t1", "inputs": {}, "outputs": {}}], "LangSmith"),
    ],
)
def test_a_form_without_a_reader_is_refused_by_its_name(document: Any, words: str, tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(document))
    (problem,) = problems(file)
    assert words in problem.message
    assert "\n" not in problem.message
    assert "import the spans" in problem.message


@pytest.mark.parametrize("places", [(0, 1, 2), (2, 1, 0)])
def test_items_of_a_page_with_more_are_unfinished_and_of_unknown_order_refused(
    places: tuple[int, ...], tmp_path: Path
) -> None:
    items = [
        {"id": "m1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"id": "w1", "type": "web_search_call", "status": "completed", "action": {"query": "A1"}},
        {
            "id": "m2",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "A"}],
        },
    ]
    page = {"object": "list", "data": [items[place] for place in places], "has_more": True}
    file = tmp_path / "items.json"
    file.write_text(json.dumps(page))
    with spangrade.open(":memory:", settings=None) as db:
        db.import_files(file, strict=True)
        (session,) = db
        assert session.unfinished
        assert [(turn.user_input, turn.final_response) for turn in session.turns] == [("Hi", "A")]
    file.write_text(json.dumps({"object": "list", "data": [items[0], items[2], items[0]]}))
    (problem,) = problems(file)
    assert "order=asc" in problem.message
