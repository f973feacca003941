"""Spans that no dialect knows are read by their structure, and nothing is made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from hostile import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import FIXTURES
from recordings import dotted, observed, sessions
from short_form import examples

from spangrade.converters.spans.registry import dialects
from spangrade.converters.spans.values import count
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.files import read
from spangrade.tracer.span import Problem, Span

RECORDINGS = sorted((FIXTURES / "structure").glob("*.otlp.jsonl"))
TURNS = [
    ("What is in my cart?", "Your cart has 2 items, total $129.90."),
    ("Thanks, bye.", "You are welcome, C-1001."),
]
CART = {"items": ["potting soil", "fertilizer"], "total": 129.9}


def records(path: Path) -> list[Any]:
    return [record for record in read(path) if not isinstance(record, Problem)]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_a_recording_of_an_instrumentation_without_a_dialect_is_read(path: Path, tmp_path: Path) -> None:
    (session,) = sessions(records(path), tmp_path / "s.duckdb")
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == TURNS
    (call,) = session.tool_interactions
    assert (call.tool_name, call.input_arguments, call.output, call.ok, call.turn) == (
        "get_cart",
        {"customer_id": "C-1001"},
        CART,
        True,
        1,
    )
    assert (call.call_id or "").startswith("call_")
    assert [(c.input_tokens, c.output_tokens) for c in session.llm_calls] == [(120, 12), (140, 12), (160, 12)]
    assert [(c.model or "").removeprefix("openai/") for c in session.llm_calls] == ["gpt-4o-mini"] * 3
    assert (session.usage.complete, session.not_understood, session.errors) == (True, 0, ())
    records_an_id = path.name.partition(".")[0] not in {"agentops", "langtrace"}
    assert (session.session_id_source, session.session_id == "conv-1") == (
        ("conversation", True) if records_an_id else ("trace", False)
    )
    assert session.agents == (("shop",) if path.name == "traceai.otlp.jsonl" else None)


def span(number: int, parent: int | None, name: str = "step", **fields: Any) -> Span:
    return Span(
        "a" * 32,
        f"{number:016x}",
        None if parent is None else f"{parent:016x}",
        name,
        "INTERNAL",
        number * 10,
        1_000 - number if parent is None else number * 10 + 9,
        **fields,
    )


def vendors_run(vendor: str, kind: str, id_name: str) -> list[Span]:
    """One turn as a made-up vendor records it."""
    history = [{"role": "user", "content": "Any soil?"}]
    asked = {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": "{}"}}],
    }
    result = {"role": "tool", "tool_call_id": "c1", "content": '{"found":3}'}
    steps: list[tuple[int | None, str, dict[str, Any]]] = [
        (None, "shop", {kind: "agent", f"{vendor}.input": "Any soil?", f"{vendor}.output": "Yes, 3."}),
        (
            1,
            "ask",
            {
                kind: "llm",
                f"{vendor}.model": "gpt-4o",
                f"{vendor}.input": json.dumps(history),
                f"{vendor}.output": json.dumps([asked]),
                f"{vendor}.usage.input_tokens": 20,
                f"{vendor}.usage.output_tokens": 5,
            },
        ),
        (1, "find", {kind: "tool", f"{vendor}.input": "{}", f"{vendor}.output": '{"found":3}'}),
        (
            1,
            "ask",
            {
                kind: "llm",
                f"{vendor}.model": "gpt-4o",
                f"{vendor}.input": json.dumps([*history, asked, result]),
                f"{vendor}.output": json.dumps([{"role": "assistant", "content": "Yes, 3."}]),
                f"{vendor}.usage.input_tokens": 30,
                f"{vendor}.usage.output_tokens": 6,
            },
        ),
    ]
    return [
        span(number, parent, name, attributes={**attributes, f"{vendor}.{id_name}": "s-1"}, scope_name=vendor)
        for number, (parent, name, attributes) in enumerate(steps, 1)
    ]


words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=10)
REAL = {"gen", "ai", "llm", "http", "rpc", "url", "net", "aws", "tls", "rum", "server", "client", "thread"}


@settings(max_examples=examples(15))
@given(
    words.filter(lambda word: word not in REAL),
    st.sampled_from(["{}.span.kind", "{}.span.type", "span.type", "type"]),
    st.sampled_from(["session.id", "conversation_id", "chatId", "thread_id"]),
)
def test_a_vendor_that_nobody_knows_is_read(vendor: str, kind: str, id_name: str) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        (session,) = sessions(vendors_run(vendor, kind.format(vendor), id_name), Path(folder) / "s.duckdb")
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [("Any soil?", "Yes, 3.")]
    assert (session.session_id, session.agents) == ("s-1", ("shop",))
    assert [(c.tool_name, c.input_arguments, c.output, c.call_id) for c in session.tool_interactions] == [
        ("find", {}, {"found": 3}, "c1")
    ]
    assert (session.usage.input_tokens, session.usage.output_tokens, session.models) == (50, 11, ("gpt-4o",))


KEYS = st.sampled_from(
    [
        *("acme.span.kind", "span.type", "type", "acme.model", "acme.model.name", "device.model.name"),
        *("acme.input", "acme.output", "input.value", "output.value", "acme.prompt", "acme.response"),
        *("acme.usage.input_tokens", "acme.usage.output_tokens", "acme.usage", "acme.total_tokens"),
        *("acme.session.id", "app.chat_id", "thread.id", "messaging.conversation_id", "metadata"),
        *("acme.tool.name", "acme.agent.name", "acme.arguments", "acme.messages.0.role"),
        *("acme.messages.0.content", "http.request.body"),
    ]
)
VALUES = st.one_of(
    st.sampled_from(
        ["llm", "tool", "agent", "chain", "embedding", "Kind.TOOL", "elephant", "null", "[]", "{}"]
    ),
    st.text(max_size=8),
    st.integers(-5, 10**13),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.text(max_size=3), max_size=2),
    st.sampled_from(
        [
            '[{"role": "user", "content": "walrus"}]',
            '{"type": "chat_messages", "value": [{"role": "assistant", "content": "otter"}]}',
            '{"prompt_tokens": 7, "completion_tokens": -3}',
            '{"thread_id": "heron"}',
            '{"args": ["a"], "kwargs": {}}',
        ]
    ),
)


def texts_of(value: Any) -> set[str]:
    """Every text in a value, also those in JSON."""
    found: set[str] = set()
    if isinstance(value, str):
        found.add(value)
        try:
            inner = json.loads(value)
        except ValueError:
            return found
        return found | (texts_of(inner) if not isinstance(inner, str) else {inner})
    if isinstance(value, dict):
        return found.union(*map(texts_of, value.keys()), *map(texts_of, value.values()))
    if isinstance(value, list | tuple):
        return found.union({canonical(value)}, *map(texts_of, value))  # a list may stand for a text
    return {json.dumps(value), str(value), canonical(value)}


@settings(max_examples=EXAMPLES)
@given(st.dictionaries(KEYS, VALUES, max_size=9))
def test_nothing_is_read_that_is_not_in_the_span(attributes: dict[str, Any]) -> None:
    recorded = observed(attributes, name="ferret")
    if recorded.unreadable is not None:  # a negative count is the only thing that cannot be read
        negative = [f"ValueError: {k} is {v}" for k, v in attributes.items() if "token" in k.lower()]
        assert recorded.unreadable[1] in negative
        assert " is -" in recorded.unreadable[1]
    there = texts_of(attributes) | {"ferret", "", "null"}
    for value in (recorded.user_input, recorded.response, recorded.run_input, recorded.run_output):
        assert value is None or value in there
    for value in (recorded.model, recorded.name, recorded.agent, recorded.call_id, recorded.provider):
        assert value is None or value in there
    assert set(recorded.session_candidates) <= there
    counts = {7, None, *(count(value) for value in attributes.values() if not isinstance(value, list))}
    assert {recorded.input_tokens, recorded.output_tokens} <= counts


CALL = {"acme.model": "gpt-4o", "acme.usage.input_tokens": 9, "acme.usage.output_tokens": 2}


def session_of(tmp_path: Path, *spans: Span) -> Session:
    (session,) = sessions(spans, tmp_path / "s.duckdb")
    return session


def test_a_span_with_a_model_and_tokens_is_a_model_call_unless_it_sums_up_others(tmp_path: Path) -> None:
    spans = [span(1, None, attributes=CALL), span(2, 1, attributes=CALL), span(3, 1, attributes=CALL)]
    session = session_of(tmp_path, *spans)
    assert [call.span_id for call in session.llm_calls] == [f"{2:016x}", f"{3:016x}"]
    assert session.usage.input_tokens == 18


def test_a_span_that_looks_like_a_model_call_does_not_count_beside_one_that_is(tmp_path: Path) -> None:
    sure = dotted(gen_ai__operation__name="chat", gen_ai__request__model="gpt-4o")
    sure |= dotted(gen_ai__usage__input_tokens=9, gen_ai__usage__output_tokens=2)
    session = session_of(tmp_path, span(1, None, attributes=sure), span(2, None, attributes=CALL))
    assert (len(session.llm_calls), session.usage.input_tokens) == (1, 9)


@pytest.mark.parametrize(
    "attributes",
    [
        {"device.model.name": "Pixel", **{k: v for k, v in CALL.items() if k != "acme.model"}},
        {"acme.model": "gpt-4o"},
        {"acme.span.kind": "embedding", **CALL},
        {"acme.span.kind": "tool"},
        {"acme.span.kind": "elephant", "acme.input": "x"},
        {"acme.span.kind": "tool", "span.type": "agent", "acme.input": "x"},
        {"gen_ai.operation.name": "embeddings", **CALL},
    ],
)
def test_what_is_not_certain_is_not_a_step(attributes: dict[str, Any]) -> None:
    assert observed(attributes).kind == "other"


@pytest.mark.parametrize(
    ("attributes", "session_id"),
    [
        ([{"app.chat_id": "c7"}, {}], "c7"),
        ([{"app.chat_id": "c7"}, {"acme.session.id": "c7"}], "c7"),
        ([{"app.chat_id": "c7"}, {"acme.session.id": "c8"}], None),
        ([{"thread.id": "12"}, {"messaging.conversation_id": "m"}], None),
        ([{"session.id": "of the browser", "browser.platform": "X11"}, {}], None),
        ([{}, {"app.chat_id": "c7"}], None),
        ([{"metadata": '{"thread_id": "t1"}'}, {}], "t1"),
    ],
)
def test_the_one_value_that_may_be_a_sessions_id_is_its_id(
    attributes: list[dict[str, Any]], session_id: str | None, tmp_path: Path
) -> None:
    server, other = attributes
    spans = [
        span(1, None, attributes=server, scope_name="http"),
        span(2, 1, attributes=CALL),
        span(3, 1, attributes=other),
    ]
    session = session_of(tmp_path, *spans)
    expected = ("trace", "a" * 32) if session_id is None else ("conversation", session_id)
    assert (session.session_id_source, session.session_id) == expected


SIGNS = {
    "genkit": {"genkit:type": "x"},
    "langfuse": {"langfuse.observation.type": "span"},
    "langsmith": {"langsmith.span.kind": "chain"},
    "mlflow": {"mlflow.spanType": "CHAIN"},
    "openinference": {"openinference.span.kind": "CHAIN"},
    "traceloop": {"traceloop.span.kind": "task"},
    "vercel": {"ai.operationId": "ai.generateText"},
}


@pytest.mark.parametrize("dialect", SIGNS)
def test_a_model_call_by_the_conventions_stays_one_whatever_a_dialect_makes_of_it(dialect: str) -> None:
    call = dotted(
        gen_ai__operation__name="chat",
        gen_ai__request__model="gpt-4o",
        gen_ai__input__messages='[{"role":"user","content":"Hi"}]',
        gen_ai__usage__input_tokens=3,
    )
    attributes = {**call, **SIGNS[dialect]}
    assert next(n for n, d in dialects().items() if d.claims(span(1, None, attributes=attributes))) == dialect
    recorded = observed(attributes)
    assert (recorded.kind, recorded.user_input, recorded.input_tokens) == ("llm", "Hi", 3)


def test_an_import_of_spans_without_a_session_is_never_silent(tmp_path: Path, spangrade: Spangrade) -> None:
    db = str(tmp_path / "s.duckdb")
    for name, attributes in (("web", {"http.route": "/"}), ("task", {"traceloop.span.kind": "task"})):
        (tmp_path / f"{name}.jsonl").write_text(otlp(name, attributes))
    for name in ("web", "task"):
        imported = spangrade("import", tmp_path / f"{name}.jsonl", "--db", db)
        assert " ".join(imported.err) == (
            "spangrade: not understood: 1 span without a session: none of them is known to be an agent's; "
            "examples, and what helps: spangrade lint"
        )
        listed = spangrade("lint", "--db", db, "--format", "json")
        findings = {
            f["what"]: f["count"] for f in json.loads("\n".join(listed.out)) if f["code"] == "no_session"
        }
        assert listed.code == 4
        key = "http.route" if name == "web" else "traceloop.span.kind"
        assert findings[f"spans of scope `{name}` in which no session was found (attributes: {key})"] == 1


def otlp(scope: str, attributes: dict[str, str]) -> str:
    recorded = {
        "traceId": scope.encode().hex()[:32].ljust(32, "0"),
        "spanId": "1" * 16,
        "name": "step",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [recorded]}]}]})


def test_where_two_values_may_be_the_id_the_advice_names_their_attributes(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    path, db = tmp_path / "s.jsonl", str(tmp_path / "s.duckdb")
    call = {"acme.model": "gpt-4o", "acme.span.kind": "llm", "acme.input": "Hi", "acme.output": "Hello"}
    path.write_text(otlp("acme", {**call, "acme.session.id": "s1", "app.chat_id": "c7"}))
    assert spangrade("import", path, "--db", db).code == 0
    listed = json.loads("\n".join(spangrade("lint", "--db", db, "--format", "json").out))
    (finding,) = (one for one in listed if one["code"] == "no_conversation_id")
    assert (
        "(the spans have acme.session.id, app.chat_id): spangrade import --session-from" in finding["advice"]
    )


@pytest.mark.parametrize(
    ("stack", "lacking", "warning", "silent"),
    [
        (
            "ax",
            {"no_user_input": 2, "no_response": 2},
            "2 turns without the user's message, 2 turns without the agent's answer",
            3,
        ),
        ("dspy", {"no_tokens": 2}, "2 model calls without tokens", 0),
        ("gemini_cli", {}, None, 0),
    ],
)
def test_an_import_says_at_once_what_grades_will_miss(
    tmp_path: Path,
    spangrade: Spangrade,
    stack: str,
    lacking: dict[str, int],
    warning: str | None,
    silent: int,
) -> None:
    file, db = FIXTURES / "stacks" / f"{stack}.otlp.jsonl", str(tmp_path / "s.duckdb")
    expected = f"spangrade: grades will miss something: {warning}; what helps: spangrade lint"
    first, *more = [*spangrade("import", file, "--db", db).err, None]
    assert first == (None if warning is None else expected)
    assert [one for one in more if one] == [one for one in more if one and f"{silent} of {silent}" in one]
    again = json.loads("\n".join(spangrade("import", file, "--db", db, "--format", "json").out))
    assert (again["lacking"], again["not_read"]["model_calls"]) == (lacking, silent)


@pytest.mark.parametrize("name", ["tool", "ToolCall.run", "DynamicStructuredTool"])
def test_an_import_counts_what_looks_like_a_tool_and_was_not_read_and_calls_without_content(
    name: str, tmp_path: Path, spangrade: Spangrade
) -> None:
    lines = []
    for number, kind in enumerate(("AGENT", "LLM", "TOOL", "TOOL"), 1):
        document = json.loads(otlp("openinference.instrumentation.agno", {"openinference.span.kind": kind}))
        (recorded,) = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
        parent = {} if number == 1 else {"parentSpanId": f"{1:016x}"}
        recorded |= {"spanId": f"{number:016x}", "name": name, **parent}
        lines.append(json.dumps(document))
    file, db = tmp_path / "s.otlp.jsonl", str(tmp_path / "s.duckdb")
    file.write_text("\n".join(lines))
    (line,) = [one for one in spangrade("import", file, "--db", db).err if "without content" in one]
    assert line.startswith(
        "spangrade: not understood: 2 spans of scope `openinference.instrumentation.agno` (2 of them look "
        "like tools' calls); 1 of 1 model call, without content (OpenInference: "
    )
    assert line.endswith("); examples, and what helps: spangrade lint")
    listed = json.loads("\n".join(spangrade("lint", "--db", db, "--format", "json").out))
    (example,) = (one["example"] for one in listed if one["code"] == "not_understood")
    assert example.startswith((f"span {3:016x}", f"span {4:016x}"))


def test_the_advice_of_an_import_is_that_of_each_stack_whose_calls_have_no_content(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    stacks = [
        ("openinference.instrumentation.agno", {"openinference.span.kind": "LLM", "llm.model_name": "m"}),
        ("pydantic-ai", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}),
    ]
    file, db = tmp_path / "s.otlp.jsonl", str(tmp_path / "s.duckdb")
    file.write_text("\n".join(otlp(scope, attributes) for scope, attributes in stacks))
    imported = json.loads("\n".join(spangrade("import", file, "--db", db, "--format", "json").out))
    assert imported["not_read"]["model_calls"] == 2
    assert [name in imported["not_read"]["help"] for name in ("OpenInference: ", "Pydantic AI: ")] == [
        True
    ] * 2


@pytest.mark.parametrize("written", ["None", "null", "undefined", "NaN", " ", "0" * 32, "[object Object]"])
@pytest.mark.parametrize("attribute", ["session.id", "app.chat_id"])
@pytest.mark.short_form("written", 3)
def test_a_placeholder_for_an_id_is_said_once_in_the_line_of_an_import_and_by_lint(
    written: str, attribute: str, tmp_path: Path, spangrade: Spangrade
) -> None:
    call = {"acme.model": "gpt-4o", "acme.span.kind": "llm", "acme.input": "Hi", "acme.output": "Hello"}
    file, db = tmp_path / "s.otlp.jsonl", str(tmp_path / "s.duckdb")
    lines = (otlp(scope, {**call, attribute: written}) for scope in ("acme", "acme2"))
    file.write_text("\n".join(lines))
    (line,) = [one for one in spangrade("import", file, "--db", db).err if "not understood" in one]
    said = f"`{attribute}` of {json.dumps(written)} is none"
    assert f"the id of 2 sessions: {said}, and each trace is a session" in line
    listed = json.loads("\n".join(spangrade("lint", "--db", db, "--format", "json").out))
    found = [one["advice"] for one in listed if one["code"] == "no_conversation_id"]
    assert len(found) == 2
    assert all(said in one for one in found)


def test_show_says_the_tokens_that_only_a_run_records_and_that_their_calls_are_not_counted(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    counts = {"llm.token_count.prompt": "211", "llm.token_count.completion": "21"}
    file, db = tmp_path / "s.otlp.jsonl", str(tmp_path / "s.duckdb")
    file.write_text(otlp("acme", {"openinference.span.kind": "AGENT", "session.id": "s1", **counts}))
    spangrade("import", file, "--db", db)
    (line,) = [one for one in spangrade("show", "s1", "--db", db).out if one.startswith("tokens")]
    assert " ".join(line.split()) == (
        "tokens 211 in (unknown cached), 21 out (unknown reasoning), in an unknown number of model calls"
    )
